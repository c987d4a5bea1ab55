#!/usr/bin/env bash
# test/bench/instructions.sh: the instructions that one process executes for each job, counted by
# callgrind. Prints a table in markdown. Unlike times, the counts hardly vary between two runs, so
# they show the effect of a change on a busy machine, too.
#
#   INSTRUCTIONS_BASE  a commit to compare with, which makes the same tables for itself (none)
#   INSTRUCTIONS_ROWS  rows of the big table (200000)
#   INSTRUCTIONS_JOBS  names of jobs, see below (all)
#   INSTRUCTIONS_TOP   also list the functions of each job that differ most, this many (0)
#   INSTRUCTIONS_OUT   also write the table to this file
#
# Each job is run in single-user mode, once with one repetition and once with four; a third of the
# difference is one repetition, without starting, planning for the first time and filling caches.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

last_words() {
    if [ "$1" != 0 ]; then
        note "logs: $logs_kept_in"
    elif [ -n "${INSTRUCTIONS_OUT:-}" ]; then
        cp "$logs_kept_in/instructions.md" "$INSTRUCTIONS_OUT" &&
            note "written to $INSTRUCTIONS_OUT"
    fi
}

# Outside: the sources of the commit to compare with
prepare() {
    [ -n "${INSTRUCTIONS_BASE:-}" ] || return 0
    mkdir "$work/base"
    git -c safe.directory="$project" -C "$project" archive "$INSTRUCTIONS_BASE" |
        tar -x -C "$work/base"
}

export INSTRUCTIONS_ROWS=${INSTRUCTIONS_ROWS:-200000} INSTRUCTIONS_TOP=${INSTRUCTIONS_TOP:-0}
for value in "$INSTRUCTIONS_ROWS" "$INSTRUCTIONS_TOP"; do
    [[ $value =~ ^[0-9]+$ ]] || die "not a whole number: \"$value\""
done
if ! inside; then
    command -v valgrind >/dev/null || wish_for valgrind
    command -v valgrind >/dev/null || die "valgrind is needed"
    run_inside instructions test/bench/instructions.sh
fi

jobs_known="count join_entries join_heap group distinct top slot_entries slot_heap insert fold"
keys="(ARRAY(SELECT i * 3 FROM generate_series(1, 250) i))"
few="(SELECT i * 3 AS k FROM generate_series(1, 250) i OFFSET 0) s"

# The statements of one repetition. OFFSET drops rows that would be printed.
statement() {
    case $1 in
        count) echo "SELECT count(*) FROM big WHERE k = ANY $keys;" ;;
        join_entries) echo "SELECT sum(v) FROM $few JOIN big USING (k);" ;;
        join_heap) echo "SELECT sum(w) FROM $few JOIN big USING (k);" ;;
        group) echo "SELECT v, count(*), sum(u) FROM big WHERE k = ANY $keys" \
            "GROUP BY v OFFSET 1000000;" ;;
        distinct) echo "SELECT count(DISTINCT u) FROM big WHERE k = ANY $keys;" ;;
        top) echo "SELECT w FROM big WHERE k = ANY $keys ORDER BY u LIMIT 100 OFFSET 99;" ;;
        slot_entries) echo "SELECT k, u, v FROM big WHERE k = ANY $keys OFFSET 1000000;" ;;
        slot_heap) echo "SELECT * FROM big WHERE k = ANY $keys OFFSET 1000000;" ;;
        insert) echo "INSERT INTO fresh SELECT i * 7919 % 1000, i, i FROM" \
            "generate_series(1, 5000) i;" ;;
        fold) echo "INSERT INTO fresh SELECT i * 7919 % 1000, i, i FROM" \
            "generate_series(1, 5000) i;SELECT gpujoin_fold('fresh_k') OFFSET 1;" ;;
        *) die "no job \"$1\"; there are: $jobs_known" ;;
    esac
}

# The node that the plan of a job must have; nothing for those without a plan of ours
node() {
    case $1 in
        count | group | distinct | join_*) echo GpuAgg ;;
        top | slot_*) echo GpuScan ;;
    esac
}

settings="SET gpujoin.force = on; SET max_parallel_workers_per_gather = 0; SET jit = off;"

make_data() {
    say "making tables"
    rm -rf "$work/data"
    start_server data <<<"autovacuum = off"
    psql -XqAt -v ON_ERROR_STOP=1 <<SQL
CREATE EXTENSION gpujoin;
CREATE TABLE big (k int, v int, u int, w int);
INSERT INTO big
    SELECT i * 7919::int8 % 1000, i % 100, i * 104729::int8 % 50000, i
    FROM generate_series(1, $INSTRUCTIONS_ROWS) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, u);
CREATE TABLE fresh (k int, v int, w int);
CREATE INDEX fresh_k ON fresh USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE;
VACUUM ANALYZE;
SQL
    local job wanted
    for job in $jobs_run; do
        wanted=$(node "$job")
        [ -z "$wanted" ] ||
            psql -XqAt -c "$settings" -c "EXPLAIN (COSTS OFF) $(statement "$job")" |
            grep -q "($wanted)" || die "the plan of job $job has no $wanted"
    done
    stop_server data
}

# count_run BUILD JOB REPETITIONS: prints how many instructions the process executed
count_run() {
    local name=$1-$2-$3 data=$work/run i
    rm -rf "$data"
    cp -a "$work/data" "$data"
    {
        printf '%s' "$settings" | sed 's/; */;\n/g'
        for i in $(seq "$3"); do statement "$2" | sed 's/;/;\n/g'; done
    } | valgrind --tool=callgrind --callgrind-out-file="$work/$name.callgrind" \
        "$(dirname "$PG_CONFIG")/postgres" --single -D "$data" postgres \
        >"$log/$name.out" 2>"$log/$name.err" </dev/stdin
    ! grep -qE 'ERROR|PANIC|FATAL' "$log/$name.err" || die "job $2 failed, see $name.err"
    sed -nE 's/^==[0-9]+== Collected : ([0-9]+)/\1/p' "$log/$name.err"
}

# measure BUILD: instructions of one repetition of each job, to $work/BUILD-JOB
measure() {
    local job one four
    for job in $jobs_run; do
        say "counting $job of $1"
        one=$(count_run "$1" "$job" 1)
        four=$(count_run "$1" "$job" 4)
        echo $(((four - one) / 3)) >"$work/$1-$job"
    done
}

# functions_of BUILD JOB: instructions of each function in four repetitions
functions_of() {
    callgrind_annotate --inclusive=no --threshold=100 "$work/$1-$2-4.callgrind" |
        sed -nE 's/^ *([0-9,]+) \([^)]*\) +[^:]*:([A-Za-z_0-9.]+).*/\1 \2/p' | tr -d , |
        awk '{n[$2] += $1} END {for (f in n) print f, n[f]}' | sort
}

report() {
    local job now base
    echo "# Instructions of a process"
    echo
    echo "PostgreSQL $("$PG_CONFIG" --version | cut -d' ' -f2), $INSTRUCTIONS_ROWS rows," \
        "250 keys, one repetition${INSTRUCTIONS_BASE:+, compared with $INSTRUCTIONS_BASE}."
    echo
    echo "| job | instructions | before | ratio |"
    echo "|---|--:|--:|--:|"
    for job in $jobs_run; do
        now=$(cat "$work/now-$job") base=
        [ -z "${INSTRUCTIONS_BASE:-}" ] || base=$(cat "$work/base-$job")
        awk -v job="$job" -v now="$now" -v base="$base" 'BEGIN {
            printf "| %s | %d | %s | %s |\n", job, now, base,
                base == "" ? "" : sprintf("%.3f", now / base)}'
    done
    [ "$INSTRUCTIONS_TOP" != 0 ] && [ -n "${INSTRUCTIONS_BASE:-}" ] || return 0
    for job in $jobs_run; do
        printf '\n## %s: functions that differ most, in four repetitions\n\n' "$job"
        join -a1 -a2 -e0 -o 0,1.2,2.2 <(functions_of now "$job") <(functions_of base "$job") |
            awk '{d = $2 - $3; print (d < 0 ? -d : d), "    " $1, $2, $3}' | sort -k1,1nr |
            awk -v most="$INSTRUCTIONS_TOP" 'NR <= most' | cut -d' ' -f2-
    done
}

jobs_run=${INSTRUCTIONS_JOBS:-$jobs_known}
for job in $jobs_run; do statement "$job" >/dev/null; done
build_and_install with_llvm=no NVCC=
make_data
measure now
if [ -n "${INSTRUCTIONS_BASE:-}" ]; then
    say "building $INSTRUCTIONS_BASE"
    (cd "$work/base" && run_make -j"$jobs" with_llvm=no NVCC= install) >"$log/base.log" 2>&1 ||
        die "the build of $INSTRUCTIONS_BASE failed, see base.log"
    make_data
    measure base
fi
report >"$log/instructions.md"
echo
cat "$log/instructions.md"
