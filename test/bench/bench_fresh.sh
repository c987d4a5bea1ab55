#!/usr/bin/env bash
# test/bench/bench_fresh.sh: what insertions cost an index with background workers, and what its
# unsorted rows cost searches, beside btrees, on throw-away servers (test/setup.sh), one for each
# kind of index. Prints a table in markdown that says which bars are met.
#
#   BENCH_ROWS     rows of each table at first (2000000)
#   FRESH_PARTS    parts to run, in this order; all of them if it is not set:
#                  search  searches of 1, 10, 100 and 4,000 keys, one each 50 ms, beside four
#                          inserting clients until a fifth was inserted, and afterwards on the same
#                          rows, all of them sorted; the same beside a slowed VACUUM
#                  insert  single rows by eight clients, and COPY
#                  grow    from N rows to 2N: WAL, the workers' processor time, VACUUM of each of
#                          ten rounds, size of the file, how long locks are held
#                  locks   DDL and VACUUM beside flushes and a merge, a quarter of the rows dead;
#                          the last part: it drops the database
#   FRESH_SECONDS  length of one phase of searches or insertions (30)
#   FRESH_LIMIT    seconds for everything (510): then the part that runs is ended, and reported as
#                  far as it came
#   FRESH_PART_LIMIT  seconds after which a part is ended (240; FRESH_LIMIT if it is the only part)
#   FRESH_SERIAL   1: the kinds take turns, as they do if there are fewer than twelve processors
#   BENCH_OUT      folder for the report and the samples (test/bench/results)
#
# At 20 million rows on 16 processors, "search insert" takes 9 minutes, "grow" and "locks" about 5
# each, so run them one by one if a command may not take longer.
#
# The memory needed is about 2 kB a row. Everything is written to TMPDIR, about 2 kB a row, too.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

last_words() { keep_report "$1" "${BENCH_OUT:-}"; }

all_parts="search insert grow locks"
export BENCH_ROWS=${BENCH_ROWS:-2000000} FRESH_PARTS=${FRESH_PARTS:-$all_parts}
export FRESH_SECONDS=${FRESH_SECONDS:-30} FRESH_LIMIT=${FRESH_LIMIT:-510}
[[ $FRESH_PARTS == *" "* ]] || FRESH_PART_LIMIT=${FRESH_PART_LIMIT:-$FRESH_LIMIT}
export FRESH_PART_LIMIT=${FRESH_PART_LIMIT:-240} FRESH_SERIAL=${FRESH_SERIAL:-0}
whole_number BENCH_ROWS FRESH_SECONDS FRESH_LIMIT FRESH_PART_LIMIT
for part in $FRESH_PARTS; do
    [[ " $all_parts " == *" $part "* ]] || die "no part \"$part\"; there are: $all_parts"
done
# The work folder's copy of the sources has no commit.
inside || BENCH_COMMIT=$(git -c safe.directory="$project" -C "$project" describe --always --dirty \
    2>/dev/null || echo unknown)
export BENCH_COMMIT
inside || run_inside bench test/bench/bench_fresh.sh

# ---------------------------------------------------------------------------------------------
# Servers and tables: one of each for each kind of index
# ---------------------------------------------------------------------------------------------

kinds=("no index" btree covering gpujoin "gpujoin include")
ours=(gpujoin "gpujoin include")
processors=$(nproc)
ports=54320
samples=$log/samples.tsv

# The folder of a kind's server, and the prefix of its files
folder_of() { echo "${1// /_}"; }

port_of() { # KIND
    local i
    for i in "${!kinds[@]}"; do
        [ "${kinds[i]}" != "$1" ] || echo $((ports + i))
    done
}

start_kind() { # KIND
    {
        measuring_settings $((512 + BENCH_ROWS / 5000))
        echo "port = $(port_of "$1")"
        echo "max_wal_size = '64GB'"
        echo "max_connections = 60"
        echo "max_worker_processes = 16"
        echo "client_min_messages = warning"
        echo "gpujoin.device = 'none'"
    } | start_server "$(folder_of "$1")"
}

# each FUNCTION KIND...: call the function with each kind on its server, all at the same time if
# there are enough processors.
each() {
    local kind pid pids=()
    for kind in "${@:2}"; do
        if [ "$FRESH_SERIAL" = 0 ] && ((processors >= 12)); then
            on_server "$kind" "$1" &
            pids+=($!)
        else
            on_server "$kind" "$1"
        fi
    done
    for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid"; done
}

on_server() ( # KIND FUNCTION
    export PGPORT PGDATABASE=bench PGOPTIONS
    PGPORT=$(port_of "$1")
    PGOPTIONS=$(as_options "$1")
    "$2" "$1"
)

is_ours() { [[ $1 == gpujoin* ]]; }

# N rows with random keys, and the kind's index
make_table() { # KIND
    local i fillers=$((processors / 5 + 1)) definition
    definition=$(index_definition "$1" k v)
    [ "$(sql -d postgres -c "SELECT count(*) FROM pg_database WHERE datname = 'bench'")" = 1 ] ||
        make_database
    sql -c "DROP TABLE IF EXISTS t" -c "CREATE TABLE t (id int, k int, v int)"
    for ((i = 0; i < fillers; i++)); do
        sql -c "$committed_for_good" -c "SELECT setseed(0.$((i + 1)))" -c "INSERT INTO t
            SELECT i, 1 + (random() * $BENCH_ROWS)::int, i FROM (SELECT generate_series(
            $((BENCH_ROWS * i / fillers + 1)), $((BENCH_ROWS * (i + 1) / fillers))) AS i) AS s" \
            >/dev/null &
    done
    wait
    [ -z "$definition" ] || sql -c "CREATE INDEX t_index ON t $definition"
    sql -c "VACUUM (FREEZE, ANALYZE) t" -c CHECKPOINT
    require_all_visible t
}

# The sets of keys have no index scan of their own to wait for: they are read by their number.
make_database() {
    createdb --maintenance-db=postgres bench
    sql -f test/bench/functions.sql -f test/bench/fresh.sql \
        -c "CREATE TABLE sets (n int, i int, keys int[], PRIMARY KEY (n, i))" \
        -c "ALTER TABLE sets ALTER keys SET STORAGE EXTERNAL" \
        -c "SELECT setseed(0.5)" -c "INSERT INTO sets SELECT n, i,
            ARRAY(SELECT 1 + (random() * $BENCH_ROWS)::int FROM generate_series(i, i + n - 1))
            FROM unnest('{1, 10, 100, 4000}'::int[]) n, generate_series(1, 64) i" \
        -c "VACUUM ANALYZE sets" >/dev/null
}

has_table() { # KIND
    [ "$(sql -c "SELECT count(*) FROM pg_class WHERE relname = 't'" 2>/dev/null || echo 0)" = 1 ]
}

need_table() { has_table "$1" || make_table "$1"; }

# note_value KIND PART CASE UNIT VALUE: one value of a kind of index
note_value() { [ -z "$5" ] || keep "$2" "$3" "$1" "$4" less 0 "$5" ''; }

# Values are whole milliseconds, or have fractions. percentile P: of the numbers on standard input.
percentile() {
    sort -g | awk -v p="$1" '{v[NR] = $1} END {if (NR) {i = int(NR * p / 100 + 0.999999)
        print v[i < 1 ? 1 : i]}}'
}

begin_watch() { # PART
    sql -c "CALL watch('$1', $((FRESH_PART_LIMIT + 60)))" &
    watch_pid=$!
}

end_watch() { # KIND PART
    sql -c "INSERT INTO watch_end VALUES ('$2')"
    wait "$watch_pid"
    keep_seen "$1" "$2"
}

keep_seen() { # KIND PART
    sql -F $'\t' -c "DELETE FROM seen WHERE part = '$2' RETURNING what, round(value::numeric, 1)" |
        while IFS=$'\t' read -r what value; do
            note_value "$1" "$2" "$what" '' "$value"
        done
}

# What was seen until a part was ended
rescue_seen() { # KIND
    local part
    has_table "$1" || return 0
    sql -c "INSERT INTO watch_end VALUES ('search'), ('vacuum'), ('grow'), ('rest'), ('locks')"
    sleep 0.5
    for part in search vacuum grow rest locks; do keep_seen "$1" "$part"; done
    sql -c "TRUNCATE watch_end"
}

# ---------------------------------------------------------------------------------------------
# search: beside insertions, and on the same rows when all are sorted
# ---------------------------------------------------------------------------------------------

fifth=$((BENCH_ROWS / 5))
rate=$((fifth / FRESH_SECONDS + 1))
batch=$((rate / 20000 + 1))

# Rows a statement are one, unless the clients would be too slow for the rate.
make_scripts() {
    local n
    if [ "$batch" = 1 ]; then
        echo "\\set k random(1, $BENCH_ROWS)
INSERT INTO t VALUES (0, :k, 1);"
    else
        echo "INSERT INTO t SELECT 0, 1 + (random() * $BENCH_ROWS)::int, 1
            FROM generate_series(1, $batch);"
    fi >"$work/insert.sql"
    echo "\\set k random(1, $BENCH_ROWS)
INSERT INTO t VALUES (0, :k, 1);" >"$work/single.sql"
    for n in 1 10 100 4000; do
        echo "\\set i random(1, 64)
SELECT count(*) FROM t WHERE k = ANY ((SELECT keys FROM sets WHERE n = $n AND i = :i)::int[]);" \
            >"$work/count-$n.sql"
        sed 's/count(\*)/count(*), sum(v)/' "$work/count-$n.sql" >"$work/sum-$n.sql"
    done
}

# Searches of one size after another, at random, twenty a second
search() { # KIND CASE SECONDS
    local what=sum
    local to=$work/$(folder_of "$1")-$2
    [ "$1" != gpujoin ] || what=count
    rm -f "$to".*
    PGOPTIONS="$PGOPTIONS -c plan_cache_mode=force_generic_plan" pgbench -n -M prepared -c 1 -R 20 \
        -T "$3" -l --log-prefix="$to" -f "$work/$what-1.sql" -f "$work/$what-10.sql" \
        -f "$work/$what-100.sql" -f "$work/$what-4000.sql" >"$to.txt" 2>&1 ||
        die "searches failed: $(tail -n 1 "$to.txt")"
    # number of the script, latency and end in milliseconds
    cat "$to".[0-9]* | awk '{printf "%d %.3f %.3f\n", $4, ($3 - $7) / 1000,
        $5 * 1000 + $6 / 1000}' >"$to.ms"
}

keep_searches() { # KIND CASE FILE
    local script=0 n p
    for n in 1 10 100 4000; do
        for p in 50 95; do
            note_value "$1" search "$n keys, $2, p$p" ms \
                "$(awk -v s=$script '$1 == s {print $2}' "$3" | percentile $p)"
        done
        script=$((script + 1))
    done
    note_value "$1" search "searches, $2" '' "$(wc -l <"$3")"
}

# Four clients insert a fifth in FRESH_SECONDS, or take twice as long.
insert_fifth() {
    timeout $((2 * FRESH_SECONDS)) pgbench -n -M prepared -c 4 -j 4 -R $((rate / batch + 1)) \
        -t $((fifth / 4 / batch)) -f "$work/insert.sql" >"$1" 2>&1 || [ $? = 124 ] ||
        die "insertions failed: $(tail -n 1 "$1")"
}

search_beside() { # KIND CASE
    local name pid
    name=$work/$(folder_of "$1")
    insert_fifth "$name-insert.txt" &
    pid=$!
    search "$1" "$2" "$FRESH_SECONDS"
    wait "$pid"
}

sort_all() { ! is_ours "$1" || sql -c "SELECT gpujoin_fold('t_index', true)" >/dev/null; }

search_after() { # KIND CASE
    sort_all "$1"
    search "$1" "$2" $((FRESH_SECONDS * 2 / 3 + 1))
    keep_searches "$1" "$2" "$work/$(folder_of "$1")-$2.ms"
}

# A VACUUM that should last as long as the searches: nearly all of its cost is that of reading each
# page of the table, and its page in the visibility map.
slow_vacuum() {
    local limit
    limit=$(sql -c "SELECT greatest(1, pg_relation_size('t') / 8192 * 15 / 1000 / $FRESH_SECONDS)")
    sql -c "SET application_name = 'slow vacuum'" -c "SET vacuum_cost_delay = '10ms'" \
        -c "SET vacuum_cost_limit = $limit" \
        -c "VACUUM (INDEX_CLEANUP ON, PARALLEL 0, DISABLE_PAGE_SKIPPING) t" 2>/dev/null || true
}

# Only the searches while VACUUM ran, but did not delete entries of the index
beside_vacuum() { # FILE
    sql -F ' ' -c "SELECT what = 'vacuuming indexes', began, ended FROM windows
        WHERE part = 'vacuum'" >"$1.windows"
    awk 'NR == FNR {n++; bad[n] = $1 == "t"; from[n] = $2; to[n] = $3; next}
        {ok = 0
         for (i = 1; i <= n; i++) {
            if ($3 >= from[i] && $3 - $2 <= to[i]) {if (bad[i]) next; ok = 1}}
         if (ok) print}' "$1.windows" "$1"
}

search_kind() { # KIND
    local name pid
    name=$work/$(folder_of "$1")
    make_table "$1"
    sql -c "EXPLAIN $(sed -n '$p' "$work/sum-10.sql" | sed 's/:i/1/')" >"$name-plan.txt"
    grep -q t_index "$name-plan.txt" || die "$1: a search does not use the index"
    begin_watch search
    search_beside "$1" inserting
    end_watch "$1" search
    keep_searches "$1" inserting "$name-inserting.ms"
    search_after "$1" sorted

    sql -c "DELETE FROM t WHERE id BETWEEN 1 AND $((BENCH_ROWS / 100))"
    begin_watch vacuum
    slow_vacuum &
    pid=$!
    search_beside "$1" vacuum
    sql -c "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'slow vacuum'" >/dev/null
    wait "$pid"
    end_watch "$1" vacuum
    beside_vacuum "$name-vacuum.ms" >"$name-beside.ms"
    keep_searches "$1" "beside VACUUM" "$name-beside.ms"
    search_after "$1" "sorted again"
}

part_search() { each search_kind covering "${ours[@]}"; }

# ---------------------------------------------------------------------------------------------
# insert: rates
# ---------------------------------------------------------------------------------------------

insert_single() { # KIND CONTESTANT
    local to=$work/$(folder_of "$1")-single
    rm -f "$to".*
    pgbench -n -M prepared -c 8 -j 8 -T $((FRESH_SECONDS / 6 + 1)) -l --log-prefix="$to" \
        -f "$work/single.sql" >"$to.txt" 2>&1 || die "insertions failed: $(tail -n 1 "$to.txt")"
    note_value "$2" insert "single rows" "a second" \
        "$(sed -nE 's/^tps = ([0-9.]+).*/\1/p' "$to.txt")"
    note_value "$2" insert "single rows, p99.9" ms \
        "$(cat "$to".[0-9]* | awk '{print $3 / 1000}' | percentile 99.9)"
}

insert_copy() { # KIND CONTESTANT
    note_value "$2" insert COPY "a second" "$(timed "COPY t FROM '$work/load.txt'" |
        awk -v n=$((BENCH_ROWS / 20)) '{print n * 1000 / $1}')"
}

# insert_both KIND: once as it is, and, if it is ours, once without a worker
insert_both() {
    insert_single "$1" "$1"
    insert_copy "$1" "$1"
    is_ours "$1" || return 0
    sql -c "ALTER INDEX t_index SET (fold_pages = 0)" -c "SELECT gpujoin_fold('t_index')" >/dev/null
    insert_single "$1" "$1, no worker"
    insert_copy "$1" "$1, no worker"
    sql -c "SELECT gpujoin_fold('t_index')" -c "ALTER INDEX t_index RESET (fold_pages)" >/dev/null
}

part_insert() {
    local round kind
    each need_table "${kinds[@]:1}"
    PGPORT=$(port_of btree) sql -d bench -c "COPY (SELECT 0, 1 + (random() * $BENCH_ROWS)::int, 1
        FROM generate_series(1, $((BENCH_ROWS / 20)))) TO '$work/load.txt'"
    for round in 1 2 3; do
        while IFS= read -r kind <&3; do
            on_server "$kind" insert_both
        done 3< <(in_order "$round" "${kinds[@]:1}")
    done
    rm "$work/load.txt"
}

# ---------------------------------------------------------------------------------------------
# grow: from N rows to a little more than 2N. Everything is merged when there are 3N, so one such
# merge is done at the end, and reported apart.
# ---------------------------------------------------------------------------------------------

wal_position() { sql -c 'SELECT pg_current_wal_insert_lsn()'; }
wal_since() { sql -c "SELECT pg_wal_lsn_diff('$(wal_position)', '$1')"; }

# grow_round KIND ROUND: processor times of the insertion and of VACUUM
grow_round() {
    local part=$((BENCH_ROWS / 10 + BENCH_ROWS / 200)) cpu
    mapfile -t cpu < <(sql -c "SELECT cpu_ms(pg_backend_pid())" \
        -c "INSERT INTO t SELECT i, 1 + (random() * $BENCH_ROWS)::int, i
            FROM (SELECT generate_series(1, $part) AS i) AS s" \
        -c "SELECT cpu_ms(pg_backend_pid())" -c "VACUUM (PARALLEL 0) t" \
        -c "SELECT cpu_ms(pg_backend_pid())")
    [ -n "${cpu[2]:-}" ] || return 0
    note_value "$1" grow "processor time of an insertion" ms "$(awk -v a="${cpu[0]}" \
        -v b="${cpu[1]}" 'BEGIN {print b - a}')"
    note_value "$1" grow "processor time of VACUUM, round $2" ms "$(awk -v a="${cpu[1]}" \
        -v b="${cpu[2]}" 'BEGIN {print b - a}')"
}

grow_kind() { # KIND
    local round since
    make_table "$1"
    sql -c CHECKPOINT
    since=$(wal_position)
    begin_watch grow
    for round in 1 2 3 4 5 6 7 8 9 10; do grow_round "$1" "$round"; done
    end_watch "$1" grow
    note_value "$1" grow "WAL without the last merge" bytes "$(wal_since "$since")"
    begin_watch rest
    note_value "$1" grow "the rest" s "$(sql -c "CALL wait_for_rest(90, NULL)")"
    end_watch "$1" rest
    note_value "$1" grow "WAL" bytes "$(wal_since "$since")"
    [ "$1" != "no index" ] || return 0
    note_value "$1" grow "file afterwards" bytes "$(sql -c "SELECT pg_relation_size('t_index')")"
    ! is_ours "$1" || note_value "$1" grow "pages in use" bytes "$(sql -c "
        SELECT 8192 * (pages - free_pages) FROM gpujoin_index_info('t_index')")"
    if is_ours "$1"; then
        keep_folds "$1"
        since=$(wal_position)
        sql -c "SELECT gpujoin_fold('t_index', true)" >/dev/null
        note_value "$1" grow "WAL of merging everything" bytes "$(wal_since "$since")"
    fi
    sql -c "REINDEX INDEX t_index"
    note_value "$1" grow "fresh file" bytes "$(sql -c "SELECT pg_relation_size('t_index')")"
}

keep_folds() { # KIND
    local name
    for name in folds entries_written fold_time; do
        note_value "$1" grow "$name" '' "$(sql -c "SELECT $name FROM pg_stat_gpujoin_folds
            WHERE indexrelid = 't_index'::regclass")"
    done
}

part_grow() { each grow_kind "${kinds[@]}"; }

# ---------------------------------------------------------------------------------------------
# locks: who waits for whom
# ---------------------------------------------------------------------------------------------

# At least as many rows that there is a flush every few seconds
insert_always() { # SECONDS FILE
    local rows=$((rate > 100000 ? rate : 100000))
    echo "INSERT INTO t (id, k, v) SELECT 0, 1 + (random() * $BENCH_ROWS)::int, 1
        FROM generate_series(1, 10);" >"$2.sql"
    pgbench -n -M prepared -c 4 -j 4 -R $((rows / 10)) -T "$1" -f "$2.sql" >"$2.txt" 2>&1 || true
}

alter_often() { # KIND SECONDS
    local until=$((SECONDS + $2)) merging
    while ((SECONDS < until)); do
        merging=$(sql -c "SELECT count(*) FROM pg_locks
            WHERE locktype = 'userlock' AND objsubid = 3 AND granted")
        note_value "$1" locks "ALTER TABLE, merging: $merging" ms \
            "$(timed 'ALTER TABLE t ALTER v SET DEFAULT 0')"
        sleep 0.3
    done
}

locks_kind() { # KIND
    local name pid
    name=$work/$(folder_of "$1")
    need_table "$1"
    sql -c "DELETE FROM t WHERE k % 50 < 13"
    begin_watch locks
    insert_always $((2 * FRESH_SECONDS + 60)) "$name-always" &
    pid=$!
    sleep 2
    note_value "$1" locks VACUUM ms "$(timed 'VACUUM (INDEX_CLEANUP ON, PARALLEL 0) t')"
    alter_often "$1" $((FRESH_SECONDS / 2 + 1))
    note_value "$1" locks "workers at DROP INDEX" '' "$(count_workers)"
    note_value "$1" locks "DROP INDEX CONCURRENTLY" ms "$(timed 'DROP INDEX CONCURRENTLY t_index')"
    end_watch "$1" locks
    end_clients "$pid"
    sql -c "CREATE INDEX t_index ON t $(index_definition "$1" k v)"
    note_value "$1" locks "fresh file" bytes "$(sql -c "SELECT pg_relation_size('t_index')")"
    sql -c "INSERT INTO t
        SELECT i, i, i FROM (SELECT generate_series(1, $((BENCH_ROWS / 2)))) AS s (i)"
    note_value "$1" locks "workers at DROP DATABASE" '' "$(count_workers)"
    note_value "$1" locks "DROP DATABASE" ms "$(PGDATABASE=postgres timed 'DROP DATABASE bench')"
}

count_workers() {
    sql -c "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gpujoin fold worker'"
}

end_clients() { # PID of a subshell whose pgbench is to end
    sql -c "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE application_name = 'pgbench'" >/dev/null
    wait "$1"
}

part_locks() { each locks_kind "${ours[@]}"; }

# ---------------------------------------------------------------------------------------------
# Running the parts
# ---------------------------------------------------------------------------------------------

source test/bench/fresh_report.sh

# run_part PART: in a process group of its own, which is ended after FRESH_PART_LIMIT seconds
run_part() {
    local pid kind until=$((SECONDS + FRESH_PART_LIMIT))
    ((until <= FRESH_LIMIT)) || until=$FRESH_LIMIT
    set -m
    "part_$1" &
    set +m
    part_group=$!
    pid=$part_group
    while kill -0 "$pid" 2>/dev/null; do
        if ((SECONDS >= until)); then
            echo "The part \"$1\" was ended before it had finished." >>"$log/remarks.txt"
            kill -TERM -- "-$pid" 2>/dev/null || true
            for kind in "${kinds[@]}"; do on_server "$kind" rescue_seen || true; done
            for kind in "${kinds[@]}"; do on_server "$kind" end_statements; done
            break
        fi
        sleep 0.2
    done
    wait "$pid" || [ -s "$log/remarks.txt" ] || die "part \"$1\" failed"
    part_group=''
}

end_statements() {
    sql -d postgres -c "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = 'bench' AND backend_type = 'client backend'" >/dev/null || true
}

end_part() { [ -z "$part_group" ] || kill -TERM -- "-$part_group" 2>/dev/null || true; }

part_group=''
trap end_part EXIT
trap 'exit 143' TERM INT HUP
# The benchmark uses no GPU, whose library would take minutes to build.
build_and_install NVCC=
say "starting throw-away servers"
for kind in "${kinds[@]}"; do start_kind "$kind"; done
make_scripts
: >"$samples"
for part in $FRESH_PARTS; do
    ((SECONDS < FRESH_LIMIT)) ||
        { echo "No time was left for \"$part\"." >>"$log/remarks.txt"; continue; }
    say "$part ($SECONDS s)"
    run_part "$part"
done
say "report ($SECONDS s)"
name=$(date +%F)-cpu-$processors-cores-$BENCH_ROWS-rows-fresh
[ "$FRESH_PARTS" = "$all_parts" ] || name+=-${FRESH_PARTS// /-}
mkdir "$log/report"
report >"$log/report/$name.md"
cp "$samples" "$log/report/$name.tsv"
for kind in "${kinds[@]}"; do stop_server "$(folder_of "$kind")" || true; done
cat "$log/report/$name.md"
