# test/bench/part_jobs.sh: the four jobs that gpujoin was made for, with one process and with N.
# shellcheck shell=bash

job_text() {
    local join='top_classes t JOIN patents p ON p.class_id = t.class_id'
    case $1 in
        "count(*), = ANY") echo "SELECT count(*) FROM patents WHERE class_id = ANY ('$(
            sql -c 'SELECT array_agg(class_id) FROM top_classes')')" ;;
        "count, sum, join") echo "SELECT count(*), sum(p.company_id) FROM $join" ;;
        # OFFSET 0 keeps the planner from flattening the subquery below the counts: every column
        # is read.
        "all columns, join") echo "SELECT count(patent_id), count(class_id), count(app_year),
            count(issue_year), count(company_id), count(is_important)
            FROM (SELECT p.* FROM $join OFFSET 0) r" ;;
        "DISTINCT, join") echo "SELECT count(*), sum(hashint4(patent_id)) FROM
            (SELECT DISTINCT p.* FROM $join OFFSET 0) r" ;;
    esac
}

part_jobs() {
    local job jobs=("count(*), = ANY" "count, sum, join" "all columns, join" "DISTINCT, join")
    cases_left=8
    for job in "${jobs[@]}"; do
        explain="EXPLAIN (ANALYZE, TIMING OFF)"
        contest "jobs, 1 process" "$job" 0 patents class "$(job_text "$job")" "${contestants[@]}"
        explain="EXPLAIN (ANALYZE, TIMING OFF)"
        contest "jobs, N workers" "$job" 0 patents class "$(job_text "$job")" \
            "${contestants[@]/%/, N}"
    done
    explain=EXPLAIN
}
