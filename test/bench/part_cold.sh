# test/bench/part_cold.sh: the first query after a start, with the data on disk only. No mirror is
# loaded in advance.
# shellcheck shell=bash

part_cold() {
    local classes
    cases_left=2
    classes=$(sql -c 'SELECT make_keys(4000, 80)')
    sql -c CHECKPOINT
    before_run='go_cold bench start_bench_server'
    contest cold "count, sum, join, 5 %" 0 patents class \
        "$(job_text 'count, sum, join')" "${contestants[@]}"
    contest cold "count, sum, join, 0.1 %" 0 patents class "SELECT count(*), sum(p.company_id)
        FROM $classes s JOIN patents p ON p.class_id = s.k" "${contestants[@]}"
    before_run=''
    say_how_cold Cold
}
