#!/usr/bin/env bash
# test/bench/bench_planning.sh: the planning time that gpujoin adds, on a throw-away server
# (test/setup.sh) that does not preload it. Prints a table in markdown.
#
#   PLANNING_ROWS  rows of the big table (300000)
#   PLANNING_RUNS  measured runs of each side of each case, in turn (41)
#   PLANNING_OUT   also write the table to this file
#
# The same tables, with the same statistics (another sample of the same rows makes the planner
# consider other plans, a larger difference than any measured here), have one btree; one, while
# the library is loaded; two; or one and a gpujoin index. Sessions of the first and third kind
# never load the library. So the cost of an additional index can be distinguished from the cost of
# gpujoin. The machine may be busy with other work: the minimum of the runs counts; the median is
# shown, too.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

last_words() {
    if [ "$1" != 0 ]; then
        note "logs: $logs_kept_in"
    elif [ -n "${PLANNING_OUT:-}" ]; then
        cp "$logs_kept_in/planning.md" "$PLANNING_OUT" && note "written to $PLANNING_OUT"
    fi
}

export PLANNING_ROWS=${PLANNING_ROWS:-300000} PLANNING_RUNS=${PLANNING_RUNS:-41}
for value in "$PLANNING_ROWS" "$PLANNING_RUNS"; do
    [[ $value =~ ^[1-9][0-9]*$ ]] || die "not a whole number: \"$value\""
done
inside || run_inside planning test/bench/bench_planning.sh

export PGDATABASE=planning
sides="btree loaded two gpujoin"
cases="key list_100 list_10000 any_10000 not_in_1000 or_100 or_1000 join10 join10_list"

sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

make_tables() {
    local i
    createdb --maintenance-db=postgres planning
    sql -c 'CREATE EXTENSION gpujoin'
    for i in $(seq 0 9); do
        sql -c "CREATE TABLE t_$i (id int, k int, v int)" \
            -c "INSERT INTO t_$i SELECT i, (i * 7919::int8) % 200000, i
                FROM generate_series(1, $((i == 0 ? PLANNING_ROWS : 60000))) i" \
            -c "CREATE INDEX ON t_$i (k)"
    done
    sql -c 'VACUUM ANALYZE'
}

# Create the indexes of a side on its tables
make_indexes() {
    local i
    for i in $(seq 0 9); do
        sql -c "SET client_min_messages = error" -c "DROP INDEX IF EXISTS t_${i}_more" -c "$(
            case $1 in
                two) echo "CREATE INDEX t_${i}_more ON t_$i (k)" ;;
                gpujoin) echo "CREATE INDEX t_${i}_more ON t_$i USING gpujoin (k)" ;;
            esac)"
    done
}

# numbers N [FORMAT [SEPARATOR]]
numbers() { seq -f "${2:-%.0f}" -s "${3:-,}" 1 7 $(($1 * 7)); }

query() {
    local big=t_0 i from="t_0 t0" where=""
    case $1 in
        key) echo "SELECT * FROM $big WHERE k = 5" ;;
        list_*) echo "SELECT * FROM $big WHERE k IN ($(numbers "${1#*_}"))" ;;
        any_*) echo "SELECT * FROM $big WHERE k = ANY ('{$(numbers "${1#*_}")}')" ;;
        not_in_*) echo "SELECT * FROM $big WHERE k NOT IN ($(numbers "${1##*_}"))" ;;
        or_*) echo "SELECT * FROM $big WHERE $(numbers "${1#*_}" 'k = %.0f' ' OR ')" ;;
        join10*)
            for i in $(seq 1 9); do
                from+=" JOIN t_$i t$i ON t$i.k = t$((i - 1)).k"
            done
            [ "$1" = join10 ] || where="WHERE t0.k IN ($(numbers 100))"
            echo "SELECT t0.v, t9.v FROM $from $where" ;;
    esac
}

# Plan each query of a side a few times in one session. Milliseconds go to files.
plan_once() {
    local side=$1 name
    make_indexes "$side"
    {
        echo 'SET join_collapse_limit = 12; SET max_parallel_workers_per_gather = 0;'
        [ "$side" != loaded ] || echo "LOAD 'gpujoin';"
        for name in $cases; do
            # the first one fills the caches of the session
            for _ in 1 2 3 4; do
                echo "\\echo = $name"
                echo "EXPLAIN (SUMMARY, COSTS OFF) $(query "$name");"
            done
        done
    } >"$work/plan.sql"
    sql -f "$work/plan.sql" | awk -v prefix="$work/times-$side-" '
        /^= / {name = $2; n[name]++}
        /^Planning Time:/ && n[name] > 1 {print $3 >>(prefix name)}'
}

smallest() { sort -n "$work/times-$2-$1" | head -n 1; }
median() { sort -n "$work/times-$2-$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

report() {
    local name side
    echo "# Planning time with and without gpujoin"
    echo
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $(nproc) processors of type" \
        "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $PLANNING_ROWS rows," \
        "milliseconds, the smallest of $((PLANNING_RUNS / 3 * 3 + 3)) (median)."
    echo "Added: smallest against smallest, in percent of a table with one btree / with two."
    echo
    echo "| case | btree | library loaded | two btrees | btree and gpujoin | added |"
    echo "|---|--:|--:|--:|--:|--:|"
    for name in $cases; do
        printf '| %s ' "$name"
        for side in $sides; do
            printf '| %.3f (%.3f) ' "$(smallest "$name" "$side")" "$(median "$name" "$side")"
        done
        awk -v a="$(smallest "$name" btree)" -v b="$(smallest "$name" two)" \
            -v c="$(smallest "$name" gpujoin)" \
            'BEGIN {printf "| %+.0f %% / %+.0f %% |\n", (c / a - 1) * 100, (c / b - 1) * 100}'
    done
}

build_and_install
say "starting a throw-away server"
printf '%s\n' "shared_buffers = '256MB'" "autovacuum = off" "fsync = off" | start_server planning
say "making tables"
make_tables
say "planning"
for _ in $(seq 0 $((PLANNING_RUNS / 3))); do
    for side in $sides; do plan_once "$side"; done
done
report >"$log/planning.md"
stop_server planning
echo
cat "$log/planning.md"
