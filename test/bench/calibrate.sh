#!/usr/bin/env bash
# test/bench/calibrate.sh: measures this machine's constants through SQL, on a throw-away server
# (test/setup.sh), and proposes settings for gpujoin's costs.
#
#   CALIBRATE_ROWS    rows of the table (2000000)
#   CALIBRATE_RUNS    runs of each measurement; the fastest counts (7)
#   CALIBRATE_DEVICE  gpujoin.device (auto)
#
# The planner's unit is the time of a page read in sequence. Here everything is in memory, so a
# unit is the time of one of PostgreSQL's plans divided by its estimated cost; the costs of
# gpujoin and of that plan then have the same ratio as their times. There are two such plans, a
# sequential scan and a btree search, and hence two units. "Search Time" of EXPLAIN ANALYZE is the
# match, with the collection of the TIDs; the rest is the time of the heap.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CALIBRATE_ROWS=${CALIBRATE_ROWS:-2000000} CALIBRATE_RUNS=${CALIBRATE_RUNS:-7}
export CALIBRATE_DEVICE=${CALIBRATE_DEVICE:-auto}
whole_number CALIBRATE_ROWS CALIBRATE_RUNS
inside || run_inside calibrate test/bench/calibrate.sh

export PGDATABASE=calibrate

# Column spread has 100,000 values all over the table, column dense the same values in table
# order: equally many matches, on many pages or on few. Odd keys match nothing.
make_data() {
    createdb --maintenance-db=postgres calibrate
    sql >/dev/null <<SQL
CREATE EXTENSION gpujoin;
$committed_for_good;
SELECT setseed(0.5);
CREATE TABLE big AS SELECT 2 * floor(random() * 100000)::int AS spread,
    2 * floor(id * 100000::float8 / ($CALIBRATE_ROWS + 1))::int AS dense, id::int AS a, id::int b
    FROM generate_series(1, $CALIBRATE_ROWS) id;
CREATE TABLE small AS TABLE big LIMIT $((CALIBRATE_ROWS / 8));
CREATE INDEX big_spread ON big USING gpujoin (spread);
CREATE INDEX big_a ON big (a);
CREATE INDEX big_dense ON big USING gpujoin (dense);
CREATE INDEX small_spread ON small USING gpujoin (spread);
VACUUM (FREEZE, ANALYZE) big, small;
CHECKPOINT;
SQL
    require_all_visible big small
}

# The minimum is the time least disturbed by other load on the machine.
least() { sort -n | head -n 1; }

# calc EXPRESSION NAME=VALUE...
calc() {
    local args=() expression=$1 pair
    shift
    for pair in "$@"; do args+=(-v "$pair"); done
    awk "${args[@]}" "BEGIN {printf \"%.6g\", $expression}"
}

# Get the minima from EXPLAIN ANALYZE of SETTINGS and QUERY: sets search, total, rows, blocks and
# cost (times in ms, the cost of the top node's input).
measure() {
    local settings=$1 query=$2 run
    : >"$work/search"
    : >"$work/total"
    for run in $(seq $((CALIBRATE_RUNS + 1))); do
        {
            echo "SET max_parallel_workers_per_gather = 0; $settings"
            echo "EXPLAIN (ANALYZE, TIMING OFF) $query;"
            # Search Time is only shown with TIMING; timing single rows would distort it.
            echo "EXPLAIN (ANALYZE) $query;"
        } | sql >"$work/plan"
        # The first run loads caches and mirrors.
        [ "$run" = 1 ] && continue
        sed -nE 's/^ *Search Time: ([0-9.]+) ms/\1/p' "$work/plan" | tail -n 1 >>"$work/search"
        sed -nE 's/^Execution Time: ([0-9.]+) ms/\1/p' "$work/plan" | head -n 1 >>"$work/total"
    done
    search=$(least <"$work/search") total=$(least <"$work/total")
    rows=$(sed -nE 's/^ *Matched TIDs: //p' "$work/plan" | tail -n 1)
    blocks=$(sed -nE 's/^ *Heap Blocks: exact=([0-9]+).*/\1/p' "$work/plan" | tail -n 1)
    cost=$(sed -nE '2s/.*cost=[0-9.]+\.\.([0-9.]+) .*/\1/p' "$work/plan")
}

# keys COUNT FIRST: an array of COUNT keys, from FIRST in steps of two.
keys() { sql -c "SELECT array_agg($2 + 2 * n) FROM generate_series(0, $1 - 1) n"; }

# A column that the index does not contain, so that the heap must be read.
search_of() { # SETTINGS TABLE COLUMN KEYS
    measure "SET gpujoin.force = on; $1" "SELECT count(b) FROM $2 WHERE $3 = ANY ('$4')"
}

line() { printf '| %s | %s |\n' "$1" "$2" | tee -a "$log/calibration.md"; }

# measure_search WHO SETTINGS: sets per_entry, fixed (ns) and per_tid.
measure_search() {
    local none some many small_ms big_ms some_ms some_rows
    none=$(keys 1000 1) many=$(keys 50000 0)
    search_of "$2" small spread "$none"
    small_ms=$search
    search_of "$2" big spread "$none"
    big_ms=$search
    per_entry=$(calc '(b - s) * 1e6 / (n * 7 / 8)' b="$big_ms" s="$small_ms" n="$CALIBRATE_ROWS")
    fixed=$(calc 'f < 0 ? 0 : f' \
        f="$(calc 's * 1e6 - e * n / 8' s="$small_ms" e="$per_entry" n="$CALIBRATE_ROWS")")
    line "$1: search, 1,000 keys without a match, ns an entry" "$per_entry"
    line "$1: the same, fixed part, us" "$(calc 'f / 1000' f="$fixed")"
    some=$(keys 1000 0)
    search_of "$2" big spread "$some"
    some_ms=$search some_rows=$rows
    search_of "$2" big spread "$many"
    per_tid=$(calc '(m - s) * 1e6 / (r - q)' m="$search" s="$some_ms" r="$rows" q="$some_rows")
    line "$1: collecting matches, ns a TID" "$per_tid"
}

measure_set() {
    local few_ms
    search_of '' big spread "$(keys 1000 1)"
    few_ms=$(calc 't - s' t="$total" s="$search")
    search_of '' big spread "$(keys 1000000 1)"
    line "building a set, ns a key (of 1,000,000)" \
        "$(calc '(t - s - f) * 1e6 / 999000' t="$total" s="$search" f="$few_ms")"
}

# Solve two equations, for rows on many pages and for rows on few.
measure_heap() {
    local wide_ms wide_rows wide_blocks narrow_ms narrow_rows narrow_blocks
    search_of '' big spread "$(keys 1000 0)"
    wide_ms=$(calc 't - s' t="$total" s="$search") wide_rows=$rows wide_blocks=$blocks
    search_of '' big dense "$(keys 10000 0)"
    narrow_ms=$(calc 't - s' t="$total" s="$search") narrow_rows=$rows narrow_blocks=$blocks
    heap_row=$(calc '(n * bw - w * bn) / (rn * bw - rw * bn) * 1e6' n="$narrow_ms" w="$wide_ms" \
        bw="$wide_blocks" bn="$narrow_blocks" rn="$narrow_rows" rw="$wide_rows")
    heap_page=$(calc '(w * 1e6 - r * rw) / bw' w="$wide_ms" r="$heap_row" rw="$wide_rows" \
        bw="$wide_blocks")
    heap_page=$(calc 'x < 0 ? 0 : x' x="$heap_page")
    line "heap fetch, ns a row" "$heap_row"
    line "heap fetch, ns a page" "$heap_page"
}

heading() {
    printf '\n| on %s | |\n|---|--:|\n' "$(processor_name)" | tee -a "$log/calibration.md"
}

setting() { sql -c "SHOW $1"; }

# propose NAME NS: the current value of a setting, and NS in both units. CHARGED units are
# subtracted, because the formula charges them elsewhere.
propose() { # NAME NS [CHARGED]
    [ -n "$(sql -c "SELECT name FROM pg_settings WHERE name = '$1'")" ] || return 0
    line "\`$1\`" "$(setting "$1") | $(calc 'x < 0 ? 0 : x' x="$(calc 'n / u - c' n="$2" \
        u="$scan_unit" c="${3:-0}")") | $(calc 'x < 0 ? 0 : x' x="$(calc 'n / u - c' n="$2" \
        u="$btree_unit" c="${3:-0}")")"
}

propose_all() { # CPU or the device's name
    local pages
    pages=$(sql -c "SELECT pg_relation_size('big_spread') / 8192")
    printf '\n| setting | now | in units of a scan | in units of a btree search |\n%s\n' \
        '|---|--:|--:|--:|' | tee -a "$log/calibration.md"
    if [ "$1" = CPU ]; then
        propose gpujoin.setup_cost "$fixed"
        # The index's pages are charged in addition to its entries.
        propose gpujoin.search_cost "$per_entry" \
            "$(calc 'p * c / e' p="$pages" c="$(setting seq_page_cost)" e="$CALIBRATE_ROWS")"
    else
        propose gpujoin.device_setup_cost "$fixed"
        propose gpujoin.device_search_cost "$per_entry"
    fi
    propose gpujoin.tid_cost "$per_tid"
}

build_and_install
say "starting a throw-away server"
{
    measuring_settings $((512 + CALIBRATE_ROWS / 5000))
    echo "gpujoin.device = '$CALIBRATE_DEVICE'"
} | start_server calibrate
say "making $CALIBRATE_ROWS rows"
make_data
device=$(device_name)
say "measuring; device: $device"
heading
stock='SET gpujoin.enabled = off;'
measure "$stock" 'SELECT count(*) FROM big'
scan_unit=$(calc 't * 1e6 / c' t="$total" c="$cost")
line "a unit of cost, by a sequential scan in memory, ns" "$scan_unit"
measure "$stock SET enable_seqscan = off; SET enable_bitmapscan = off;" "SELECT count(*) FROM big
    WHERE a = ANY ('$(sql -c "SELECT array_agg(1 + abs(hashint4(n)) % $CALIBRATE_ROWS)
        FROM generate_series(1, 10000) n")')"
btree_unit=$(calc 't * 1e6 / c' t="$total" c="$cost")
line "a unit of cost, by 10,000 searches in a btree, ns" "$btree_unit"
measure_heap
measure_set
sql -c "SELECT gpujoin_unload(i::regclass) FROM unnest('{big_spread,small_spread}'::text[]) i" \
    >/dev/null 2>&1 || true
measure_search CPU 'SET gpujoin.auto_load = off;'
propose_all CPU
if [ "$device" != CPU ]; then
    sql -c "SELECT gpujoin_load(i::regclass) FROM unnest('{big_spread,small_spread}'::text[]) i" \
        >/dev/null
    heading
    measure_search "$device" ''
    propose_all "$device"
fi
stop_server calibrate
