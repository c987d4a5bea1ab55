#!/usr/bin/env bash
# test/bench/bench_sql.sh: end-to-end benchmark, gpujoin against PostgreSQL's own index and plans,
# on a throw-away server (test/setup.sh). Prints a table in markdown.
#
#   BENCH_ROWS     rows of the tables (2000000)
#   BENCH_LOAD     rows that COPY and INSERT ... SELECT add in a run (1000000)
#   BENCH_RUNS     measured runs of each side, in turn, of which the median counts (3)
#   BENCH_SECONDS  length of one pgbench run (10)
#   BENCH_PARTS    what to run: "build load insert update search"
#   BENCH_CONF     a file of further server settings
#   BENCH_OUT      also write the table to this file, or to DATE-HOST.md in this folder
#
# Both sides have the same rows, in tables of their own where rows are written. Answers are checked
# before they are timed; times are only reported.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

all_parts="build load insert update search"

last_words() {
    local target=${BENCH_OUT:-}
    if [ "$1" != 0 ]; then
        note "logs: $logs_kept_in"
    elif [ -n "$target" ]; then
        [ ! -d "$target" ] || target=$target/$(date +%F)-$(uname -n).md
        cp "$logs_kept_in/bench.md" "$target" && note "written to $target"
    fi
}

export BENCH_ROWS=${BENCH_ROWS:-2000000} BENCH_LOAD=${BENCH_LOAD:-1000000}
export BENCH_RUNS=${BENCH_RUNS:-3} BENCH_SECONDS=${BENCH_SECONDS:-10}
export BENCH_PARTS=${BENCH_PARTS:-$all_parts} BENCH_CONF=${BENCH_CONF:+$(realpath "$BENCH_CONF")}
for value in "$BENCH_ROWS" "$BENCH_LOAD" "$BENCH_RUNS" "$BENCH_SECONDS"; do
    [[ $value =~ ^[1-9][0-9]*$ ]] || die "not a whole number: \"$value\""
done
for part in $BENCH_PARTS; do
    [[ " $all_parts " == *" $part "* ]] || die "no part \"$part\"; there are: $all_parts"
done
inside || run_inside bench test/bench/bench_sql.sh

export PGDATABASE=bench
keys=4000

# Commits do not wait for the disk, or it alone would be measured; WAL is written in full.
server_settings() {
    local need memory
    need=$((256 + BENCH_ROWS / 3000))
    memory=$(($(awk '/^MemTotal/ {print $2}' /proc/meminfo) / 1024 / 4))
    cat <<CONF
shared_buffers = '$((need < memory ? need : memory))MB'
work_mem = '256MB'
maintenance_work_mem = '256MB'
max_wal_size = '16GB'
checkpoint_timeout = '1h'
synchronous_commit = off
autovacuum = off
jit = off
shared_preload_libraries = 'gpujoin'
CONF
    [ -z "$BENCH_CONF" ] || cat "$BENCH_CONF"
}

# ---------------------------------------------------------------------------------------------
# Measuring and reporting
# ---------------------------------------------------------------------------------------------

sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# timed STATEMENT: its milliseconds.
timed() { sql -c '\timing on' -c "$1" | sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' | tail -n 1; }

# keep SERIES VALUE; the series' median is what is reported.
keep() { echo "$2" >>"$work/series-$1"; }

median() { sort -n "$work/series-$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# report CASE UNIT SERIES-OF-OURS SERIES-OF-THEIRS BETTER: the ratio is how often better gpujoin is;
# BETTER says whether more or less of the unit is.
report() {
    local ours theirs
    ours=$(median "$3") theirs=$(median "$4")
    awk -v name="$1" -v unit="$2" -v a="$ours" -v b="$theirs" -v better="$5" 'BEGIN {
        ratio = (a == 0 || b == 0) ? 0 : (better == "more" ? a / b : b / a)
        printf "| %s | %s | %.*f | %.*f | %.2f |\n", name, unit,
               a < 100 ? 2 : 0, a, b < 100 ? 2 : 0, b, ratio }' | tee -a "$log/rows.md"
}

# The two sides change places from run to run.
sides() { if (($1 % 2)); then echo "gpujoin btree"; else echo "btree gpujoin"; fi; }

wants() { [[ " $BENCH_PARTS " == *" $1 "* ]]; }

# ---------------------------------------------------------------------------------------------
# The parts
# ---------------------------------------------------------------------------------------------

# Column k20: one key in 20 of 80,000 is in a set of 4,000; k1000: one in a thousand of 4,000,000.
make_data() {
    createdb --maintenance-db=postgres bench
    sql -c 'CREATE EXTENSION gpujoin' -c 'SELECT setseed(0.5)' -c "
        CREATE TABLE source AS
        SELECT id, (1 + floor(random() * $keys * 20))::int AS k20,
               (1 + floor(random() * $keys * 1000))::int AS k1000,
               (random() * 1000)::int AS amount, id::int AS filler
        FROM generate_series(1, $BENCH_ROWS::bigint) AS id" >/dev/null
    for share in 20 1000; do
        sql -c 'SELECT setseed(0.6)' -c "
            CREATE TABLE set$share AS SELECT k FROM generate_series(1, $keys * $share) AS k
            ORDER BY random() LIMIT $keys" >/dev/null
    done
    sql -c 'VACUUM ANALYZE'
}

# A table with the source's first ROWS rows and an index of METHOD: NAME_METHOD.
make_table() {
    sql -c "CREATE TABLE $1_$2 AS SELECT * FROM source WHERE id <= $3" \
        -c "CREATE INDEX $1_$2_index ON $1_$2 USING $2 (k20)" -c "VACUUM ANALYZE $1_$2"
}

part_build() {
    local run side
    for run in $(seq "$BENCH_RUNS"); do
        for side in $(sides "$run") serial; do
            sql -c CHECKPOINT
            case $side in
                serial) keep build-serial "$(PGOPTIONS='-c max_parallel_maintenance_workers=0' \
                    timed 'CREATE INDEX built ON source USING btree (k20)')" ;;
                *) keep "build-$side" "$(timed "CREATE INDEX built ON source USING $side (k20)")" ;;
            esac
            keep "size-$side" "$(sql -c "SELECT pg_relation_size('built') / $BENCH_ROWS::float8")"
            sql -c 'DROP INDEX built'
        done
    done
    report "index build" ms build-gpujoin build-btree less
    report "index build, btree without parallel workers" ms build-gpujoin build-serial less
    report "index size after build" "bytes a row" size-gpujoin size-btree less
}

part_load() {
    local run side kind
    sql -c "COPY (SELECT id, (1 + floor(random() * $keys * 20))::int,
        (1 + floor(random() * $keys * 1000))::int, amount, filler
        FROM generate_series(1, ceil($BENCH_LOAD::float8 / $BENCH_ROWS)::int), source
        LIMIT $BENCH_LOAD) TO '$work/load.txt'" \
        -c 'CREATE TABLE load (LIKE source)' -c "COPY load FROM '$work/load.txt'" \
        -c 'VACUUM ANALYZE load'
    for side in gpujoin btree; do make_table load "$side" "$BENCH_ROWS"; done
    for run in $(seq "$BENCH_RUNS"); do
        for kind in copy select; do
            for side in $(sides "$run"); do
                sql -c CHECKPOINT
                case $kind in
                    copy) keep "copy-$side" "$(timed "COPY load_$side FROM '$work/load.txt'")" ;;
                    *) keep "select-$side" \
                        "$(timed "INSERT INTO load_$side SELECT * FROM load")" ;;
                esac
            done
        done
    done
    report "COPY of $BENCH_LOAD rows" ms copy-gpujoin copy-btree less
    report "INSERT ... SELECT of $BENCH_LOAD rows" ms select-gpujoin select-btree less
    sql -c 'DROP TABLE load_gpujoin, load_btree, load'
    rm "$work/load.txt"
}

part_insert() {
    local run side clients
    for side in gpujoin btree; do
        make_table insert "$side" "$BENCH_ROWS"
        printf '%s\n' "\\set k random(1, $((keys * 20)))" \
            "INSERT INTO insert_$side VALUES (:client_id, :k, :k, 1, 1);" >"$work/insert-$side.sql"
    done
    for run in $(seq "$BENCH_RUNS"); do
        for clients in 1 2; do
            for side in $(sides "$run"); do
                sql -c CHECKPOINT
                keep "insert-$clients-$side" "$(pgbench -n -M prepared -c "$clients" \
                    -j "$clients" -T "$BENCH_SECONDS" -f "$work/insert-$side.sql" 2>&1 |
                    sed -nE 's/^tps = ([0-9.]+).*/\1/p')"
            done
        done
    done
    for clients in 1 2; do
        report "single-row INSERT, $clients client$([ "$clients" = 1 ] || echo s)" "a second" \
            "insert-$clients-gpujoin" "insert-$clients-btree" more
    done
    sql -c 'DROP TABLE insert_gpujoin, insert_btree'
}

# How far an index grows when every row is written anew ten times, with a vacuum after each.
part_update() {
    local round side rows=$((BENCH_ROWS / 4 + 1)) size
    for side in gpujoin btree; do
        make_table update "$side" "$rows"
        size="SELECT pg_relation_size('update_${side}_index') / $rows::float8"
        keep "fresh-$side" "$(sql -c "$size")"
    done
    for round in $(seq 10); do
        for side in $(sides "$round"); do
            # A new key, so that no update is heap-only.
            keep "update-$side" "$(timed "UPDATE update_$side SET k20 = k20 % ($keys * 20) + 1")"
            keep "vacuum-$side" "$(timed "VACUUM update_$side")"
        done
    done
    for side in gpujoin btree; do
        size="SELECT pg_relation_size('update_${side}_index') / $rows::float8"
        keep "grown-$side" "$(sql -c "$size")"
    done
    report "index size, fresh" "bytes a row" fresh-gpujoin fresh-btree less
    report "index size after 10 rounds of UPDATE, VACUUM" "bytes a row" \
        grown-gpujoin grown-btree less
    report "UPDATE of $rows rows" ms update-gpujoin update-btree less
    report "VACUUM after it" ms vacuum-gpujoin vacuum-btree less
    sql -c 'DROP TABLE update_gpujoin, update_btree'
}

# query KIND SHARE TARGET: every search query, with its target list.
query() {
    local values
    case $1 in
        join) echo "SELECT $3 FROM set$2 s JOIN source b ON b.k$2 = s.k" ;;
        *)
            values=$(cat "$work/keys$2")
            echo "SELECT $3 FROM source b WHERE b.k$2 = ANY ('{$values}')"
            ;;
    esac
}

# The plans that are compared; "gpujoin" is what the planner chooses.
plan_settings() {
    case $1 in
        gpujoin) ;;
        seqscan) echo 'SET gpujoin.enabled = off; SET enable_indexscan = off;
                       SET enable_bitmapscan = off; SET enable_indexonlyscan = off;' ;;
        btree) echo 'SET gpujoin.enabled = off; SET enable_seqscan = off;' ;;
    esac
}

check_answers() {
    local plan kind share answer expected
    for share in 20 1000; do
        for kind in any join; do
            expected=''
            for plan in "$@"; do
                answer=$(echo "$(plan_settings "$plan") $(query $kind $share 'count(*), sum(b.id),
                    sum(hashint8extended(b.id, 0)::numeric)');" | sql)
                [ "${expected:=$answer}" = "$answer" ] ||
                    die "$kind, 1 in $share: $plan answers $answer instead of $expected"
            done
        done
    done
}

time_search() {
    local plan=$1 kind=$2 share=$3 target=$4
    echo "$(plan_settings "$plan") EXPLAIN (ANALYZE, TIMING OFF)" \
        "$(query "$kind" "$share" "$target");" | sql >"$work/plan"
    [ "$plan" != gpujoin ] || grep -qE 'Gpu(Scan|Join)' "$work/plan" ||
        die "$kind, 1 in $share: the planner does not choose gpujoin"
    keep "$kind-$share-$target-$plan" \
        "$(awk '/^(Planning|Execution) Time:/ {ms += $3} END {print ms}' "$work/plan")"
}

# gpujoin and seq scan in turn, without btrees, which the planner could rightly prefer; then these.
part_search() {
    local share kind target run plan stock
    for share in 20 1000; do
        sql -c "SELECT string_agg(k::text, ',') FROM set$share" >"$work/keys$share"
        sql -c "CREATE INDEX search_gpujoin_$share ON source USING gpujoin (k$share)"
    done
    check_answers seqscan gpujoin
    for stock in seqscan btree; do
        if [ "$stock" = btree ]; then
            sql -c 'CREATE INDEX search_20 ON source (k20)' \
                -c 'CREATE INDEX search_1000 ON source (k1000)'
            check_answers seqscan btree
        fi
        for run in $(seq "$BENCH_RUNS"); do
            for share in 20 1000; do
                for kind in any join; do
                    for target in 'count(*)' 'sum(amount)'; do
                        for plan in $([ "$stock" = btree ] || echo gpujoin) "$stock"; do
                            time_search "$plan" "$kind" "$share" "$target"
                        done
                    done
                done
            done
        done
    done
    for stock in seqscan btree; do
        for share in 1000 20; do
            for kind in any join; do
                for target in 'count(*)' 'sum(amount)'; do
                    report "$target, $([ $kind = any ] && echo '= ANY' || echo join), $(
                        [ $share = 20 ] && echo 5 || echo 0.1) % match; stock: $stock" ms \
                        "$kind-$share-$target-gpujoin" "$kind-$share-$target-$stock" less
                done
            done
        done
    done
}

# ---------------------------------------------------------------------------------------------

build_and_install
say "starting a throw-away server"
server_settings | start_server bench
say "making $BENCH_ROWS rows"
make_data
for part in build load insert update search; do
    wants "$part" || continue
    say "$part"
    "part_$part"
done
{
    echo "# gpujoin against PostgreSQL's own index and plans"
    echo
    echo "PostgreSQL $(sql -c 'SHOW server_version'), $(nproc) processors of type" \
        "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $BENCH_ROWS rows," \
        "$keys keys a set, medians of $BENCH_RUNS runs, synchronous_commit off, all in memory."
    echo "Ratio: how often better gpujoin is."
    echo
    echo "| case | unit | gpujoin | stock | ratio |"
    echo "|---|---|--:|--:|--:|"
    cat "$log/rows.md"
} >"$log/bench.md"
stop_server bench
echo
cat "$log/bench.md"
