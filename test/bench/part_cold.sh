# test/bench/part_cold.sh: the first query after a start, with the data on disk only. The server's
# memory goes with the restart; the kernel is asked to forget each file, which needs no root, and
# fincore tells how far it has. No mirror is loaded in advance.
# shellcheck shell=bash

go_cold() {
    stop_server bench
    find -L "$work/bench/base" "$work/bench/pg_wal" -type f -size +64k -print0 |
        xargs -0 -I{} dd if={} iflag=nocache count=0 status=none
    resident=$(find -L "$work/bench/base" -type f -size +64k -print0 |
        xargs -0 fincore -b -n -o res,size 2>/dev/null |
        awk '{r += $1; s += $2} END {printf "%.0f", s ? 100 * r / s : 100}')
    ((resident <= most_resident)) || most_resident=$resident
    start_bench_server
}

part_cold() {
    local classes resident most_resident=0
    cases_left=2
    classes=$(sql -c 'SELECT make_keys(4000, 80)')
    sql -c CHECKPOINT
    before_run=go_cold
    contest cold "count, sum, join, 5 %" 0 patents class \
        "$(job_text 'count, sum, join')" "${contestants[@]}"
    contest cold "count, sum, join, 0.1 %" 0 patents class "SELECT count(*), sum(p.company_id)
        FROM $classes s JOIN patents p ON p.class_id = s.k" "${contestants[@]}"
    before_run=''
    echo "Cold: at most $most_resident % of the data were still in the kernel's memory." |
        tee -a "$log/remarks.txt"
}
