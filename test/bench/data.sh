# test/bench/data.sh: the benchmark's data and indexes, made by one session for each processor;
# sourced by bench.sh.
# shellcheck shell=bash

# at_once COMMAND... -- ARGUMENT...: run the command with each argument appended, all at the same
# time.
at_once() {
    local command=() argument pid pids=()
    while [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    for argument in "${@:2}"; do
        "${command[@]}" "$argument" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

# ---------------------------------------------------------------------------------------------
# The big table
# ---------------------------------------------------------------------------------------------

# For larger tables, WAL would take more disk space and time than the data.
is_logged() { ((BENCH_ROWS <= 50000000)); }

fill_part() { # called with the NUMBER of the session, from 0
    sql -v first=$((BENCH_ROWS * $1 / processors + 1)) \
        -v last=$((BENCH_ROWS * ($1 + 1) / processors)) -v step=2 -v companies=1000000 \
        -c "$committed_for_good" -f test/patents/fill.sql >/dev/null
}

make_database() {
    export PGDATABASE=bench
    createdb --maintenance-db=postgres bench
    sql -f test/bench/functions.sql >/dev/null
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
    say "making $BENCH_ROWS rows ($SECONDS s)"
    make_database
    sql -v step=2 -c "$committed_for_good" -f test/patents/data.sql >/dev/null
    # Contestants with N workers get N, whatever the table's size.
    sql -c "ALTER TABLE patents SET (parallel_workers = $BENCH_WORKERS)"
    is_logged || sql -c 'ALTER TABLE patents SET UNLOGGED'
    # shellcheck disable=SC2046  # numbers
    at_once fill_part -- $(seq 0 $((processors - 1)))
    note "filled ($SECONDS s)"
    sql -c 'VACUUM (FREEZE, ANALYZE) patents'
    require_all_visible patents top_classes
    sql -c 'CREATE TABLE filled AS SELECT 1'
    note "vacuumed ($SECONDS s)"
}

# ---------------------------------------------------------------------------------------------
# Indexes
# ---------------------------------------------------------------------------------------------

# column_of PREFIX, included_in PREFIX: key column and INCLUDE columns of indexes with PREFIX.
column_of() { echo "${1}_id"; }

included_in() {
    case $1 in
        class) echo "patent_id, app_year, issue_year, company_id, is_important" ;;
        company) echo "patent_id" ;;
        patent) echo "company_id" ;;
    esac
}

# definition KIND PREFIX: the part of CREATE INDEX after ON table.
definition() { index_definition "$1" "$(column_of "$2")" "$(included_in "$2")"; }

# Builds share the processors. Mirrors are loaded later, so that loading can be timed.
make_index() { # PREFIX KIND
    local name
    name=$(index_of "$2" "$1")
    sql -c 'SET gpujoin.auto_load = off' -c "SET max_parallel_workers = $processors" \
        -c "SET max_parallel_maintenance_workers = $(((processors + 1) / 3))" \
        -c "CREATE INDEX IF NOT EXISTS $name ON patents $(definition "$2" "$1")"
}

keep_size() { # KIND PREFIX INDEX
    keep build "size of index on $(column_of "$2")" "$1" "bytes a row" less 0 \
        "$(sql -c "SELECT pg_relation_size('$3') / $BENCH_ROWS::float8")" ''
}

# make_indexes PREFIX: the contestants' indexes; part build times such builds one by one.
make_indexes() {
    local kind name
    # An earlier run has hidden all indexes except the last one used.
    sql -c "UPDATE pg_index SET indisvalid = true WHERE indrelid = 'patents'::regclass"
    at_once make_index "$1" -- "${kinds[@]}"
    for kind in "${kinds[@]}"; do
        name=$(index_of "$kind" "$1")
        keep_size "$kind" "$1" "$name"
        ! is_mirrored "$kind" || load_mirror "$name"
    done
    ! is_logged || sql -c CHECKPOINT
    note "indexes on $(column_of "$1") ($SECONDS s)"
}

drop_indexes() { # PREFIX
    local kind
    for kind in "${kinds[@]}"; do sql -c "DROP INDEX $(index_of "$kind" "$1")"; done
}

# Without a device, the CPU searches the index.
load_mirror() {
    local since=$EPOCHREALTIME
    sql -c "SELECT gpujoin_load('$1')" >"$work/load.txt" 2>&1 || return 0
    awk -v i="$1" -v s="$since" -v e="$EPOCHREALTIME" -v b="$(cat "$work/load.txt")" 'BEGIN {
        printf "Mirror of %s: %.0f MB in %.0f ms.\n", i, b / 1048576, (e - s) * 1000}' \
        >>"$log/remarks.txt"
}

# copy_patents PREFIX TABLES KIND: create table TABLES_KIND, with as many rows as are written to
# and one index, whose mirror is loaded if there is a device.
copy_patents() {
    local table=$2_${3// /_}
    sql -c "$committed_for_good" \
        -c "CREATE TABLE $table AS SELECT * FROM patents WHERE patent_id <= $BENCH_WRITE_ROWS"
    [ "$3" = "no index" ] ||
        sql -c "CREATE INDEX ${table}_index ON $table $(definition "$3" "$1")"
    sql -c "VACUUM (FREEZE, ANALYZE) $table"
    [[ $3 != gpujoin* ]] || sql -c "SELECT gpujoin_load('${table}_index')" >/dev/null 2>&1 || true
}

# vacuum_copies TABLES KIND...: VACUUM copies again; while copies were made concurrently, they
# kept each other's VACUUM from marking pages as all-visible.
vacuum_copies() {
    local kind
    for kind in "${@:2}"; do
        sql -c "VACUUM $1_${kind// /_}"
        require_all_visible "$1_${kind// /_}"
    done
}

drop_tables() { # TABLES KIND...
    local kind
    for kind in "${@:2}"; do sql -c "DROP TABLE $1_${kind// /_}"; done
}
