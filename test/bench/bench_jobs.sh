#!/usr/bin/env bash
# test/bench/bench_jobs.sh: the seed's four jobs on the demo's patents, each with gpujoin and with
# PostgreSQL's own plans, in turn, on a throw-away server (test/setup.sh). Prints markdown.
#
#   JOBS_ROWS    rows of the big table (2000000); 4,000 classes match one in twenty
#   JOBS_RUNS    measured runs of each plan, of which the median counts (5)
#   JOBS_DEVICE  gpujoin.device (auto)
#   JOBS_OUT     also write the report to this file
#
# A time is what the server reports for the statement, planning included. Every plan's answer is
# compared before anything is timed. "seq scan, 1" has no parallel workers, "seq scan, N" up to 4;
# the btree plans and gpujoin have none.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

last_words() {
    [ "$1" = 0 ] || { note "logs: $logs_kept_in"; return; }
    [ -z "${JOBS_OUT:-}" ] || cp "$logs_kept_in/jobs.md" "$JOBS_OUT"
}

export JOBS_ROWS=${JOBS_ROWS:-2000000} JOBS_RUNS=${JOBS_RUNS:-5} JOBS_DEVICE=${JOBS_DEVICE:-auto}
inside || run_inside jobs test/bench/bench_jobs.sh

export PGDATABASE=jobs
sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

jobs_list="count sum rows distinct"
text_of() {
    local join='top_classes t JOIN patents p ON p.class_id = t.class_id'
    case $1 in
        count) echo "SELECT count(*) FROM patents WHERE class_id = ANY ('$classes')" ;;
        sum) echo "SELECT count(*), sum(p.company_id) FROM $join" ;;
        rows) echo "SELECT count(patent_id), count(class_id), count(app_year), count(issue_year),
            count(company_id), count(is_important) FROM (SELECT p.* FROM $join OFFSET 0) r" ;;
        distinct) echo "SELECT count(*), sum(hashint4(patent_id)) FROM
            (SELECT DISTINCT p.* FROM $join OFFSET 0) r" ;;
    esac
}

serial='SET max_parallel_workers_per_gather = 0;'
no_index='SET gpujoin.enabled = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
    SET enable_indexonlyscan = off;'
settings_of() {
    case $1 in
        gpujoin) echo "$serial" ;;
        "seq scan, 1") echo "$serial $no_index" ;;
        "seq scan, N") echo "SET max_parallel_workers_per_gather = 4; $no_index" ;;
        *) echo "$serial SET gpujoin.enabled = off; SET enable_seqscan = off;" ;;
    esac
}

run_job() { # PLAN JOB: answer in $work/answer, milliseconds on standard output
    { settings_of "$1"; echo '\timing on'; text_of "$2"; echo ';'; } | sql >"$work/answer"
    sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' "$work/answer" | tail -n 1
    sed -i '/^Time:/d' "$work/answer"
}

series() { echo "$work/series-$(tr -cd '[:alnum:]' <<<"$1-$2")"; }
median() { sort -n "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

measure() { # PLAN...
    local plan job run
    for job in $jobs_list; do
        for plan in "$@"; do
            run_job "$plan" "$job" >/dev/null
            [ -e "$work/right-$job" ] || cp "$work/answer" "$work/right-$job"
            cmp -s "$work/answer" "$work/right-$job" || die "$job: $plan gives another answer"
        done
        for run in $(seq "$JOBS_RUNS"); do
            for plan in "$@"; do run_job "$plan" "$job" >>"$(series "$plan" "$job")"; done
        done
    done
}

build_and_install
say "starting a throw-away server"
{
    echo "shared_buffers = '$((512 + JOBS_ROWS / 5000))MB'"
    echo "work_mem = '512MB'"
    echo "maintenance_work_mem = '1GB'"
    echo "max_wal_size = '16GB'"
    echo "fsync = off"
    echo "autovacuum = off"
    echo "jit = off"
    echo "max_parallel_workers = 8"
    echo "shared_preload_libraries = 'gpujoin'"
    echo "gpujoin.device = '$JOBS_DEVICE'"
} | start_server jobs
say "making $JOBS_ROWS patents"
createdb --maintenance-db=postgres jobs
sql -f test/demo/data.sql >/dev/null
sql -v first=1 -v last="$JOBS_ROWS" -f test/demo/fill.sql >/dev/null
sql -c 'VACUUM (FREEZE, ANALYZE) patents'
classes="{$(sql -c "SELECT string_agg(class_id::text, ',') FROM top_classes")}"
sql -c '\timing on' -c 'CREATE INDEX patents_gpujoin ON patents USING gpujoin (class_id)' |
    tee "$log/build.txt"
sql -c '\timing on' -c "SELECT gpujoin_load('patents_gpujoin')" >"$log/load.txt" 2>&1 || true
plans=(gpujoin "seq scan, 1" "seq scan, N")
say "gpujoin and seq scans"
measure "${plans[@]}"
for job in $jobs_list; do
    { settings_of gpujoin; echo "EXPLAIN (ANALYZE, COSTS ON)"; text_of "$job"; echo ';'; } | sql
done >"$log/explain.txt"
say "btree"
sql -c 'CREATE INDEX patents_btree ON patents (class_id)'
measure btree
sql -c 'DROP INDEX patents_btree' -c 'CREATE INDEX patents_covering ON patents (class_id)
    INCLUDE (patent_id, app_year, issue_year, company_id, is_important)' -c 'VACUUM patents'
say "covering btree"
measure "covering btree"
plans+=(btree "covering btree")
{
    echo "# The seed's four jobs: $JOBS_ROWS patents, 4,000 classes, one row in twenty matches"
    echo
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $(nproc) processors," \
        "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1); medians of" \
        "$JOBS_RUNS runs, milliseconds, all in memory. Device:" \
        "$(sed -nE 's/^ *Device: //p' "$log/explain.txt" | sort -u | paste -sd ';')."
    echo
    echo "| job |$(printf ' %s |' "${plans[@]}") gpujoin ahead of the best |"
    echo "|---|$(printf -- '--:|%.0s' "${plans[@]}")--:|"
    for job in $jobs_list; do
        row="| $job |" best=''
        for plan in "${plans[@]}"; do
            ms=$(median "$(series "$plan" "$job")")
            row+=" $ms |"
            [ "$plan" = gpujoin ] && ours=$ms ||
                best=$(awk -v a="${best:-1e99}" -v b="$ms" 'BEGIN {print a < b ? a : b}')
        done
        echo "$row $(awk -v a="$best" -v b="$ours" 'BEGIN {printf "%.2f x", a / b}') |"
    done
    echo
    echo "Index build: $(sed -n 's/^Time: //p' "$log/build.txt"); load of the mirror:" \
        "$(sed -n 's/^Time: //p;s/^ERROR: *//p' "$log/load.txt" | tail -n 1)."
    echo
    echo '```'
    cut -c 1-110 "$log/explain.txt"
    echo '```'
} | tee "$log/jobs.md"
