#!/usr/bin/env bash
# test/bench/no_regret.sh: find points at which the planner's choice is not the best. On a
# throw-away server (test/setup.sh), with a GPU where there is one: points that have a name
# (regret_rows.pl), a random search for the worst (regret_search.pl), and a grid of rows, keys,
# matches, sets of indexes, page costs and forms of the question (regret_points.pl).
#
#   REGRET_NAMED   pattern of the named points (.)
#   REGRET_SEARCH  seconds of the search (120); REGRET_SEED: where it starts (by chance)
#   REGRET_FACTS   rows of the tables of the search (600000)
#   REGRET_ROWS    sizes of the grid's table ("100000 1000000")
#   REGRET_KEYS    sizes of the set ("1 10 100 1000 10000 100000")
#   REGRET_FORMS   forms of the question, see regret_points.pl
#   REGRET_RUNS    rounds at each point (3)
#   REGRET_LIMIT   seconds of the measurements, about (900), without the build and the data: the
#                  search keeps its time, at most half of all; a quarter of the rest is kept for the
#                  grid and the parts after it, and the named points, which come first, may use the
#                  others. The grid, in a scattered order, has two thirds of the time that is left
#                  then; cold points and suspicious points, once more, have the last third
#   REGRET_TIMEOUT seconds that a statement may take (5)
#   REGRET_CLOCK   wall, or cpu: the processor's time that the backend took, without parallel
#                  plans, for a machine that is busy with other things (wall)
#   REGRET_COLD    points that are also measured with nothing in memory (12)
#   REGRET_DEVICE  gpujoin.device (auto)
#   REGRET_OUT     folder for the report (test/bench/results)
#
# At each point four plans are timed in turn, planning included: the planner's choice, its choice
# with gpujoin.enabled = off, with gpujoin.force = on, and without parallel workers; answers are
# compared. Where two of them are the same plan, their times count together. A regret is a choice
# that takes more than 1.3 times what the best of them takes, and 0.2 ms more. Where it looks like
# one, the point is measured again with more rounds; the last time counts. Settings are PostgreSQL's
# defaults, except for those in measuring_settings; the named points and the search set their own
# work_mem.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all_sets="gpujoin gpujoin+btree include+covering"

export REGRET_ROWS=${REGRET_ROWS:-100000 1000000} REGRET_RUNS=${REGRET_RUNS:-3}
export REGRET_KEYS=${REGRET_KEYS:-1 10 100 1000 10000 100000} REGRET_LIMIT=${REGRET_LIMIT:-900}
export REGRET_FORMS=${REGRET_FORMS:-} REGRET_DEVICE=${REGRET_DEVICE:-auto}
export REGRET_NAMED=${REGRET_NAMED:-.} REGRET_SEARCH=${REGRET_SEARCH:-120}
export REGRET_SEED=${REGRET_SEED:-$((RANDOM))} REGRET_FACTS=${REGRET_FACTS:-600000}
export REGRET_TIMEOUT=${REGRET_TIMEOUT:-5}
export REGRET_COLD=${REGRET_COLD:-12} REGRET_CLOCK=${REGRET_CLOCK:-wall}
whole_number REGRET_RUNS REGRET_LIMIT REGRET_SEARCH REGRET_FACTS REGRET_TIMEOUT
[[ $REGRET_CLOCK =~ ^(wall|cpu)$ ]] || die "REGRET_CLOCK must be wall or cpu"

last_words() { keep_report "$1" "${REGRET_OUT:-}"; }

# The work folder's copy of the sources has no commit.
inside || REGRET_COMMIT=$(git -c safe.directory="$project" -C "$project" describe --always --dirty \
    2>/dev/null || echo unknown)
export REGRET_COMMIT
inside || run_inside regret test/bench/no_regret.sh

export PGDATABASE=regret

# Rows of the usual width, keys all over the table: 100,000 even numbers; odd keys match nothing.
make_data() {
    local rows
    createdb --maintenance-db=postgres regret
    sql -f test/bench/functions.sql
    sql -v facts="$REGRET_FACTS" -v delta="0.$((REGRET_SEED % 50 + 10))" \
        -f test/bench/regret_tables.sql >/dev/null
    for rows in $REGRET_ROWS; do
        sql >/dev/null <<SQL
$committed_for_good;
SELECT setseed(0.5);
CREATE TABLE t$rows AS SELECT id::int, 2 * (1 + floor(random() * 80000))::int AS k,
    (random() * 1000)::int AS v, md5(id::text) AS text FROM generate_series(1, $rows) id;
CREATE UNIQUE INDEX t${rows}_pkey ON t$rows (id);
CREATE INDEX t${rows}_ids ON t$rows USING gpujoin (id);
CREATE INDEX t${rows}_gpujoin ON t$rows USING gpujoin (k);
CREATE INDEX t${rows}_include ON t$rows USING gpujoin (k) INCLUDE (v);
CREATE INDEX t${rows}_btree ON t$rows (k);
CREATE INDEX t${rows}_covering ON t$rows (k) INCLUDE (v);
VACUUM (FREEZE, ANALYZE) t$rows;
CHECKPOINT;
SQL
        require_all_visible "t$rows"
        for index in gpujoin include; do
            sql -c "SELECT gpujoin_load('t${rows}_$index')" >/dev/null 2>&1 || true
        done
    done
}

clock_name() {
    [ "$REGRET_CLOCK" = cpu ] && echo "of the processor" || echo "as a clock shows them"
}

points() { # FILE ROUNDS SECONDS MODE...
    perl test/bench/regret_points.pl "$log/$1" "${@:2}"
}

# Seconds of REGRET_LIMIT that are left.
left() {
    local gone=$((SECONDS - began))
    echo $((REGRET_LIMIT > gone ? REGRET_LIMIT - gone : 0))
}

start_regret_server() {
    {
        measuring_settings 1024
        echo "gpujoin.device = '$REGRET_DEVICE'"
    } | start_server regret
}

# Cold points: each plan in each round gets a restart.
cold_points() {
    local rows=${REGRET_ROWS##* } set keys plan round n=0
    for keys in 10 1000 10000; do
        for set in $all_sets; do
            ((n < REGRET_COLD)) || return 0
            n=$((n + 1))
            for round in 1 2 3; do
                (($(left) > REGRET_LIMIT / 5)) || { note "no time for the rest"; return 0; }
                while IFS= read -r plan <&3; do
                    go_cold regret start_regret_server
                    points cold.jsonl 0 60 once "cold_any_sum,$rows,$set,$keys,$keys,4" "$plan" \
                        >/dev/null
                done 3< <(in_order "$round" choice stock force)
            done
        done
    done
    say_how_cold "Cold points"
}

build_and_install
say "starting a throw-away server"
start_regret_server
say "making the tables"
make_data
device=$(device_name)
say "measuring what has a name; device: $device ($SECONDS s)"
began=$SECONDS
seconds=$((REGRET_SEARCH < REGRET_LIMIT / 2 ? REGRET_SEARCH : REGRET_LIMIT / 2))
named=$(points named.jsonl "$REGRET_RUNS" $(((REGRET_LIMIT - seconds) * 3 / 4)) \
    named "$REGRET_NAMED")
note "$named"
((seconds <= $(left))) || seconds=$(left)
say "searching for $seconds s, from seed $REGRET_SEED ($SECONDS s)"
((seconds == 0)) ||
    perl test/bench/regret_search.pl "$log/search.jsonl" "$seconds" "$REGRET_SEED" |
    tee "$log/search.txt"
say "measuring the grid ($SECONDS s)"
grid=$(points grid.jsonl "$REGRET_RUNS" $(($(left) * 2 / 3)) grid)
note "$grid"
[ "$REGRET_COLD" = 0 ] || { say "cold points ($SECONDS s)"; cold_points; }
for factor in 3 5; do
    perl test/bench/regret.pl suspects "$log"/{named,grid}.jsonl "$log"/again-*.jsonl \
        >"$work/suspects"
    say "$(wc -l <"$work/suspects") suspicious points once more ($SECONDS s)"
    points "again-$factor.jsonl" $((REGRET_RUNS * factor)) "$(left)" again <"$work/suspects"
done

mkdir "$log/report"
name=$(date +%F)-$(tr -cs '[:alnum:]\n' - <<<"${device,,}" | sed 's/^-*//; s/-*$//')-no-regret
{
    echo "# Is the planner's choice the best?"
    echo
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $(nproc) processors of type" \
        "$(processor_name); device: $device. Tables of $REGRET_ROWS rows; $grid points of grid" \
        "and $named with a name were reached. Times in ms, $(clock_name)." \
        "gpujoin at commit $REGRET_COMMIT, $(date +%F)."
    [ ! -s "$log/remarks.txt" ] || { echo; cat "$log/remarks.txt"; }
    perl test/bench/regret.pl report "$log"/{named,grid,cold}.jsonl "$log"/again-*.jsonl
    [ ! -s "$log/search.jsonl" ] || {
        printf '\n## The search\n\n%s.\n\n' "$(paste -sd ';' "$log/search.txt")"
        perl test/bench/regret.pl search "$log/search.jsonl"
    }
} >"$log/report/$name.md"
sed '/^## Plans/,$d' "$log/report/$name.md"
stop_server regret
! grep -q 'Different answers' "$log/report/$name.md" || die "answers differ"
