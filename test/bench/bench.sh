#!/usr/bin/env bash
# test/bench/bench.sh: gpujoin against PostgreSQL's own indexes and plans, side by side in one run,
# on a throw-away server (test/setup.sh), with a GPU where there is one.
#
#   BENCH_ROWS     rows of the big table (2000000)
#   BENCH_JOBS     parts to run, in this order; all of them if it is not set:
#                  jobs     count, join and sum, a million rows of 20, DISTINCT
#                  build    index build and size
#                  insert   COPY, INSERT ... SELECT, single rows, updates, with each kind of index
#                  clients  look-ups and a mixed load with 1 to 64 clients
#                  cold     with nothing in memory
#                  scale    time against rows, keys and share of matches
#   BENCH_RUNS     rounds in which all contestants take turns (5); medians count
#   BENCH_LIMIT    seconds for all parts together (480; 0: no limit): fewer rounds if need be, and
#                  nothing is begun after that
#   BENCH_SECONDS  length of one pgbench run (2)
#   BENCH_WORKERS  N, the parallel workers of contestants that may have some (8 or the processors)
#   BENCH_WRITE_ROWS  rows of the tables that are written to (BENCH_ROWS or 2000000)
#   BENCH_DEVICE   gpujoin.device (auto)
#   BENCH_CONF     a file of further server settings
#   BENCH_DATA     keep the data in this folder and use what an earlier run has left there
#   BENCH_OUT      folder for the report (test/bench/results): DATE-DEVICE.md, .tsv with all
#                  samples and .svg; the name has the rows, and the parts if not all were run
#
# Answers are compared before times are taken. lib.sh says what a contestant is.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all_parts="jobs build insert clients cold scale"
declare -A weight=([jobs]=25 [build]=8 [insert]=15 [clients]=22 [cold]=8 [scale]=22)

export BENCH_ROWS=${BENCH_ROWS:-2000000} BENCH_RUNS=${BENCH_RUNS:-5}
export BENCH_LIMIT=${BENCH_LIMIT:-480} BENCH_SECONDS=${BENCH_SECONDS:-2}
export BENCH_DEVICE=${BENCH_DEVICE:-auto}
export BENCH_JOBS=${BENCH_JOBS:-$all_parts} BENCH_CONF=${BENCH_CONF:+$(realpath "$BENCH_CONF")}
processors=$(nproc)
export BENCH_WORKERS=${BENCH_WORKERS:-$((processors < 8 ? processors : 8))}
export BENCH_WRITE_ROWS=${BENCH_WRITE_ROWS:-$((BENCH_ROWS < 2000000 ? BENCH_ROWS : 2000000))}
whole_number BENCH_ROWS BENCH_RUNS BENCH_SECONDS BENCH_WORKERS BENCH_WRITE_ROWS
[[ $BENCH_LIMIT =~ ^[0-9]+$ ]] || die "BENCH_LIMIT must be a whole number, not \"$BENCH_LIMIT\""
for part in $BENCH_JOBS; do
    [[ " $all_parts " == *" $part "* ]] || die "no part \"$part\"; there are: $all_parts"
done

# ---------------------------------------------------------------------------------------------
# Outside
# ---------------------------------------------------------------------------------------------

prepare() {
    command -v gnuplot >/dev/null || wish_for gnuplot-nox
    [ -n "${BENCH_DATA:-}" ] || return 0
    mkdir -p "$BENCH_DATA"
    # The inside half's user must own it; initdb and the server see to the rest.
    [ "$(id -u)" != 0 ] || chown postgres "$BENCH_DATA"
    ln -s "$(realpath "$BENCH_DATA")" "$work/bench"
}

last_words() { keep_report "$1" "${BENCH_OUT:-}"; }

inside || run_inside bench test/bench/bench.sh

# ---------------------------------------------------------------------------------------------
# Inside
# ---------------------------------------------------------------------------------------------

for part in jobs build insert clients cold scale; do
    source "test/bench/part_$part.sh"
done

# Rows of 52 bytes, indexes of 8 to 36 bytes a row.
start_bench_server() {
    {
        measuring_settings $((512 + BENCH_ROWS / 5000))
        echo "client_min_messages = warning"
        echo "max_connections = 200"
        echo "max_worker_processes = 32"
        echo "max_parallel_workers = $BENCH_WORKERS"
        echo "gpujoin.device = '$BENCH_DEVICE'"
        [ -z "$BENCH_CONF" ] || cat "$BENCH_CONF"
    } | start_server bench
}

# A server whose data is kept lies outside the work folder, where nobody else looks for it.
stop_at_exit() { pg_ctl -D "$work/bench" -s -m immediate stop 2>/dev/null || true; }

fill_patents() {
    local sessions=$((processors < 16 ? processors : 16)) i pids=() pid
    for ((i = 0; i < sessions; i++)); do
        sql -v first=$((BENCH_ROWS * i / sessions + 1)) \
            -v last=$((BENCH_ROWS * (i + 1) / sessions)) -v step=2 -v companies=1000000 \
            -f test/patents/fill.sql >/dev/null &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    sql -c 'VACUUM (FREEZE, ANALYZE) patents' -c 'CREATE TABLE filled AS SELECT 1' -c CHECKPOINT
}

make_data() {
    export PGDATABASE=bench
    if [ "$(sql -d postgres -c "SELECT count(*) FROM pg_database WHERE datname = 'bench'")" = 1 ]
    then
        [ "$(sql -c "SELECT count(*) FROM patents WHERE to_regclass('filled') IS NOT NULL")" = \
            "$BENCH_ROWS" ] || die "the kept data has not $BENCH_ROWS rows: empty the folder"
        say "taking the data that was kept"
        return
    fi
    say "making $BENCH_ROWS rows"
    createdb --maintenance-db=postgres bench
    sql -v step=2 -f test/bench/functions.sql -f test/patents/data.sql >/dev/null
    fill_patents
}

# make_index KIND PREFIX COLUMN INCLUDED: one of those that contestants see; its time is a sample.
make_index() {
    local name
    name=$(index_of "$1" "$2")
    [ -z "$(sql -c "SELECT to_regclass('$name')")" ] || return 0
    time_build "$1" "$name" "$3" "$4"
    case $1 in
        gpujoin*) load_mirror "$name" ;;
    esac
}

# Where there is no device, the CPU searches the index.
load_mirror() {
    local since=$EPOCHREALTIME
    sql -c "SELECT gpujoin_load('$1')" >"$work/load.txt" 2>&1 || return 0
    awk -v i="$1" -v s="$since" -v e="$EPOCHREALTIME" -v b="$(cat "$work/load.txt")" 'BEGIN {
        printf "Mirror of %s: %.0f MB in %.0f ms.\n", i, b / 1048576, (e - s) * 1000}' \
        >>"$log/remarks.txt"
}

make_class_indexes() {
    local kind
    for kind in "${kinds[@]}"; do
        make_index "$kind" class class_id \
            "patent_id, app_year, issue_year, company_id, is_important"
    done
    sql -c 'VACUUM patents' -c CHECKPOINT
}

# Whether this gpujoin has INCLUDE; older ones have not.
has_include() {
    sql -c 'CREATE TEMP TABLE probe (a int, b int)' \
        -c 'CREATE INDEX ON probe USING gpujoin (a) INCLUDE (b)' 2>"$log/include.txt"
}

weigh() {
    local part sum=0
    for part in "$@"; do sum=$((sum + weight[$part])); done
    echo "$sum"
}

trap stop_at_exit EXIT
build_and_install
say "starting a throw-away server"
start_bench_server
make_data
device=$(device_name)
kinds=(btree covering gpujoin)
! has_include || kinds+=("gpujoin include")
contestants=("no index" "${kinds[@]}")
note "device: $device ($SECONDS s)"
[[ " $BENCH_JOBS " =~ \ (jobs|cold|scale)\  ]] && make_class_indexes
parts_left=$BENCH_JOBS
for part in $BENCH_JOBS; do
    ! out_of_time || { not_reached "$part"; continue; }
    say "$part ($SECONDS s)"
    parts_left=${parts_left#"$part"} parts_left=${parts_left# }
    begin_part "${weight[$part]}" "$(weigh $parts_left)" 1
    "part_$part"
done

say "report"
name=$(date +%F)-$(tr -cs '[:alnum:]\n' - <<<"${device,,}" | sed 's/^-*//; s/-*$//')
[ "$device" != CPU ] || name+=-$processors-cores
name+=-$BENCH_ROWS-rows
[ "$BENCH_JOBS" = "$all_parts" ] || name+=-${BENCH_JOBS// /-}
mkdir "$log/report"
mv "$log/samples.tsv" "$log/report/$name.tsv"
report=$log/report/$name
perl test/bench/report.pl plots "$report.tsv" "$report" >"$log/plots.log" 2>&1 ||
    note "no plots: $(tail -n 1 "$log/plots.log")"
{
    echo "# gpujoin against PostgreSQL's own indexes, $BENCH_ROWS rows"
    echo
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $processors processors of type" \
        "$(processor_name); device: $device. Medians of up to $BENCH_RUNS rounds in which all" \
        "take turns; warm sessions, planning included. N is $BENCH_WORKERS parallel workers."
    perl test/bench/report.pl tables "$report.tsv" "$report"
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
sed '/^## Plans/,$d' "$report.md"
stop_server bench
