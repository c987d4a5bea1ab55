# test/bench/part_upkeep.sh: the life of an index: WAL and VACUUM while a table grows, VACUUM
# after updates, space and speed after many of them. Every kind has a table of its own; "no index"
# shows the table's share of each number.
# shellcheck shell=bash

upkeep_table() { echo "upkeep_${1// /_}"; }

make_upkeep_table() { # KIND
    local BENCH_WRITE_ROWS=$upkeep_rows
    copy_patents class upkeep "$1"
}

wal_position() { sql -c 'SELECT pg_current_wal_insert_lsn()'; }

# Numbers on standard input: their sum, the largest and the mean.
sum_of() { awk '{s += $1} END {print s}'; }
longest_of() { sort -g | tail -n 1; }
mean_of() { awk '{s += $1} END {print s / NR}'; }

# keep_times CASE CONTESTANT FILE: the median of the times in the file (report.pl takes the median
# of all samples), the longest and the mean, because an index may postpone its work.
keep_times() {
    local ms
    while read -r ms; do
        keep upkeep "$1" "$2" ms less 0 "$ms" ''
    done <"$3"
    keep upkeep "$1, the longest" "$2" ms less 0 "$(longest_of <"$3")" ''
    keep upkeep "$1, the mean" "$2" ms less 0 "$(mean_of <"$3")" ''
}

index_size() { # CONTESTANT ROWS
    sql -c "SELECT pg_relation_size('$(upkeep_table "$1")_index') / $2::float8"
}

# The search that runs on each index after each chapter of its life.
keep_search() { # CONTESTANT CASE
    local table text run
    [ "$1" != "no index" ] || return 0
    table=$(upkeep_table "$1")
    text="SELECT count(*), sum(p.company_id) FROM $(sql -c 'SELECT make_keys(4000, 4000)') s
        JOIN $table p ON p.class_id = s.k"
    for ((run = 0; run <= BENCH_RUNS; run++)); do
        PGOPTIONS=$(as_options "$1") timed "$text" >"$work/upkeep-ms"
        # The first run has warmed the caches.
        [ "$run" = 0 ] || keep upkeep "search, $2" "$1" ms less 0 "$(<"$work/upkeep-ms")" ''
    done
}

# From N rows to 2N, a tenth at a time.
grow() { # CONTESTANT
    local table rows=$upkeep_rows step=$((upkeep_rows / 10)) i since
    table=$(upkeep_table "$1")
    sql -c CHECKPOINT
    since=$(wal_position)
    for ((i = 0; i < 10; i++)); do
        timed "INSERT INTO $table SELECT patent_id + $rows, class_id, app_year, issue_year,
            company_id, is_important FROM patents
            WHERE patent_id > $((i * step)) AND patent_id <= $(((i + 1) * step))" >&3
        timed "VACUUM $table" >&4
    done 3>"$work/inserts" 4>"$work/vacuums"
    keep upkeep "WAL of growing to twice the rows" "$1" "bytes a row" less 0 \
        "$(sql -c "SELECT pg_wal_lsn_diff('$(wal_position)', '$since') / $rows::float8")" ''
    keep upkeep "ten times 10 % inserts" "$1" ms less 0 "$(sum_of <"$work/inserts")" ''
    keep_times "VACUUM after 10 % inserts" "$1" "$work/vacuums"
    [ "$1" = "no index" ] || keep upkeep "index size after growing" "$1" "bytes a row" less 0 \
        "$(index_size "$1" $((2 * rows)))" ''
    keep_search "$1" "after growing"
}

# Four times, new keys for a tenth of the rows.
change_some() { # CONTESTANT
    local table i
    table=$(upkeep_table "$1")
    sql -c CHECKPOINT
    for ((i = 0; i < 4; i++)); do
        sql -c "UPDATE $table SET class_id = class_id % 160000 + 2 WHERE patent_id % 10 = $i"
        timed "VACUUM $table" >&3
    done 3>"$work/vacuums"
    keep_times "VACUUM after 10 % updates" "$1" "$work/vacuums"
}

# Ten times, new keys for all rows.
change_all() { # CONTESTANT
    local table i
    table=$(upkeep_table "$1")
    for ((i = 0; i < 10; i++)); do
        sql -c "UPDATE $table SET class_id = class_id % 160000 + 2" -c "VACUUM $table"
    done
    [ "$1" = "no index" ] || keep upkeep "index size after ten updates of all rows" "$1" \
        "bytes a row" less 0 "$(index_size "$1" "$upkeep_rows")" ''
    keep_search "$1" "after ten updates of all rows"
}

keep_fresh() { # CONTESTANT
    [ "$1" = "no index" ] || keep upkeep "index size, fresh" "$1" "bytes a row" less 0 \
        "$(index_size "$1" "$upkeep_rows")" ''
    keep_search "$1" fresh
}

# Each contestant's table exists only during its chapters.
upkeep_of() { # CASE ROWS FUNCTION...
    local contestant chapter upkeep_rows=$2
    begin_case "upkeep, $1" || return 0
    at_once make_upkeep_table -- "${contestants[@]}"
    vacuum_copies upkeep "${contestants[@]}"
    for contestant in "${contestants[@]}"; do
        for chapter in "${@:3}"; do "$chapter" "$contestant"; done
    done
    drop_tables upkeep "${contestants[@]}"
    note "upkeep, $1 ($SECONDS s)"
}

part_upkeep() {
    cases_left=3
    # After doubling, the number of rows is that of the tables that are written to.
    upkeep_of "growing" $((BENCH_WRITE_ROWS / 2)) keep_fresh grow
    upkeep_of "10 % updates" $((BENCH_WRITE_ROWS / 2)) change_some
    upkeep_of "updates of all rows" $((BENCH_WRITE_ROWS / 10)) change_all
}
