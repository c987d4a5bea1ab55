# test/bench/peers.sh: external contestants: DuckDB, and PG-Strom on a server of its own, both
# with the rows of the benchmark's tables; sourced by bench.sh.
#
# DuckDB is installed by npm into the work folder, if node is available; DUCKDB=FOLDER names a
# folder that has it in node_modules. PG-Strom takes part if it is installed in the PostgreSQL in
# use. Contestants that are not available are left out, and the report says so.
# shellcheck shell=bash

outside_contestants=()
peer_tables="patents top_classes keyed wanted tupled wanted_tuples"

is_outside() { [[ $1 == DuckDB* || $1 == PG-Strom* ]]; }

# ---------------------------------------------------------------------------------------------
# Outside half: what is to be fetched
# ---------------------------------------------------------------------------------------------

prepare_peers() {
    local folder=$work/duckdb
    mkdir "$folder"
    if ! command -v node >/dev/null; then
        echo "there is no node" >"$work/log/no-duckdb.txt"
    elif [ -n "${DUCKDB:-}" ]; then
        [ -d "$DUCKDB/node_modules/@duckdb/node-api" ] ||
            die "DUCKDB=$DUCKDB has no node_modules/@duckdb/node-api"
        cp -rL "$DUCKDB/node_modules" "$folder/"
    else
        say "fetching DuckDB"
        npm install --prefix "$folder" --cache "$folder/cache" --no-audit --no-fund --no-save \
            @duckdb/node-api >"$work/log/npm.log" 2>&1 ||
            echo "npm does not get it: $(grep -m 1 'npm ERR\|npm error' "$work/log/npm.log")" \
                >"$work/log/no-duckdb.txt"
        rm -rf "$folder/cache"
    fi
}

# ---------------------------------------------------------------------------------------------
# Inside half: the same rows for all
# ---------------------------------------------------------------------------------------------

leave_out() { echo "$1 is left out: $2." | tee -a "$log/remarks.txt"; }

start_peers() {
    ! start_duckdb || fill_duckdb $peer_tables
    if [ ! -e "$(pg_config --pkglibdir)/pg_strom.so" ]; then
        leave_out PG-Strom "it is not installed"
    elif start_strom; then
        outside_contestants+=(PG-Strom)
    fi
}

# Fails if DuckDB is not available. A second call changes nothing.
start_duckdb() {
    [[ " ${outside_contestants[*]} " != *" DuckDB "* ]] || return 0
    if [ ! -d "$work/duckdb" ]; then
        leave_out DuckDB "the run is not one beside other databases"
        return 1
    elif [ -s "$log/no-duckdb.txt" ]; then
        leave_out DuckDB "$(cat "$log/no-duckdb.txt")"
        return 1
    fi
    mkfifo "$work/duckdb.in" "$work/duckdb.out"
    node test/bench/duckdb.mjs "$work/duckdb" <"$work/duckdb.in" >"$work/duckdb.out" \
        2>"$log/duckdb.txt" &
    exec {duckdb_in}>"$work/duckdb.in" {duckdb_out}<"$work/duckdb.out"
    rm "$work/duckdb.in" "$work/duckdb.out"
    if ! ask_duckdb "SELECT version()"; then
        leave_out DuckDB "$duckdb_said $(grep -m 1 Error "$log/duckdb.txt")"
        return 1
    fi
    echo "DuckDB $(cat "$work/answer"), in memory, by node $(node --version); its statements are" \
        "prepared once." >>"$log/remarks.txt"
    outside_contestants+=(DuckDB)
}

# The rows leave PostgreSQL by one session for each processor.
fill_duckdb() { # TABLE...
    local table columns
    for table in "$@"; do
        columns=$(sql -c "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', '
            ORDER BY attnum) FROM pg_attribute WHERE attrelid = '$table'::regclass AND attnum > 0")
        # shellcheck disable=SC2046  # numbers
        at_once export_share "$table" -- $(seq 0 $((processors - 1)))
        if ! ask_duckdb "SET threads = $processors" ||
            ! ask_duckdb "CREATE TABLE $table ($columns)" ||
            ! ask_duckdb "COPY $table FROM '$work/$table.*.csv' (FORMAT csv, HEADER false)"; then
            die "DuckDB: $duckdb_said"
        fi
        rm "$work/$table".*.csv
    done
    note "DuckDB has the rows ($SECONDS s)"
}

export_share() { # TABLE, and the NUMBER of the session, from 0
    local pages
    pages=$(sql -c "SELECT pg_relation_size('$1') / 8192")
    sql -c "COPY (SELECT * FROM $1 WHERE ctid >= '($((pages * $2 / processors)),0)'
            AND ctid < '($((pages * ($2 + 1) / processors)),0)')
        TO '$work/$1.$2.csv' (FORMAT csv)"
}

# ask_duckdb STATEMENT: leaves the answer in $work/answer and the milliseconds in duckdb_said; on
# failure, the error.
ask_duckdb() {
    echo "$1" >"$work/duckdb.sql"
    duckdb_said="it does not start"
    (trap '' PIPE; printf '%s\t%s\n' "$work/duckdb.sql" "$work/answer") \
        1>&"$duckdb_in" 2>/dev/null || return 1
    IFS= read -r duckdb_said <&"$duckdb_out" || return 1
    [[ $duckdb_said =~ ^[0-9.]+$ ]]
}

strom() { PGPORT=5433 sql "$@"; }

start_strom() {
    local nvcc
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
    {
        measuring_settings $buffers
        echo "shared_preload_libraries = 'pg_strom'"
        echo "port = 5433"
        # It compiles its GPU code at run time.
        [ -z "$nvcc" ] || echo "pg_strom.cuda_toolkit_basedir =" \
            "'$(dirname "$(dirname "$(readlink -f "$nvcc")")")'"
        echo "max_worker_processes = 64"
        echo "max_parallel_workers = $BENCH_WORKERS"
    } >"$work/strom.conf"
    if ! start_server strom <"$work/strom.conf" >"$log/strom.txt" 2>&1 ||
        ! PGPORT=5433 createdb --maintenance-db=postgres bench >>"$log/strom.txt" 2>&1 ||
        ! strom -c 'CREATE EXTENSION pg_strom' >>"$log/strom.txt" 2>&1; then
        leave_out PG-Strom "$(grep -m 1 -E 'ERROR|FATAL|could not' "$log/strom.txt")"
        return 1
    fi
    fill_strom || die "the rows cannot be copied to PG-Strom's server"
    echo "PG-Strom $(strom -c "SELECT extversion FROM pg_extension WHERE extname = 'pg_strom'")," \
        "on a server of its own." >>"$log/remarks.txt"
    note "PG-Strom has the rows ($SECONDS s)"
}

# Tables without their indexes, because the GPU scans them.
fill_strom() {
    local table
    # shellcheck disable=SC2046  # a list of options
    pg_dump --section=pre-data -x -O $(printf -- '-t %s ' $peer_tables) bench | strom >/dev/null ||
        return 1
    for table in $peer_tables; do
        sql -c "COPY $table TO STDOUT (FORMAT binary)" |
            strom -c "$committed_for_good" -c "COPY $table FROM STDIN (FORMAT binary)" &&
            strom -c "VACUUM (FREEZE, ANALYZE) $table" || return 1
    done
}

# ---------------------------------------------------------------------------------------------
# Inside half: run an external contestant, as run_as of lib.sh does for others
# ---------------------------------------------------------------------------------------------

run_outside() { # CONTESTANT STATEMENT
    case $1 in
        DuckDB*) run_duckdb "$@" ;;
        PG-Strom*) run_strom "$@" ;;
    esac
}

# A plan without a GPU node does not measure PG-Strom.
remark_on_outside() { # CONTESTANT STATEMENT
    remark=''
    [[ $1 == PG-Strom* ]] || return 0
    { limits_of_strom "$1"; echo "EXPLAIN $2;"; } | strom >"$work/said"
    grep -q Gpu "$work/said" || remark="other plan"
}

limits_of_strom() { limits_of "$1" | grep -v '^gpujoin' | as_set_commands; }

# DuckDB is fastest with a sub-select; it compares with the elements of a list one by one.
as_duckdb() { sed -E "s/= ANY \('\{([^}]*)\}'\)/IN (SELECT unnest([\1]))/" <<<"$1"; }

run_duckdb() {
    local threads=1 before
    [[ $1 != *", N" ]] || threads=$BENCH_WORKERS
    ask_duckdb "SET threads = $threads" || die "DuckDB: $duckdb_said"
    time_pace
    before=$pace
    ask_duckdb "${timed_as:+EXPLAIN ANALYZE }$(as_duckdb "$2")" || die "DuckDB: $duckdb_said"
    time_pace
    ms=$duckdb_said paces=("$before" "$pace")
    echo "-- none is shown" >"$work/plan"
}

time_pace() {
    printf '%s\n' '\timing on' '\o /dev/null' "$pace_loop;" '\timing off' | tell_session
    pace=$(sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' "$work/said" | tail -n 1)
}

# The first run warms the new session.
run_strom() {
    local times
    {
        limits_of_strom "$1"
        printf '\\o %s\n%s %s;\n' "$work/plan" "$explain" "$2"
        printf '\\o /dev/null\n%s;\n' "$2"
        echo '\timing on'
        printf '%s;\n\\o %s\n%s;\n' "$pace_loop" "$work/answer" "$2"
        printf '\\o /dev/null\n%s;\n' "$pace_loop"
    } | strom >"$work/said"
    mapfile -t times < <(sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' "$work/said")
    ms=${times[-2]} paces=("${times[-3]}" "${times[-1]}")
}
