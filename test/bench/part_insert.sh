# test/bench/part_insert.sh: the cost of each kind of index for writers. Every kind has a table of
# its own; its mirror is loaded if there is a device.
# shellcheck shell=bash

insert_table() { echo "insert_${1// /_}"; }

make_insert_scripts() {
    local contestant table
    for contestant in "${contestants[@]}"; do
        table=$(insert_table "$contestant")
        echo "\\set k 2 * random(1, 80000)
INSERT INTO $table VALUES (:client_id, :k, 2000, 2001, :k, false);" >"$work/insert-$table.sql"
    done
    # Readers use a set that matches few rows, so that they hardly slow the writers down.
    echo "SELECT count(*) FROM :tbl WHERE class_id = ANY (ARRAY(SELECT k FROM $(
        sql -c 'SELECT make_keys(100, 8)')));" >"$work/insert-read.sql"
}

# Readers of all contestants do the same number of look-ups, each through its own index.
readers_remark() { # CONTESTANT
    local table
    [ "$1" != "no index" ] || return 0
    table=$(insert_table "$1")
    PGOPTIONS=$(as_options "$1") sql -c "EXPLAIN $(sed "s/:tbl/$table/" "$work/insert-read.sql")" |
        grep -w "${table}_index" >/dev/null || echo "other plan"
}

# insert_rate CONTESTANT CLIENTS READERS: rows per second, while READERS look up twenty sets a
# second.
insert_rate() {
    local table reader=''
    table=$(insert_table "$1")
    if [ "$3" != 0 ]; then
        PGOPTIONS=$(as_options "$1") pgbench -n -c "$3" -j 1 -R 20 -T "$((BENCH_SECONDS + 1))" \
            -D tbl="$table" -f "$work/insert-read.sql" >"$work/readers.txt" 2>&1 &
        reader=$!
        sleep 0.3
    fi
    tps_of -M prepared -c "$2" -j "$(($2 < processors ? $2 : processors))" \
        -T "$BENCH_SECONDS" -f "$work/insert-$table.sql"
    [ -z "$reader" ] || wait "$reader" || die "the readers failed: $(tail -n 1 "$work/readers.txt")"
}

time_bulk() { # CONTESTANT
    local table
    table=$(insert_table "$1")
    keep insert "COPY of $load rows" "$1" ms less 0 \
        "$(timed "COPY $table FROM '$work/load.txt'")" ''
    keep insert "INSERT ... SELECT of $load rows" "$1" ms less 0 \
        "$(timed "INSERT INTO $table SELECT * FROM insert_load")" ''
}

# A new key for each row, so that no update is heap-only.
time_update() { # CONTESTANT
    local table
    table=$(insert_table "$1")
    keep insert "UPDATE of $load rows" "$1" ms less 0 \
        "$(timed "UPDATE $table SET class_id = class_id % 160000 + 2
            WHERE patent_id <= $load")" ''
    keep insert "VACUUM after it" "$1" ms less 0 "$(timed "VACUUM $table")" ''
    [ "$1" = "no index" ] || keep insert "index size after it" "$1" "bytes a row" less 0 \
        "$(sql -c "SELECT pg_relation_size('${table}_index') / $BENCH_WRITE_ROWS::float8")" ''
}

# in_turn CASE FUNCTION ARGUMENT...: for each contestant, as often as time permits.
in_turn() {
    local round contestant
    begin_case "insert, $1" || return 0
    for ((round = 1; ; round++)); do
        another_round "$round" || break
        sql -c CHECKPOINT
        while IFS= read -r contestant <&3; do
            "$2" "$contestant" "${@:3}"
        done 3< <(in_order "$round" "${contestants[@]}")
    done
    say_rounds "insert, $1" $((round - 1))
}

keep_rate() { # CONTESTANT CLIENTS READERS
    local tps remark='' looked_up
    tps=$(insert_rate "$@")
    if [ "$3" != 0 ]; then
        remark=$(readers_remark "$1")
        looked_up=$(sed -nE 's/^tps = ([0-9.]+).*/\1/p' "$work/readers.txt")
        keep insert "look-ups of the $3 readers" "$1" "a second" more 0 "$looked_up" "$remark"
    fi
    keep insert "single rows, $2 clients, $3 readers" "$1" "a second" more 0 "$tps" "$remark"
}

# Report whether the mirrors were present until the end.
say_mirrors() {
    sql -c "SELECT 'Mirror of ' || indexrelname || ' after the writing: ' || state || ', ' ||
        syncs || ' times brought up to date, asked by ' || matches || ' searches.'
        FROM pg_stat_gpujoin_mirrors WHERE indexrelname LIKE 'insert\\_%' ORDER BY indexrelname" \
        >>"$log/remarks.txt"
}

part_insert() {
    local load=$((BENCH_WRITE_ROWS / 16 + 1))
    cases_left=5
    at_once copy_patents class insert -- "${contestants[@]}"
    vacuum_copies insert "${contestants[@]}"
    make_insert_scripts
    sql -c "CREATE TABLE insert_load AS SELECT * FROM patents WHERE patent_id <= $load" \
        -c "COPY insert_load TO '$work/load.txt'"
    in_turn "single rows, 8 clients, 4 readers" keep_rate 8 4
    say_mirrors
    in_turn "single rows, 1 client" keep_rate 1 0
    in_turn "single rows, 8 clients" keep_rate 8 0
    in_turn "UPDATE" time_update
    in_turn "bulk" time_bulk
    drop_tables insert "${contestants[@]}"
    sql -c "DROP TABLE insert_load"
    rm "$work/load.txt"
}
