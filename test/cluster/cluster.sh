#!/usr/bin/env bash
# test/cluster/cluster.sh: gpujoin on several servers, all on this host (test/setup.sh), and the
# same rows on one server to compare answers and times with:
#
#   Citus         a coordinator and two workers; skipped if this PostgreSQL has no Citus
#   postgres_fdw  two servers with half of the rows each, foreign partitions on a third
#
# Each query is run with btree indexes and with gpujoin's. Its answer must be that of the single
# server, and, if the query ships, gpujoin must have searched on every shard.
#
#   CLUSTER_ROWS    rows of the big table (20000000)
#   CLUSTER_KEYS    keys of a set; each has ten rows (10000)
#   CLUSTER_RUNS    measured runs of each query; the fastest counts (3)
#   CLUSTER_SHARDS  shards of the table in Citus (4)
#   PG_CONFIG       another PostgreSQL
#
# A time is measured at the client, including the transfer of rows. The plans are in
# tmp_check/plans, the last line is "N passed, N failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

export CLUSTER_ROWS=${CLUSTER_ROWS:-20000000} CLUSTER_KEYS=${CLUSTER_KEYS:-10000}
export CLUSTER_RUNS=${CLUSTER_RUNS:-3} CLUSTER_SHARDS=${CLUSTER_SHARDS:-4}
for name in ROWS KEYS RUNS SHARDS; do
    value=CLUSTER_$name
    [[ ${!value} =~ ^[1-9][0-9]*$ ]] || die "$value must be a whole number, not \"${!value}\""
done

source "$project/test/counting.sh"
inside || run_inside cluster test/cluster/cluster.sh
source test/cluster/queries.sh

# ---------------------------------------------------------------------------------------------
# Servers
# ---------------------------------------------------------------------------------------------

declare -A port=([one]=5501 [coordinator]=5502 [worker1]=5503 [worker2]=5504
    [parent]=5505 [half1]=5506 [half2]=5507)
citus_workers="worker1 worker2"
halves="half1 half2"

# sql SERVER [PSQL ARGUMENT...]: quiet, plain output, stops at the first error.
sql() {
    local server=$1
    shift
    psql -XqAt -v ON_ERROR_STOP=1 -p "${port[$server]}" -d postgres "$@"
}

# start SERVER...; standard input has further lines for their configuration. No device is used,
# since servers on one host would share it.
start() {
    local server extra
    extra=$(cat)
    for server in "$@"; do
        {
            measuring_settings 1024
            echo "port = ${port[$server]}"
            echo "work_mem = '64MB'"
            echo "gpujoin.device = 'none'"
            echo "$extra"
        } | start_server "$server"
    done
}

table='CREATE TABLE big (id bigint, k int, v int, t text)'
small='CREATE TABLE small (k int, name text)'
stride=$((CLUSTER_ROWS / 10 / CLUSTER_KEYS))
[ "$stride" != 0 ] || stride=1

# The keys are spread evenly over the table, ten rows each; queries search for as many of them.
fill_big() { # FIRST LAST
    echo "$committed_for_good; INSERT INTO big
        SELECT i, i * 7919 % greatest($CLUSTER_ROWS / 10, 1), i * 104729 % 1000003,
            'row number ' || i FROM generate_series($1::bigint, $2) i"
}
fill_small="INSERT INTO small SELECT i * $stride, 'name ' || i % 7
    FROM generate_series(0, $CLUSTER_KEYS / 10 - 1) i"
fill_local='CREATE TABLE local AS SELECT * FROM small'
keys_query="SELECT array_agg(i * $stride) FROM generate_series(0, $CLUSTER_KEYS - 1) i"

make_one() {
    start one <<<''
    sql one -c "$table" -c "$small" -c "$fill_small" -c "$fill_local" \
        -c "$(fill_big 1 "$CLUSTER_ROWS")" -c 'CREATE EXTENSION gpujoin' -c 'VACUUM ANALYZE'
    sql one -c "$keys_query" >"$work/keys"
}

# The extension and the index are created on the coordinator only. Workers show their shards only
# if configured to.
make_citus() {
    local worker
    start coordinator $citus_workers <<'CONF'
shared_preload_libraries = 'citus, gpujoin'
citus.enable_statistics_collection = off
citus.override_table_visibility = off
CONF
    for worker in coordinator $citus_workers; do sql "$worker" -c 'CREATE EXTENSION citus'; done
    sql coordinator -c "SELECT citus_set_coordinator_host('$PGHOST', ${port[coordinator]})" \
        >/dev/null
    for worker in $citus_workers; do
        sql coordinator -c "SELECT citus_add_node('$PGHOST', ${port[$worker]})" >/dev/null
    done
    sql coordinator -c 'CREATE EXTENSION gpujoin' -c "SET citus.shard_count = $CLUSTER_SHARDS" \
        -c "$table" -c "SELECT create_distributed_table('big', 'id')" \
        -c "$small" -c "SELECT create_reference_table('small')" -c "$fill_small" \
        -c "$fill_local" -c "$(fill_big 1 "$CLUSTER_ROWS")" -c 'VACUUM ANALYZE big, small, local' \
        >/dev/null
}

# postgres_fdw does not propagate DDL: tables, extension and index are created on each of the two.
# It reads through cursors, which are planned for a tenth of their rows by default.
make_fdw() {
    local half n=0 first last
    start parent $halves <<<''
    sql parent -c 'CREATE EXTENSION postgres_fdw' -c "$table PARTITION BY RANGE (id)" \
        -c "$small" -c "$fill_small" -c "$fill_local"
    for half in $halves; do
        n=$((n + 1)) first=$((CLUSTER_ROWS / 2 * (n - 1) + 1)) last=$((CLUSTER_ROWS / 2))
        [ $n = 1 ] || last=$CLUSTER_ROWS
        sql "$half" -c 'CREATE EXTENSION gpujoin' -c "$table" -c "$small" -c "$fill_small" \
            -c "$(fill_big $first $last)" -c 'VACUUM ANALYZE'
        sql parent <<SQL
CREATE SERVER $half FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$PGHOST',
    port '${port[$half]}', dbname 'postgres', async_capable 'true', fetch_size '10000',
    use_remote_estimate 'true', options '-c cursor_tuple_fraction=1');
CREATE USER MAPPING FOR CURRENT_USER SERVER $half;
CREATE FOREIGN TABLE big_$half PARTITION OF big FOR VALUES FROM ($first) TO ($((last + 1)))
    SERVER $half OPTIONS (table_name 'big');
CREATE FOREIGN TABLE small_$half (k int, name text) SERVER $half OPTIONS (table_name 'small');
SQL
    done
    sql parent -c 'ANALYZE'
}

# The servers on which a set-up's indexes are created, and those that have its shards
declare -A asked=([one]=one [citus]=coordinator [fdw]=parent)
declare -A made_on=([one]=one [citus]=coordinator [fdw]=$halves)
declare -A shards_on=([one]=one [citus]=$citus_workers [fdw]=$halves)
declare -A number_of_shards=([one]=1 [citus]=$CLUSTER_SHARDS [fdw]=2)

# Names of their indexes; in Citus, workers also have empty tables with the name of the whole
declare -A indexes=([one]='^big_k$' [citus]='^big_k_[0-9]+$' [fdw]='^big_k$')

index_all() { # SET-UP METHOD
    local server since=$EPOCHREALTIME
    for server in ${made_on[$1]}; do
        sql "$server" -c 'DROP INDEX IF EXISTS big_k' 2>/dev/null
        sql "$server" -c "CREATE INDEX big_k ON big USING $2 (k) INCLUDE (v)"
        sql "$server" -c "VACUUM big"
    done
    note "$(awk -v s="$since" -v e="$EPOCHREALTIME" -v w="$1, $2" \
        'BEGIN {printf "%-16s indexed in %.1f s", w, e - s}')"
}

# The number of shards that have an index of ours
indexes_of() { # SET-UP
    local server count=0
    for server in ${shards_on[$1]}; do
        count=$((count + $(sql "$server" -c "SELECT count(*) FROM pg_class i
            JOIN pg_am a ON a.oid = i.relam WHERE a.amname = 'gpujoin' AND i.relkind = 'i'
            AND i.relname ~ '${indexes[$1]}'")))
    done
    echo "$count"
}

# ---------------------------------------------------------------------------------------------
# Queries
# ---------------------------------------------------------------------------------------------

# Citus hides the plans of its tasks on the workers by default.
settings_of() {
    case $1 in
        citus) echo 'SET citus.explain_all_tasks = on; SET citus.log_multi_join_order = off;' ;;
        fdw) echo 'SET enable_partitionwise_aggregate = on; SET enable_partitionwise_join = on;' ;;
    esac
}

# ask SET-UP QUERY-NAME [PREFIX]: standard output of psql
ask() {
    sql "${asked[$1]}" 2>&1 <<SQL
\\set keys \`cat $work/keys\`
$(settings_of "$1")
$(preamble "$2")
${3:-}
$(query_text "$2" "$1");
SQL
}

quickest() { sort -n | sed -n 1p; }

# The time of the fastest of some runs in one session, in milliseconds
time_of() { # SET-UP QUERY-NAME
    local runs='' i
    for ((i = 0; i <= CLUSTER_RUNS; i++)); do runs+="$(query_text "$2" "$1");"$'\n'; done
    sql "${asked[$1]}" <<SQL | sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' | tail -n +2 | quickest
\\set keys \`cat $work/keys\`
$(settings_of "$1")
$(preamble "$2")
\\o /dev/null
\\timing on
$runs
SQL
}

# The number of rows that came from the shards, and the number of shards that gpujoin searched
reset_counts() {
    local server
    for server in ${shards_on[$1]}; do
        sql "$server" -c 'SELECT gpujoin_stats_reset()' >/dev/null
    done
}
searched_on() { # SET-UP
    local server count=0
    for server in ${shards_on[$1]}; do
        count=$((count + $(sql "$server" -c "SELECT count(*) FROM pg_stat_gpujoin_indexes
            WHERE indexrelname ~ '${indexes[$1]}' AND searches > 0")))
    done
    echo "$count"
}
rows_from_shards() {
    sed -nE 's/.*(Citus Adaptive|Foreign (Scan|Update)).*\(actual rows=([0-9]+).*/\3/p' "$1" |
        awk '{n += $1} END {print n + 0}'
}

same_as_one() { [ "$(ask "$1" "$2" | sort | md5sum)" = "$(cat "$work/answer-$2")" ]; }

# measure SET-UP METHOD QUERY-NAME: fills ms, searched and crossed
declare -A ms searched crossed
measure() {
    local id="$1 $3" plan="$log/plans/$3-$1-$2"
    if [ "$1 $2" = 'one btree' ]; then ask "$1" "$3" | sort | md5sum >"$work/answer-$3"; fi
    reset_counts "$1"
    check "$1, $2: rows of $3" same_as_one "$1" "$3"
    ms[$id $2]=$(time_of "$1" "$3")
    [ "$2" = gpujoin ] || return 0
    searched[$id]=$(searched_on "$1")
    ask "$1" "$3" 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF)' >"$plan"
    crossed[$id]=$(rows_from_shards "$plan")
    if ships "$3" "$1"; then
        check "$1: gpujoin searches on every shard for $3, on ${searched[$id]}" \
            [ "${searched[$id]}" = "${number_of_shards[$1]}" ]
    fi
    [ "$1" != citus ] || ! ships "$3" citus ||
        check "citus: EXPLAIN shows gpujoin in every task of $3" \
            [ "$(grep -cE 'Custom Scan \(Gpu(JoinScan|Scan)\)' "$plan")" = "$CLUSTER_SHARDS" ]
}

run_setup() {
    local method query
    for method in btree gpujoin; do
        index_all "$1" "$method"
        for query in $queries; do
            ! asked_of "$query" "$1" || measure "$1" "$method" "$query"
        done
    done
    check "$1: each shard has its index" [ "$(indexes_of "$1")" = "${number_of_shards[$1]}" ]
}

# These servers are no longer used; free their space for the next ones.
remove_all() {
    local server
    for server in "$@"; do
        stop_server "$server"
        rm -rf "${work:?}/$server"
    done
}

# Queries that Citus refuses to plan, with its messages
show_refused() {
    local query message
    for query in $refused_by_citus; do
        message=$({ ask citus "$query" || true; } | grep -m 1 ERROR) || message='was answered'
        note "$(printf '%-12s %s' "$query" "$message")"
        check "citus refuses $query" [ "$message" != 'was answered' ]
    done
}

cell() { printf '%9s' "${ms[$1]:--}"; }
report() {
    local query
    say "milliseconds, $CLUSTER_ROWS rows, $CLUSTER_KEYS keys"
    printf '    %-12s %9s %9s %9s %9s %9s %9s  %-14s %s\n' '' 'one' 'one' 'Citus' 'Citus' \
        'fdw' 'fdw' 'searched on' 'rows from shards'
    printf '    %-12s %9s %9s %9s %9s %9s %9s  %-14s %s\n' query btree gpujoin btree gpujoin \
        btree gpujoin 'Citus / fdw' 'Citus / fdw'
    for query in $queries; do
        printf '    %-12s %s %s %s %s %s %s  %-14s %s\n' "$query" \
            "$(cell "one $query btree")" "$(cell "one $query gpujoin")" \
            "$(cell "citus $query btree")" "$(cell "citus $query gpujoin")" \
            "$(cell "fdw $query btree")" "$(cell "fdw $query gpujoin")" \
            "${searched[citus $query]:--} / ${searched[fdw $query]:--}" \
            "${crossed[citus $query]:--} / ${crossed[fdw $query]:--}"
    done
}

build_and_install
mkdir "$log/plans"
say "one server"
make_one
run_setup one
remove_all one
if [ -e "$("$PG_CONFIG" --sharedir)/extension/citus.control" ]; then
    say "Citus: a coordinator, two workers, $CLUSTER_SHARDS shards"
    make_citus
    run_setup citus
    show_refused
    remove_all coordinator $citus_workers
else
    note "Citus skipped: this PostgreSQL has no citus.control"
fi
if [ -e "$("$PG_CONFIG" --sharedir)/extension/postgres_fdw.control" ]; then
    say "postgres_fdw: two servers, foreign partitions"
    make_fdw
    run_setup fdw
    remove_all parent $halves
else
    note "postgres_fdw skipped: this PostgreSQL has no postgres_fdw.control"
fi
report
[ "$failed" = 0 ]
