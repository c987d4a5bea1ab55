#!/usr/bin/env bash
# test/bench/bench.sh: gpujoin against PostgreSQL's own indexes and plans, side by side in one
# run, on a throw-away server (test/setup.sh), with a GPU if there is one.
#
#   BENCH_ROWS     rows of the big table (2000000)
#   BENCH_JOBS     parts to run, in this order; all of them if it is not set:
#                  jobs     count, join and sum, a million rows of 20, DISTINCT
#                  columns  filters, aggregates, groups, DISTINCT, top-N, of the same rows
#                  row      the jobs and columns again and again, planned once, reduced or not
#                  sets     sets of 1 to 1,000,000 keys, of which up to 4,000 have rows; unique
#                           keys; rows that came after the build
#                  keys     keys of type uuid, text, numeric and char beside int8, with bars
#                  tuples   lists of pairs of columns, with bars
#                  types    sums, groups, DISTINCT and filters of numeric, varchar and uuid
#                           columns, with bars
#                  build    index build and size
#                  insert   COPY, INSERT ... SELECT, single rows, updates, with each kind of index
#                  upkeep   WAL, VACUUM, space and speed while tables grow and change
#                  clients  look-ups and a mixed load with 1 to 64 clients
#                  cold     with nothing in memory
#                  scale    time against rows, keys and share of matches
#                  peers    (only if named; make bench-peers) DuckDB and PG-Strom, too: peers.sh;
#                           part "types" beside it has DuckDB, too
#   BENCH_CASES    only cases whose "PART, CASE" matches this regular expression (all), as in
#                  "jobs, .*DISTINCT" or "insert, .*readers|clients, .*64"
#   BENCH_CONTESTANTS  of "no index, btree, covering, gpujoin, gpujoin include, gpujoin CPU" (all
#                  but the last, which is like "gpujoin include", but never has a mirror)
#   BENCH_RUNS     rounds in which all contestants take turns (5); always an odd number, because
#                  medians are reported
#   BENCH_SLOW     contestants slower than the fastest by this factor are dropped after the first
#                  round (5; 0: none)
#   BENCH_TRIES    how often a sample is taken, at most, until it is undisturbed (5; pace.sh)
#   BENCH_LIMIT    seconds for all parts together (900; 0: no limit): fewer rounds if necessary,
#                  and nothing is started after that
#   BENCH_SECONDS  length of one pgbench run (2)
#   BENCH_IN_A_ROW executions of each statement in part "row" (35)
#   BENCH_WORKERS  N, the parallel workers of contestants that may have some (8 or the processors)
#   BENCH_WRITE_ROWS  rows of the tables that are written to (BENCH_ROWS or 2000000)
#   BENCH_DEVICE   gpujoin.device (auto)
#   BENCH_CONF     a file of further server settings
#   BENCH_HUGE_PAGES  1: root reserves huge pages for the shared buffers while the benchmark runs
#   BENCH_DATA     keep the data in this folder and use what an earlier run has left there
#   BENCH_PLOTS    0: make no plots now; report.pl can do that later
#   BENCH_OUT      folder for the report (test/bench/results): DATE-DEVICE.md, .tsv with all
#                  samples and .svg; the name has the rows, and the parts if not all were run
#
# With huge pages every contestant is faster, some by a third. PostgreSQL uses them if enough are
# free (sysctl vm.nr_hugepages=N). The report gives the number needed, and whether they were used.
#
# Answers are compared before times are taken. lib.sh defines contestants; pace.sh decides which
# samples are repeated. Two sizes: perl test/bench/report.pl growth SMALLER.tsv BIGGER.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all_parts="jobs columns row sets keys tuples types build insert upkeep clients cold scale"
more_parts="peers"
usual_contestants="no index, btree, covering, gpujoin, gpujoin include"
all_contestants="$usual_contestants, gpujoin CPU"
declare -A weight=([jobs]=25 [columns]=40 [row]=10 [sets]=20 [keys]=40 [tuples]=20 [types]=20
    [build]=8 [insert]=15 [upkeep]=30 [clients]=22 [cold]=8 [scale]=22 [peers]=40)

export BENCH_ROWS=${BENCH_ROWS:-2000000} BENCH_RUNS=${BENCH_RUNS:-5}
export BENCH_CONTESTANTS=${BENCH_CONTESTANTS:-$usual_contestants}
export BENCH_CASES=${BENCH_CASES:-} BENCH_SLOW=${BENCH_SLOW:-5} BENCH_TRIES=${BENCH_TRIES:-5}
export BENCH_LIMIT=${BENCH_LIMIT:-900} BENCH_SECONDS=${BENCH_SECONDS:-2}
export BENCH_DEVICE=${BENCH_DEVICE:-auto} BENCH_IN_A_ROW=${BENCH_IN_A_ROW:-35}
export BENCH_JOBS=${BENCH_JOBS:-$all_parts} BENCH_CONF=${BENCH_CONF:+$(realpath "$BENCH_CONF")}
processors=$(nproc)
export BENCH_WORKERS=${BENCH_WORKERS:-$((processors < 8 ? processors : 8))}
export BENCH_WRITE_ROWS=${BENCH_WRITE_ROWS:-$((BENCH_ROWS < 2000000 ? BENCH_ROWS : 2000000))}
whole_number BENCH_ROWS BENCH_RUNS BENCH_TRIES BENCH_SECONDS BENCH_WORKERS BENCH_WRITE_ROWS
buffers=$((512 + BENCH_ROWS / 5000))
# Tables with many columns and indexes
[[ ! " $BENCH_JOBS " =~ \ (keys|tuples|types|peers)\  ]] || buffers=$((512 + BENCH_ROWS / 1000))
[[ $BENCH_LIMIT =~ ^[0-9]+$ ]] || die "BENCH_LIMIT must be a whole number, not \"$BENCH_LIMIT\""
[[ $BENCH_SLOW =~ ^[0-9.]+$ ]] || die "BENCH_SLOW must be a number, not \"$BENCH_SLOW\""
mapfile -t contestants < <(tr ',' '\n' <<<"$BENCH_CONTESTANTS" | sed 's/^ *//; s/ *$//')
for contestant in "${contestants[@]}"; do
    [[ ", $all_contestants," == *", $contestant,"* ]] ||
        die "no contestant \"$contestant\"; there are: $all_contestants"
done
for part in $BENCH_JOBS; do
    [[ " $all_parts $more_parts " == *" $part "* ]] ||
        die "no part \"$part\"; there are: $all_parts $more_parts"
done

# ---------------------------------------------------------------------------------------------
# Outside
# ---------------------------------------------------------------------------------------------

prepare() {
    [ "${BENCH_PLOTS:-1}" = 0 ] || command -v gnuplot >/dev/null || wish_for gnuplot-nox
    [ "${BENCH_HUGE_PAGES:-0}" != 1 ] || reserve_huge_pages "$(measured_buffers $buffers)"
    [[ " $BENCH_JOBS " != *" peers "* ]] && [ -z "${DUCKDB:-}" ] || prepare_peers
    [ -n "${BENCH_DATA:-}" ] || return 0
    mkdir -p "$BENCH_DATA"
    # The inside half's user must own it; initdb and the server do the rest.
    [ "$(id -u)" != 0 ] || chown postgres "$BENCH_DATA"
    ln -s "$(realpath "$BENCH_DATA")" "$work/bench"
}

give_back() { return_huge_pages; }

last_words() { keep_report "$1" "${BENCH_OUT:-}"; }

# The work folder's copy of the sources has no commit.
inside || BENCH_COMMIT=$(git -c safe.directory="$project" -C "$project" describe --always --dirty \
    2>/dev/null || echo unknown)
export BENCH_COMMIT
inside || run_inside bench test/bench/bench.sh

# ---------------------------------------------------------------------------------------------
# Inside
# ---------------------------------------------------------------------------------------------

source test/bench/data.sh
source test/bench/keyed.sh
samples=$log/samples.tsv
for part in $all_parts $more_parts; do
    source "test/bench/part_$part.sh"
done

# Rows have 52 bytes, indexes 8 to 36 bytes a row. Memory for sorts, hashes and answers grows with
# the rows, so that no size spills to disk unless all do.
start_bench_server() {
    local memory
    memory=$(($(awk '/^MemTotal/ {print $2}' /proc/meminfo) / 1024))
    {
        measuring_settings $buffers
        echo "work_mem = '$(between 256 $((BENCH_ROWS / 80000)) $((memory / 32)))MB'"
        echo "maintenance_work_mem = '$(between 512 $((BENCH_ROWS / 80000)) $((memory / 32)))MB'"
        echo "client_min_messages = warning"
        echo "max_connections = 200"
        echo "max_worker_processes = 32"
        echo "max_parallel_workers = $BENCH_WORKERS"
        echo "gpujoin.device = '$BENCH_DEVICE'"
        [ -z "$BENCH_CONF" ] || cat "$BENCH_CONF"
    } | start_server bench
}

# between LEAST WANTED MOST; the least even if it exceeds the most.
between() { echo $(($2 < $1 || $3 < $1 ? $1 : $2 < $3 ? $2 : $3)); }

# A server whose data is kept is outside the work folder, where the clean-up does not look for it.
stop_at_exit() { pg_ctl -D "$work/bench" -s -m immediate stop 2>/dev/null || true; }

# weigh "PART ...": the sum of their weights.
weigh() {
    local part sum=0
    for part in $1; do sum=$((sum + weight[$part])); done
    echo "$sum"
}

trap stop_at_exit EXIT
build_and_install
[[ " $BENCH_JOBS " != *" keys "* ]] || install_test_module
say "starting a throw-away server"
start_bench_server
describe_huge_pages >"$log/huge_pages.txt"
if [[ "$BENCH_JOBS " =~ ^((keys|tuples|types)\ )*$ ]]; then make_database; else make_data; fi
device=$(device_name)
kinds=()
for contestant in "${contestants[@]}"; do
    [ "$contestant" = "no index" ] || kinds+=("$contestant")
done
note "device: $device ($SECONDS s)"
[[ ! " $BENCH_JOBS " =~ \ (jobs|columns|row|sets|cold|scale|peers)\  ]] || make_indexes class
parts_left=$BENCH_JOBS
pace_begin
for part in $BENCH_JOBS; do
    ! out_of_time || { not_reached "$part"; continue; }
    say "$part ($SECONDS s)"
    parts_left=${parts_left#"$part"} parts_left=${parts_left# }
    begin_part "${weight[$part]}" "$(weigh "$parts_left")" 1
    "part_$part"
    sql -c "ALTER DATABASE bench RESET gpujoin.auto_load"
done

say "report"
name=$(date +%F)-$(tr -cs '[:alnum:]\n' - <<<"${device,,}" | sed 's/^-*//; s/-*$//')
[ "$device" != CPU ] || name+=-$processors-cores
name+=-$BENCH_ROWS-rows
[ "$BENCH_JOBS" = "$all_parts" ] || name+=-${BENCH_JOBS// /-}
mkdir "$log/report"
sed 's/[[:blank:]]*$//' "$samples" >"$log/report/$name.tsv"
report=$log/report/$name
{
    if [[ " $BENCH_JOBS " == *" peers "* ]]; then
        echo "# gpujoin and its peers, $BENCH_ROWS rows"
    else
        echo "# gpujoin against PostgreSQL's own indexes, $BENCH_ROWS rows"
    fi
    echo
    echo "gpujoin $(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'gpujoin'")," \
        "commit $BENCH_COMMIT, $(date +%F)."
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $processors processors of type" \
        "$(processor_name); device: $device. Medians of up to $BENCH_RUNS rounds in which all" \
        "take turns; warm sessions, planning included. N is $BENCH_WORKERS parallel workers."
    cat "$log/huge_pages.txt"
    is_logged || echo "The table is unlogged."
    [ "$BENCH_SLOW" = 0 ] ||
        echo "Contestants $BENCH_SLOW times slower than the fastest ran in the first round only."
    say_paces "$report.tsv"
    report_bars
    perl test/bench/report.pl tables "$report.tsv" "$name"
    if [ -s "$log/remarks.txt" ]; then
        echo
        cat "$log/remarks.txt"
    fi
    if [ -s "$log/plans.txt" ]; then
        printf '\n## Plans\n\n```\n'
        cat "$log/plans.txt"
        echo '```'
    fi
} >"$report.md"
[ "${BENCH_PLOTS:-1}" = 0 ] ||
    perl test/bench/report.pl plots "$report.tsv" "$report" >"$log/plots.log" 2>&1 ||
    note "no plots: $(tail -n 1 "$log/plots.log")"
sed '/^## Plans/,$d' "$report.md"
# Data that is not kept need not be written.
[ -z "${BENCH_DATA:-}" ] || stop_server bench
