#!/usr/bin/env bash
# test/demo/demo.sh: the patents query with gpujoin and with PostgreSQL's own plans, on a
# throw-away server (test/setup.sh): compares rows and times.
#
#   DEMO_ROWS  rows of the big table (2000000)
#   DEMO_RUNS  measured runs of each plan; the median counts (3)
#   PG_CONFIG  another PostgreSQL
#
# A time is planning plus execution as measured by the server, without sending rows to a client.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

export DEMO_ROWS=${DEMO_ROWS:-2000000} DEMO_RUNS=${DEMO_RUNS:-3}
[[ $DEMO_ROWS =~ ^[1-9][0-9]*$ ]] || die "DEMO_ROWS must be a whole number, not \"$DEMO_ROWS\""
[[ $DEMO_RUNS =~ ^[1-9][0-9]*$ ]] || die "DEMO_RUNS must be a whole number, not \"$DEMO_RUNS\""
inside || run_inside demo test/demo/demo.sh

here=test/demo
database=demo
queries="distinct count"
# A count tells little about the rows behind it: these are compared too, but not timed.
compared="distinct rows count"
declare -A title=(
    [distinct]='SELECT DISTINCT p.* ... JOIN'
    [rows]='SELECT * ... = ANY (...)'
    [count]='SELECT count(*) ... = ANY (...)'
)

# Settings that each plan may use. "gpujoin" is left to the planner, which must choose it.
declare -A settings=(
    [gpujoin]=''
    [seqscan]='SET gpujoin.enabled = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
               SET enable_indexonlyscan = off;'
    [btree]='SET gpujoin.enabled = off; SET enable_seqscan = off;'
)
declare -A label=([gpujoin]='gpujoin' [seqscan]='stock, seq scan' [btree]='stock, btree')

# sql [PSQL ARGUMENT...]: quiet, plain output, stops at the first error.
sql() { psql -XqAt -v ON_ERROR_STOP=1 -d "$database" "$@"; }

# The text of a query with its constants filled in; without a final semicolon.
query_text() { sed "s/:'classes'/'$classes'/" "$here/$1.sql"; }

# explain PLAN OPTIONS QUERY
explain() { echo "${settings[$1]} EXPLAIN ($2) $(query_text "$3");" | sql; }

# A whole number with thousands separators.
number() { sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta' <<<"$1"; }

make_data() {
    local part last first=1
    createdb "$database"
    sql -c 'CREATE EXTENSION gpujoin'
    sql -v step=1 -c "$committed_for_good" -f test/patents/data.sql >/dev/null
    for part in 1 2 3 4 5; do
        last=$((DEMO_ROWS * part / 5))
        if [ "$last" -ge "$first" ]; then
            sql -v first="$first" -v last="$last" -v step=1 -v companies=50000 \
                -c "$committed_for_good" -f test/patents/fill.sql >/dev/null
        fi
        note "$((part * 20)) % ($SECONDS s)"
        first=$((last + 1))
    done
    sql -c 'VACUUM ANALYZE patents'
    require_all_visible patents top_classes
}

# make_index METHOD
make_index() {
    local method=$1 since=$EPOCHREALTIME size
    sql -c "CREATE INDEX patents_$method ON patents USING $method (class_id)"
    size=$(sql -c "SELECT pg_relation_size('patents_$method')")
    note "$(awk -v m="$method" -v s="$since" -v e="$EPOCHREALTIME" -v b="$size" -v r="$DEMO_ROWS" \
        'BEGIN {printf "%-8s built in %.2f s, %.1f bytes a row", m, e - s, b / r}')"
}

# keep_result PLAN QUERY: store the whole answer in a table.
keep_result() {
    echo "${settings[$1]} CREATE TABLE result_$2_$1 AS $(query_text "$2");" | sql
}

# compare PLAN QUERY: compare the answer of PLAN with gpujoin's, row by row, in both directions.
compare() {
    local ours=result_$2_gpujoin stock=result_$2_$1 rows differences
    rows=$(sql -c "SELECT count(*) FROM $ours")
    differences=$(sql -c "SET gpujoin.enabled = off" -c "SELECT count(*) FROM (
        (TABLE $ours EXCEPT ALL TABLE $stock) UNION ALL (TABLE $stock EXCEPT ALL TABLE $ours)) d")
    if [ "$differences" != 0 ]; then
        note "DIFFERENT: $2: $differences rows are only in one of gpujoin and ${label[$1]}"
        different=1
        return
    fi
    note "same: ${title[$2]}: $(number "$rows") row$([ "$rows" = 1 ] || echo s)," \
        "gpujoin and ${label[$1]}"
}

# measure PLAN QUERY: run once; adds its milliseconds to the plan's list.
measure() {
    explain "$1" 'ANALYZE, TIMING OFF, COSTS OFF, SUMMARY ON' "$2" |
        awk '/^(Planning|Execution) Time:/ {ms += $3} END {print ms}' >>"$work/times-$2-$1"
}

median() { sort -n "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# Fail if the planner does not choose gpujoin: the timings would not be gpujoin's.
require_gpujoin() {
    local query
    forced=''
    for query in $queries; do
        explain gpujoin 'COSTS OFF' "$query" | grep -qE 'Gpu(Scan|Join)' && continue
        forced=' (forced)'
    done
    [ -z "$forced" ] && return
    note "for so small a table the planner prefers its own plan: gpujoin.force = on"
    settings[gpujoin]='SET gpujoin.force = on;'
    for query in $queries; do
        explain gpujoin 'COSTS OFF' "$query" | grep -qE 'Gpu(Scan|Join)' && continue
        explain gpujoin 'COSTS OFF' "$query" | cut -c 1-100
        die "gpujoin is not used for: $query"
    done
}

show_plans() {
    local query
    for query in $queries; do
        printf '\n%s\n' "${title[$query]}"
        explain gpujoin 'ANALYZE, COSTS OFF' "$query" >"$log/plan-$query"
        # A literal array of 4,000 numbers is one long line.
        awk 'length($0) > 100 {$0 = substr($0, 1, 97) "..."} {print "    " $0}' "$log/plan-$query"
    done
    echo
}

# heap_fetches PLAN QUERY: the number of rows that an index-only scan, ours or PostgreSQL's,
# fetched from the table; nothing if the plan has none.
heap_fetches() {
    explain "$1" 'ANALYZE, TIMING OFF' "$2" |
        awk '/Heap Fetches:/ {n += $3; any = 1} END {if (any) print n}'
}

# Queries answered from the index alone must remain so while they are measured.
require_no_fetches() { # PLAN
    local fetches
    fetches=$(heap_fetches "$1" count)
    case $fetches in
        '') note "count(*), ${label[$1]}: not from the index alone" ;;
        0) note "count(*), ${label[$1]}: from the index alone, no heap fetches" ;;
        *) die "count(*), ${label[$1]}: $fetches heap fetches of an index-only scan" ;;
    esac
}

show_table() {
    local query plan ms ours name
    printf '\n%-34s %-18s %10s %14s\n' "query" "plan" "ms" "gpujoin is"
    for query in $queries; do
        ours=$(median "$work/times-$query-gpujoin")
        name=${title[$query]}
        for plan in gpujoin seqscan btree; do
            ms=$(median "$work/times-$query-$plan")
            awk -v q="$name" -v p="${label[$plan]}$([ "$plan" != gpujoin ] || echo "$forced")" \
                -v ms="$ms" -v ours="$ours" -v own="$([ "$plan" = gpujoin ] && echo 1 || true)" \
                'BEGIN {printf "%-34s %-18s %10.1f %14s\n", q, p, ms,
                        own ? "" : sprintf("%.1f x as fast", ms / ours)}'
            name=''
        done
    done
    printf '\nmedian of %s; %s rows, 4,000 keys; device: %s;\n' "$DEMO_RUNS" \
        "$(number "$DEMO_ROWS")" "$(devices)"
    printf 'stock plans use up to %s parallel workers, as by default\n\n' "$workers"
}

# The devices that answered, according to EXPLAIN ANALYZE.
devices() {
    local found
    found=$(sed -nE 's/^ *Device: *//p' "$log"/plan-* | sort -u | paste -sd, -)
    echo "${found:-not told by EXPLAIN}"
}

# ---------------------------------------------------------------------------------------------

different=0
build_and_install with_llvm=no
say "starting a throw-away server"
measuring_settings $((128 + DEMO_ROWS / 8000)) | start_server demo

say "making $(number "$DEMO_ROWS") patents and 4,000 classes"
make_data
classes="{$(sql -c "SELECT string_agg(class_id::text, ',') FROM top_classes")}"
make_index gpujoin
# Load the card's copy of the key column; without a card this reports the reason.
sql -c "SELECT gpujoin_load('patents_gpujoin')" >/dev/null 2>"$log/load.txt" ||
    note "$(sed -n 's/.*ERROR: *//p' "$log/load.txt" | head -n 1)"

say "with gpujoin"
require_gpujoin
for query in $compared; do
    keep_result gpujoin "$query"
done
show_plans

say "comparing all rows with those of stock plans"
for query in $compared; do
    keep_result seqscan "$query"
    compare seqscan "$query"
done

# Create the btree last: if it existed, a planner could rightly prefer it to gpujoin.
require_no_fetches gpujoin
say "measuring gpujoin and seq scan in turn"
for run in $(seq "$DEMO_RUNS"); do
    for query in $queries; do
        measure gpujoin "$query"
        measure seqscan "$query"
    done
    note "run $run of $DEMO_RUNS ($SECONDS s)"
done

say "measuring btree"
make_index btree
for query in $compared; do
    keep_result btree "$query"
    compare btree "$query"
done
require_no_fetches btree
for run in $(seq "$DEMO_RUNS"); do
    for query in $queries; do
        measure btree "$query"
    done
    note "run $run of $DEMO_RUNS ($SECONDS s)"
done

workers=$(sql -c 'SHOW max_parallel_workers_per_gather')
stop_server demo
show_table
if [ "$different" != 0 ]; then
    die "the answers differ"
fi
echo "All rows are the same."
