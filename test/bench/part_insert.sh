# test/bench/part_insert.sh: what each kind of index costs those who write. Every kind has a table
# of its own; a mirror, where there is a device, is loaded.
# shellcheck shell=bash

insert_table() { echo "insert_${1// /_}"; }

make_insert_tables() {
    local kind table
    for kind in "${contestants[@]}"; do
        table=$(insert_table "$kind")
        sql -c "DROP TABLE IF EXISTS $table" -c "CREATE TABLE $table AS
            SELECT * FROM patents WHERE patent_id <= $BENCH_WRITE_ROWS"
        [ "$kind" = "no index" ] ||
            sql -c "CREATE INDEX ${table}_index ON $table $(index_definition "$kind" class_id \
                'patent_id, app_year, issue_year, company_id, is_important')"
        sql -c "VACUUM (FREEZE, ANALYZE) $table"
        [[ $kind != gpujoin* ]] ||
            sql -c "SELECT gpujoin_load('${table}_index')" >/dev/null 2>&1 || true
        echo "\\set k 2 * random(1, 80000)
INSERT INTO $table VALUES (:client_id, :k, 2000, 2001, :k, false);" >"$work/insert-$table.sql"
    done
    # Readers: a set that matches little, so that they hardly weigh against those who write.
    echo "SELECT count(*) FROM :tbl WHERE class_id = ANY (ARRAY(SELECT k FROM $(
        sql -c 'SELECT make_keys(100, 8)')));" >"$work/insert-read.sql"
}

# insert_rate CONTESTANT CLIENTS READERS: rows a second, while READERS look up ten sets a second.
insert_rate() {
    local table reader=''
    table=$(insert_table "$1")
    if [ "$3" != 0 ]; then
        PGOPTIONS=$(as_options "$1") pgbench -n -c "$3" -j 1 -R 10 -T "$((BENCH_SECONDS + 1))" \
            -D tbl="$table" -f "$work/insert-read.sql" >"$log/readers.txt" 2>&1 &
        reader=$!
        sleep 0.3
    fi
    tps_of -M prepared -c "$2" -j "$(($2 < processors ? $2 : processors))" \
        -T "$BENCH_SECONDS" -f "$work/insert-$table.sql"
    [ -z "$reader" ] || wait "$reader"
}

# timed STATEMENT: its milliseconds.
timed() { sql -c '\timing on' -c "$1" | sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' | tail -n 1; }

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

in_turn() { # FUNCTION ARGUMENT...: for each contestant, as often as there is time
    local round kind label="${*/_/ }"
    begin_case
    for ((round = 1; ; round++)); do
        another_round "$round" || break
        sql -c CHECKPOINT
        while IFS= read -r kind <&3; do
            "$1" "$kind" "${@:2}"
        done 3< <(in_order "$round" "${contestants[@]}")
    done
    ((round > 1)) || not_reached "insert, ${label#* }"
    say_rounds "insert, ${label#* }" $((round - 1))
}

keep_rate() { # CONTESTANT CLIENTS READERS
    local tps
    tps=$(insert_rate "$@")
    keep insert "single rows, $2 clients, $3 readers" "$1" "a second" more 0 "$tps" ''
}

part_insert() {
    local load=$((BENCH_WRITE_ROWS / 16 + 1)) kind
    cases_left=5
    make_insert_tables
    sql -c "CREATE TABLE insert_load AS SELECT * FROM patents WHERE patent_id <= $load" \
        -c "COPY insert_load TO '$work/load.txt'"
    in_turn keep_rate 1 0
    in_turn keep_rate 8 0
    in_turn keep_rate 8 2
    in_turn time_update
    in_turn time_bulk
    sql -c "DROP TABLE insert_load"
    for kind in "${contestants[@]}"; do sql -c "DROP TABLE $(insert_table "$kind")"; done
    rm "$work/load.txt"
}
