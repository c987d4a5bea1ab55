#!/usr/bin/env bash
# test/soak/soak.sh: a long mixed load on throw-away servers (test/setup.sh), a primary and a
# streaming standby, with injected failures: it checks that answers are right, memory is flat, and
# nothing is left over.
#
#   SOAK_SECONDS  duration of the load (1200)
#   SOAK_CLIENTS  sessions (32, at least 6)
#   SOAK_ROWS     rows of the big table (200000)
#   SOAK_DEVICE   gpujoin.device: reference, cuda or none (reference)
#   SOAK_GROWTH   kB a minute that a process may grow by (128; report.pl says why)
#   SOAK_SEED     seed of the sessions' random statements; their relative timing is not
#                 reproducible
#   SOAK_BREAK    a server configuration that the test must detect as broken, e.g. a setting for
#                 tests
#
#   SoakScripts.pm  what sessions do, by role      schema.sql  tables, and how answers are compared
#   client.pl       one session                    chaos.pl    kills, cancels, ends of sessions
#   watch.pl        samples of memory              report.pl   evaluates all of it
#
# Each query is run with gpujoin and without in one snapshot. In the end, when all sessions have
# ended, no request, no memory of the device, no temporary file and no shared memory may be left,
# and all indexes must be sound. The last line is "N passed, N failed"; the report, samples and
# logs are kept in tmp_check/.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$project/test/total.sh"

export SOAK_SECONDS=${SOAK_SECONDS:-1200} SOAK_CLIENTS=${SOAK_CLIENTS:-32}
export SOAK_ROWS=${SOAK_ROWS:-200000} SOAK_DEVICE=${SOAK_DEVICE:-reference}
export SOAK_SEED=${SOAK_SEED:-$RANDOM}
for value in "$SOAK_SECONDS" "$SOAK_CLIENTS" "$SOAK_ROWS" "$SOAK_SEED"; do
    [[ $value =~ ^[1-9][0-9]*$ ]] || die "not a whole number: \"$value\""
done
[[ $SOAK_DEVICE =~ ^(reference|cuda|none)$ ]] || die "SOAK_DEVICE=$SOAK_DEVICE"
((SOAK_CLIENTS >= 6)) || die "there are six roles: at least as many sessions"
((SOAK_ROWS >= 20000)) || die "SOAK_ROWS must be at least 20000"
inside || run_inside demo test/soak/soak.sh

here=test/soak
export PGDATABASE=soak PGPORT=5432 SOAK_KEYS=$((SOAK_ROWS / 50))
sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
on_standby() { PGPORT=5433 sql "$@"; }
on() { if [ "$1" = standby ]; then on_standby "${@:2}"; else sql "${@:2}"; fi; }

# check NAME FINDINGS: passes if FINDINGS is empty. For report.pl.
check() {
    local findings
    findings=$(tr '\n\t' '; ' <<<"$2" | sed 's/; *$//; s/;/ ; /g')
    printf '%s\t%s\t%s\n' "$([ -z "$findings" ] && echo ok || echo no)" "$1" "$findings" \
        >>"$log/checks.tsv"
}

# ---------------------------------------------------------------------------------------------
# Servers
# ---------------------------------------------------------------------------------------------

# Makes memory that a process has freed visible as such: malloc would otherwise start to keep
# chunks of that size, such as the extents of the reference device, which are memory of its
# process.
export MALLOC_MMAP_THRESHOLD_=1048576

# Autovacuum and checkpoints run all the time.
configuration() {
    cat <<CONF
shared_buffers = '128MB'
max_connections = $((SOAK_CLIENTS + 30))
max_worker_processes = 24
fsync = off
jit = off
shared_preload_libraries = 'gpujoin'
gpujoin.device = '$SOAK_DEVICE'
gpujoin.device_memory = '1GB'
autovacuum_naptime = '1s'
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0.01
autovacuum_vacuum_insert_scale_factor = 0.02
autovacuum_analyze_scale_factor = 0.02
autovacuum_vacuum_cost_delay = 0
checkpoint_timeout = '30s'
max_wal_size = '1GB'
wal_keep_size = '1GB'
max_wal_senders = 5
hot_standby_feedback = on
max_standby_streaming_delay = '5s'
log_autovacuum_min_duration = -1
log_checkpoints = off
log_min_error_statement = error
log_line_prefix = '%m [%p] %e %q%a '
${SOAK_BREAK:-}
CONF
}

start_primary() { { configuration; echo "port = 5432"; } | start_server primary; }

start_standby() {
    [ -e "$work/standby/PG_VERSION" ] ||
        pg_basebackup -D "$work/standby" -R -c fast >"$log/basebackup.log" 2>&1
    { configuration; echo "port = 5433"; } | PGPORT=5433 start_server standby
}

wait_ready() { # SERVER
    local try
    [ "$SOAK_DEVICE" != none ] || return 0
    for try in $(seq 600); do
        [ "$(on "$1" -c 'SELECT state FROM gpujoin_status()')" != ready ] || return 0
        sleep 0.1
    done
    die "no device after $try tries: $(on "$1" -c 'SELECT reason FROM gpujoin_status()')"
}

wait_for_replay() {
    local lsn try
    lsn=$(sql -c 'SELECT pg_current_wal_lsn()')
    for try in $(seq 1200); do
        [ "$(on_standby -c "SELECT pg_last_wal_replay_lsn() >= '$lsn'")" != t ] || return 0
        sleep 0.1
    done
    die "the standby is behind after $try tries"
}

# A query whose plan has no node of ours would prove nothing.
check_plans() {
    local name query plan
    while IFS=$'\t' read -r name query; do
        plan=$(sql -c "SET gpujoin.force = on; EXPLAIN (COSTS OFF) $query")
        [[ $plan != *"Custom Scan (Gpu"* && $plan != *"Index Scan on big_b"* ]] || plan=''
        check "question $name uses gpujoin" "$plan"
    done < <(perl -I "$here" -MSoakScripts \
        -e 'print "$_\t" . SoakScripts::query($_) . "\n" for sort keys %SoakScripts::queries')
}

# Megabytes of the card's memory in use by all processes
card_memory() {
    [ "$SOAK_DEVICE" = cuda ] && command -v nvidia-smi >/dev/null || return 0
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1
}

# ---------------------------------------------------------------------------------------------
# The load
# ---------------------------------------------------------------------------------------------

# One session each for DDL, VACUUM and folds; one in seven of the others queries the standby, and
# one in seven has cached plans.
role_of() {
    case $1 in
        0) echo ddl ;;
        1) echo vacuum ;;
        3) echo fold ;;
        *) case $(($1 % 7)) in
            4) echo standby ;;
            5) echo generic ;;
            *) echo mixed ;;
        esac ;;
    esac
}

run_load() {
    local number ends ids=() watcher
    ends=$(($(date +%s) + SOAK_SECONDS))
    mkdir "$log/pids"
    perl "$here/watch.pl" "$(awk -v s="$SOAK_SECONDS" 'BEGIN {print s < 600 ? 2 : 5}')" "$log" \
        "$work/primary" "$work/standby" 2>"$log/watch.err" &
    watcher=$!
    for ((number = 0; number < SOAK_CLIENTS; number++)); do
        perl "$here/client.pl" "$number" "$(role_of "$number")" "$ends" "$log" \
            2>>"$log/clients.err" &
        ids+=($!)
    done
    perl "$here/chaos.pl" "$ends" "$log" 2>"$log/chaos.err" &
    ids+=($!)
    # Stop before the sessions do: the watcher ends with them.
    while (($(date +%s) < ends)); do
        number=$((ends - $(date +%s)))
        sleep $((number < 1 ? 1 : number < 30 ? number : 30))
        note "$SECONDS s: $(sql -c "SELECT format('%s rows, %s by the device, %s by the CPU, %s',
            (SELECT reltuples FROM pg_class WHERE relname = 'big'), device_answers, cpu_answers,
            state) FROM gpujoin_status()" 2>&1 | head -n 1)"
    done
    kill "$watcher"
    wait "${ids[@]}" || true
    wait "$watcher" || true
    check "drivers had nothing to complain of" \
        "$(cat "$log/clients.err" "$log/chaos.err" "$log/watch.err")"
}

# ---------------------------------------------------------------------------------------------
# The end: nothing may be left
# ---------------------------------------------------------------------------------------------

# comes_to SERVER NAME CONDITION: check that a condition on gpujoin_status() s becomes true within
# two minutes
comes_to() {
    local try
    for try in $(seq 240); do
        [ "$(on "$1" -c "SELECT $3 FROM gpujoin_status() s")" != t ] || break
        sleep 0.5
    done
    ((try < 240)) && check "$1: $2" '' ||
        check "$1: $2" "$(on "$1" -x -c 'SELECT * FROM gpujoin_status()' | grep -v '|0$')"
}

no_request='slots_used + slots_abandoned + keysets + matches = 0'

# Memory that a card keeps while nothing runs: README, memory_scratch
no_memory='columns + mirrors + memory_mirrors = 0 AND memory_scratch <= 24 * 1024 * 1024'

check_index() { # SERVER INDEX
    local answer
    answer=$(on "$1" -c "SELECT gpujoin_check('$2', true)" 2>&1) || true
    [[ ! $answer =~ ^[0-9]+$ ]] || answer=''
    check "$1: gpujoin_check $2" "$answer"
}

check_indexes() {
    local index server
    while read -r index; do
        for server in primary standby; do check_index "$server" "$index"; done
    done < <(sql -c "SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
        WHERE amname = 'gpujoin' AND relkind = 'i' ORDER BY 1")
}

check_rows() {
    local table mine
    for table in big items parts side small pairs accounts; do
        mine=$(sql -c "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM $table t")
        [ "$mine" != "$(on_standby -c "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric)
            FROM $table t")" ] || mine=''
        check "standby: the rows of $table are the primary's" "$mine"
    done
}

check_quiet() {
    local server
    for server in primary standby; do
        comes_to "$server" "no request is left, nor what one needs" "$no_request"
        check "$server: no temporary file is left" \
            "$(find "$work/$server/base" -path '*pgsql_tmp*' -type f)"
        check "$server: no session is left" "$(on "$server" -c "SELECT application_name
            FROM pg_stat_activity WHERE application_name LIKE 'soak %'")"
    done
    check 'no update was lost' "$(sql -c 'SELECT sum(balance) FROM accounts
        HAVING sum(balance) <> 0 OR count(*) <> 5000')"
}

write_figures() {
    local server
    for server in primary standby; do
        echo "$server: $(on "$server" -c "SELECT format('requests %s (gone %s, abandoned %s,
            busy %s, failed %s); helper starts %s, watchdog kills %s; device answers %s, by the CPU
            %s; evicted %s', requests, requests_gone, requests_abandoned, requests_busy,
            requests_failed, helper_starts, watchdog_kills, device_answers, cpu_answers,
            indexes_evicted) FROM gpujoin_status()" | tr -s '\n ' '  ')"
        echo "$server: the CPU searched because of: $(on "$server" -c "SELECT
            string_agg(reason || ' ' || count, ', ' ORDER BY count DESC) FROM gpujoin_fallbacks()
            WHERE count > 0")"
    done >"$log/figures.txt"
}

check_device_worked() {
    [ "$SOAK_DEVICE" != none ] || return 0
    local server
    for server in primary standby; do
        check "$server: the device has answered" "$(on "$server" -c "SELECT 'it has not'
            FROM gpujoin_status() WHERE device_answers < 10")"
    done
}

helper_memory() {
    local pid
    pid=$(sql -c 'SELECT helper_pid FROM gpujoin_status()')
    awk '/^(Anonymous|Swap):/ {n += $2} END {print n}' "/proc/$pid/smaps_rollup"
}

# The device's process has survived half of the load. With no mirror left it must be small again;
# on the reference device, whose memory it is, about as small as at the start. And the last
# thousand of a series of requests must not leak even 131 bytes each.
check_helper() {
    local at_rest before after round
    wait_ready primary
    at_rest=$(helper_memory)
    sql >/dev/null <<'SQL'
CREATE TABLE probe AS SELECT i AS k FROM generate_series(1, 100000) i;
CREATE INDEX probe_k ON probe USING gpujoin (k);
SELECT gpujoin_load('probe_k');
SQL
    for round in 1 2 3; do
        before=${after:-0}
        sql -c 'SET gpujoin.force = on' -c 'DO $$ DECLARE n int; BEGIN FOR i IN 1..1000 LOOP
            SELECT count(*) INTO n FROM probe WHERE k = ANY (ARRAY[i, i * 7, i * 13, i * 29]);
            END LOOP; END $$'
        after=$(helper_memory)
    done
    check "primary: 1000 requests leave nothing in the device's process" \
        "$( ((after - before <= 128)) || echo "$before kB, then $after")"
    [ "$SOAK_DEVICE" = cuda ] || check "primary: the device's process is small with no mirror" \
        "$( ((at_rest <= 32 * 1024)) || echo "$at_rest kB")"
    echo "the device's process: $at_rest kB with nothing loaded; after the last 1000 requests" \
        "$((after - before)) kB more (round $round)" >>"$log/figures.txt"
    sql -c 'DROP TABLE probe'
}

finish() {
    sql -c "SELECT format('DROP INDEX IF EXISTS %s', indexrelid::regclass) FROM pg_index
        WHERE NOT indisvalid AND indrelid NOT IN (SELECT oid FROM pg_class WHERE relkind = 'p')" |
        sql >/dev/null 2>&1
    wait_for_replay
    check_rows
    check_indexes
    check_quiet
    check_device_worked
    write_figures
    sql -c 'DROP TABLE big, items, parts, side, small, pairs, accounts' \
        -c 'DROP TABLE IF EXISTS brief' 2>/dev/null
    wait_for_replay
    if [ "$SOAK_DEVICE" != none ]; then
        comes_to primary "the device's memory is free when the tables are gone" "$no_memory"
        comes_to standby "the device's memory is free when the tables are gone" "$no_memory"
        check_helper
    fi
    PGPORT=5433 stop_server standby
    stop_server primary
    check "shared memory of the servers is gone" \
        "$(sort -u "$log/shm" 2>/dev/null | while read -r name; do ls "$name"; done 2>/dev/null)"
    # The driver may take a moment; the card may be used by other processes as well.
    [ -z "$card_before" ] || sleep 2
    [ -z "$card_before" ] || check "the card's memory is free" \
        "$(awk -v a="$card_before" -v b="$(card_memory)" 'BEGIN {if (b > a + 16) print a, b}')"
}

# ---------------------------------------------------------------------------------------------

: >"$log/checks.tsv"
: >"$log/clients.err"
# Nothing is compiled at run time, so bitcode is not needed.
build_and_install with_llvm=no
card_before=$(card_memory)
say "starting a primary and a standby; device: $SOAK_DEVICE, seed: $SOAK_SEED"
start_primary
createdb soak
sql -v rows="$SOAK_ROWS" -v keys="$SOAK_KEYS" -f "$here/schema.sql" >/dev/null
start_standby
wait_ready primary
wait_ready standby
wait_for_replay
check_plans
SOAK_QUERIES=$(perl -I "$here" -MSoakScripts -e 'print join " ", sort keys %SoakScripts::queries')
export SOAK_QUERIES
say "$SOAK_CLIENTS sessions for $SOAK_SECONDS s"
run_load
say "looking at what is left ($SECONDS s)"
finish
echo done >"$log/complete"
perl "$here/report.pl" "$log" "$SOAK_SECONDS" | tee "$log/report.txt"
