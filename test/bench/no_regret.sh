#!/usr/bin/env bash
# test/bench/no_regret.sh: where is the planner's choice not the best? A grid of rows, keys,
# matches, sets of indexes and forms of the question, on a throw-away server (test/setup.sh), with a
# GPU where there is one.
#
#   REGRET_ROWS    sizes of the table ("100000 1000000")
#   REGRET_KEYS    sizes of the set ("1 10 100 1000 10000 100000")
#   REGRET_FORMS   forms of the question, see statement_of
#   REGRET_RUNS    rounds at each point (3)
#   REGRET_LIMIT   seconds that all of it takes, about (900): six tenths for the grid, whose points
#                  come in an order that leaves no corner for the end, then cold points, then
#                  points with a suspicious choice once more
#   REGRET_CLOCK   wall, or cpu: the processor's time that the backend took, without parallel
#                  plans, for a machine that is busy with other things (wall)
#   REGRET_COLD    points that are also measured with nothing in memory (12)
#   REGRET_DEVICE  gpujoin.device (auto)
#   REGRET_OUT     folder for the report (test/bench/results)
#
# At each point three plans are timed in turn, planning included: the planner's choice, its choice
# with gpujoin.enabled = off, and with gpujoin.force = on; answers are compared. Where two of them
# are the same plan, their times count together. A regret is a choice that takes more than 1.3
# times what the best of the three takes, and 0.2 ms more. Where it looks like one, the point is
# measured again, up to three times and with more rounds; the last time counts. Settings are
# PostgreSQL's defaults but for those in measuring_settings.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all_forms="any_count any_sum any_generic limit not_in join semi unnest"
all_sets="gpujoin gpujoin+btree include+covering"

export REGRET_ROWS=${REGRET_ROWS:-100000 1000000} REGRET_RUNS=${REGRET_RUNS:-3}
export REGRET_KEYS=${REGRET_KEYS:-1 10 100 1000 10000 100000} REGRET_LIMIT=${REGRET_LIMIT:-900}
export REGRET_FORMS=${REGRET_FORMS:-$all_forms} REGRET_DEVICE=${REGRET_DEVICE:-auto}
export REGRET_COLD=${REGRET_COLD:-12} REGRET_CLOCK=${REGRET_CLOCK:-wall}
whole_number REGRET_RUNS REGRET_LIMIT
[[ $REGRET_CLOCK =~ ^(wall|cpu)$ ]] || die "REGRET_CLOCK must be wall or cpu"

last_words() { keep_report "$1" "${REGRET_OUT:-}"; }

inside || run_inside regret test/bench/no_regret.sh

export PGDATABASE=regret

# Rows of the usual width, keys all over the table: 100,000 even numbers; odd keys match nothing.
make_data() {
    local rows
    createdb --maintenance-db=postgres regret
    sql -f test/bench/functions.sql
    for rows in $REGRET_ROWS; do
        sql >/dev/null <<SQL
$committed_for_good;
SELECT setseed(0.5);
CREATE TABLE t$rows AS SELECT id::int, 2 * (1 + floor(random() * 80000))::int AS k,
    (random() * 1000)::int AS v, md5(id::text) AS text FROM generate_series(1, $rows) id;
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

statement_of() { # FORM TABLE KEYS-TABLE; :'a' is the array, p the prepared statement
    case $1 in
        any_count) echo "SELECT count(*) FROM $2 WHERE k = ANY (:'a')" ;;
        any_sum) echo "SELECT sum(v) FROM $2 WHERE k = ANY (:'a')" ;;
        any_generic) echo "EXECUTE p (:'a')" ;;
        limit) echo "SELECT count(text) FROM (SELECT * FROM $2 WHERE k = ANY (:'a') LIMIT 10) x" ;;
        not_in) echo "SELECT sum(v) FROM $2 WHERE k <> ALL (:'a')" ;;
        join) echo "SELECT count(*), sum(v) FROM $3 s JOIN $2 b ON b.k = s.k" ;;
        semi) echo "SELECT count(*), sum(v) FROM $2 WHERE k IN (SELECT k FROM $3)" ;;
        unnest) echo "SELECT count(*), sum(v) FROM unnest(:'a'::int[]) s(k)
            JOIN $2 b ON b.k = s.k" ;;
    esac
}

plan_settings() {
    case $1 in
        choice) echo "SET gpujoin.enabled = on; SET gpujoin.force = off;" ;;
        stock) echo "SET gpujoin.enabled = off; SET gpujoin.force = off;" ;;
        force) echo "SET gpujoin.enabled = on; SET gpujoin.force = on;" ;;
    esac
}

# What makes a session say how long each statement takes
clock_settings() {
    [ "$REGRET_CLOCK" = cpu ] || return 0
    echo "SET max_parallel_workers_per_gather = 0; SET client_min_messages = log;"
    echo "SET log_statement_stats = on;"
}

clock_name() {
    [ "$REGRET_CLOCK" = cpu ] && echo "of the processor" || echo "as a clock shows them"
}

timed() { # STATEMENT
    if [ "$REGRET_CLOCK" = cpu ]; then
        echo "$1;"
    else
        printf '\\timing on\n%s;\n\\timing off\n' "$1"
    fi
}

# point_script ROWS SET KEYS MATCHING ROUNDS FORM...: what one session does; regret.pl reads what
# it prints.
point_script() {
    local rows=$1 set=$2 keys=$3 matching=$4 rounds=$5 table name form plan round shown
    shift 5
    table=$(sql -c "SELECT make_keys($keys, $matching)")
    shown=t${rows}_${set/+/ t${rows}_}
    sql -c "SELECT array_agg(k) FROM $table" >"$work/array"
    echo "\\set a \`cat $work/array\`"
    echo "SELECT show_indexes('t$rows', '$shown') \\g /dev/null"
    clock_settings
    echo "SET plan_cache_mode = force_generic_plan;"
    echo "PREPARE p (int[]) AS SELECT sum(v) FROM t$rows WHERE k = ANY (\$1);"
    for form in "$@"; do
        name="$form,$rows,$set,$keys,$matching"
        for plan in choice stock force; do
            plan_settings "$plan"
            printf '\\echo @plan %s %s\n' "$name" "$plan"
            echo "EXPLAIN $(statement_of "$form" "t$rows" "$table");"
        done
        # Round 0 is not counted.
        for ((round = 0; round <= rounds; round++)); do
            while IFS= read -r plan; do
                plan_settings "$plan"
                printf '\\echo @run %s %s %s\n' "$name" "$plan" "$round"
                timed "$(statement_of "$form" "t$rows" "$table")"
            done < <(in_order "$round" choice stock force)
        done
    done
}

run_point() { # FILE and point_script's arguments
    local file=$1
    shift
    point_script "$@" >"$work/script"
    # A statement that takes minutes tells enough by being cut short; its time then is the limit.
    PGOPTIONS='-c statement_timeout=5s' psql -XqAt -f "$work/script" >>"$file" 2>&1 ||
        die "a point failed: $* (see $file)"
}

# All points but those with more matching keys than there are, in a scattered order.
points() {
    local rows set keys matching
    for rows in $REGRET_ROWS; do
        for set in $all_sets; do
            for keys in $REGRET_KEYS; do
                for matching in $(printf '%s\n' $((keys < 80000 ? keys : 80000)) \
                    $(((keys + 99) / 100)) | sort -un); do
                    echo "$rows $set $keys $matching"
                done
            done
        done
    done | awk '{print NR * 7919 % 10007, $0}' | sort -n | cut -d' ' -f2-
}

start_regret_server() {
    {
        measuring_settings 1024
        echo "gpujoin.device = '$REGRET_DEVICE'"
    } | start_server regret
}

# Cold points: each plan in each round gets a restart.
cold_points() {
    local rows set keys plan round name n=0 form=any_sum
    rows=${REGRET_ROWS##* }
    for keys in 10 1000 10000; do
        for set in $all_sets; do
            ((n < REGRET_COLD)) || return 0
            n=$((n + 1))
            name="cold_$form,$rows,$set,$keys,$keys"
            for round in 0 1 2 3; do
                ((SECONDS < REGRET_LIMIT * 3 / 4)) || { note "no time for the rest"; return 0; }
                while IFS= read -r plan <&3; do
                    # Round 0 is for the plans; it needs no restart.
                    [ "$round" = 0 ] || go_cold regret start_regret_server
                    point_script "$rows" "$set" "$keys" "$keys" 0 "$form" |
                        sed -nE -e '/^\\set|^SET (client|log|max)|show_indexes/p' \
                            -e "/@plan [^ ]* $plan/,/EXPLAIN/p" >"$work/script"
                    {
                        plan_settings "$plan"
                        printf '\\echo @run %s %s %s\n' "$name" "$plan" "$round"
                        timed "$(statement_of "$form" "t$rows" '')"
                    } >>"$work/script"
                    # The settings come before EXPLAIN, too.
                    { plan_settings "$plan"; sed "s/@plan $form,/@plan cold_$form,/" \
                        "$work/script"; } >"$work/script-cold"
                    psql -XqAt -f "$work/script-cold" >>"$log/points.txt" 2>&1
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
say "measuring; device: $device ($SECONDS s)"
read -ra forms <<<"$REGRET_FORMS"
begun=0
total=$(points | wc -l)
while read -r rows set keys matching <&4; do
    ((SECONDS < REGRET_LIMIT * 6 / 10)) || break
    run_point "$log/points.txt" "$rows" "$set" "$keys" "$matching" "$REGRET_RUNS" "${forms[@]}"
    begun=$((begun + 1))
    ((begun % 10)) || note "$begun of $total ($SECONDS s)"
done 4< <(points)
[ "$REGRET_COLD" = 0 ] || { say "cold points ($SECONDS s)"; cold_points; }
for factor in 3 5 7; do
    perl test/bench/regret.pl suspects "$log/points.txt" "$log"/again-*.txt >"$work/suspects"
    say "$(wc -l <"$work/suspects") suspicious points once more ($SECONDS s)"
    while IFS=, read -r form rows set keys matching <&4; do
        [[ $form != cold_* ]] || continue
        ((SECONDS < REGRET_LIMIT)) || { note "no time for the rest"; break 2; }
        run_point "$log/again-$factor.txt" "$rows" "$set" "$keys" "$matching" \
            $((REGRET_RUNS * factor)) "$form"
    done 4<"$work/suspects"
done

mkdir "$log/report"
name=$(date +%F)-$(tr -cs '[:alnum:]\n' - <<<"${device,,}" | sed 's/^-*//; s/-*$//')-no-regret
{
    echo "# Is the planner's choice the best?"
    echo
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $(nproc) processors of type" \
        "$(processor_name); device: $device. Tables of $REGRET_ROWS rows;" \
        "$begun of $total groups of points were reached. Times in ms, $(clock_name)."
    [ ! -s "$log/remarks.txt" ] || { echo; cat "$log/remarks.txt"; }
    perl test/bench/regret.pl report "$log/points.txt" "$log"/again-*.txt
} >"$log/report/$name.md"
sed '/^## Plans/,$d' "$log/report/$name.md"
stop_server regret
