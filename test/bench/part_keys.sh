# test/bench/part_keys.sh: keys of other types beside int8, and what of them must be fast (bars).
# One process. Lists are parameters of prepared statements; the best of generic and custom plans,
# and of the kinds of index, counts as stock. Bars are judged on lists that are arrays. If a list is
# sent as text, PostgreSQL reads it in the time of each contestant; these times are shown beside the
# others, and reading a list alone, too. The tables are keyed.sh's.
# shellcheck shell=bash

heap="count(*), sum(amount), sum(other)"
covered="count(*), sum(amount)"
# A generic plan with a hash index compares each row with each key again.
unique_stock=(btree "btree, custom plan" "hash, custom plan")
covering_stock=(covering "covering, custom plan")

keyed_indexes() {
    sed -E 's/^/keyed|/; s/[|]([^|]*)$/|USING \1/' <<'END'
text_btree|btree|index on text, unique|btree (text_id)
text_hash|||hash (text_id)
uuid_hash|||hash (uuid_id)
uuid_btree|btree|index on uuid, unique|btree (uuid_id)
member_covering|covering|index on uuid text|btree (member_id) INCLUDE (amount)
owner_covering|covering|index on uuids of 250 rows|btree (owner_id) INCLUDE (amount)
account_btree|||btree (account_id)
owner_btree|||btree (owner_id)
int8_gpujoin|||gpujoin (int8_id)
uuid_gpujoin|gpujoin|index on uuid, unique|gpujoin (uuid_id)
text_gpujoin|gpujoin|index on text, unique|gpujoin (text_id)
owner_include|gpujoin include|index on uuids of 250 rows|gpujoin (owner_id) INCLUDE (amount)
holder_include|||gpujoin (holder_id) INCLUDE (amount)
holder_gpujoin|||gpujoin (holder_id)
member_include|gpujoin include|index on uuid text|gpujoin (member_id text_id_ops) INCLUDE (amount)
plain_gpujoin|||gpujoin (member_id)
account_gpujoin|||gpujoin (account_id)
code_gpujoin|||gpujoin (code)
END
}

# keyed_contest CASE PREFIX CONTESTANT...
keyed_contest() { contest keys "$1" 0 keyed "$2" "$text" "${@:3}"; }

# list_contest CASE PREFIX CONTESTANT...: the case is what ask_keyed has prepared.
list_contest() {
    keyed_contest "$@"
    contest keys "$1, list as text" 0 keyed "$2" "$literal" "${@:3}"
}

# list_bar BAR LABEL CASE OURS... -- RIVAL...: lists as text have no bar.
list_bar() {
    local who=("${@:4}")
    against "$1" "$2" keys "$3" "${who[@]}"
    against "" "$2, list as text" keys "$3, list as text" "${who[@]/@/, list as text@}"
}

keys_unique() {
    local ours=(gpujoin "gpujoin, custom plan") many=$1 type=$2 bar=$3 stock=("${unique_stock[@]}")
    local case="$many unique keys of type $type"
    [ "$many" = 4000 ] || stock+=("no index")
    [ "$type" != int8 ] || stock=()
    ask_keyed keyed "$type" "${type}_id" "$heap" "SELECT ${type}_id AS k FROM wanted LIMIT $many"
    list_contest "$case" "$type" "${stock[@]}" "${ours[@]}"
    [ -z "$bar" ] || list_bar "$bar" "$case" "$case" "${ours[@]}" -- "${stock[@]}"
    in_session="DEALLOCATE ALL; PREPARE asked ($type[]) AS SELECT cardinality(\$1);"
    list_contest "reading $many keys of type $type alone" "$type" "no index"
}

keys_unnest() {
    local ours=(gpujoin "gpujoin, custom plan") many=$1 bar=$2 case="join with unnest of $1 texts"
    ask_keyed keyed text text_id "$heap" "SELECT text_id AS k FROM wanted LIMIT $many"
    in_session="DEALLOCATE ALL; PREPARE asked (text[]) AS
        SELECT $heap FROM unnest(\$1) AS list (text_id) JOIN keyed USING (text_id);"
    list_contest "$case" text "${unique_stock[@]}" "no index" "${ours[@]}"
    list_bar "$bar" "$case" "$case" "${ours[@]}" -- "${unique_stock[@]}" "no index"
}

# keys_owners PREFIX TYPE BARS: a twentieth of all rows, by a list and by a join
keys_owners() {
    local prefix=$1 type=$2 column=${1}_id of=${4:-} join stock=("${covering_stock[@]}")
    local any="rows of a twentieth of the values of $1_id ($2), index-only$of"
    join="join, sum over INCLUDE by $1_id ($2)$of"
    case $1 in owner) stock+=(btree) ;; holder) stock=() ;; esac
    [ -z "$of" ] || stock=()
    ask_keyed keyed "$type" "$column" "$(owners_output "$1")" \
        "SELECT $column AS k FROM wanted_owners"
    list_contest "$any" "$prefix" "${stock[@]}" "gpujoin include"
    in_session=''
    text="SELECT $covered FROM wanted_owners JOIN keyed USING ($column)"
    [ "$1" = holder ] || [ -n "$of" ] || stock=(covering "no index")
    keyed_contest "$join" "$prefix" "${stock[@]}" "gpujoin include"
}

# A uuid's rows are counted; texts' columns are summed.
owners_output() { [ "$1" = member ] && echo "$covered" || echo "count(*)"; }

keys_of_250_rows() {
    local any="rows of a twentieth of the values of" join="join, sum over INCLUDE by" int8
    keys_owners holder int8
    keys_owners owner uuid
    keys_owners member text
    list_bar 0.3 "uuid count(*), 250 rows a value, against the covering btree" \
        "$any owner_id (uuid), index-only" "gpujoin include" -- "${covering_stock[@]}" btree
    int8="$any holder_id (int8), index-only@gpujoin include"
    list_bar 2.2 "the same against int8" "$any owner_id (uuid), index-only" "gpujoin include" \
        -- "$int8"
    against 0.25 "uuid join, sum over INCLUDE, against the covering btree" keys \
        "$join owner_id (uuid)" "gpujoin include" -- covering "no index"
    against 2.2 "the same against int8" keys "$join owner_id (uuid)" "gpujoin include" -- \
        "$join holder_id (int8)@gpujoin include"
    list_bar 0.3 "text foreign key, text_id_ops INCLUDE, against the covering btree" \
        "$any member_id (text), index-only" "gpujoin include" -- "${covering_stock[@]}"
    against 0.3 "the same, join" keys "$join member_id (text)" "gpujoin include" -- covering \
        "no index"
}

# With a device: the same again with mirrors, uuid against int8
keys_on_device() {
    local any="rows of a twentieth of the values of" join="join, sum over INCLUDE by" type
    [ "$device" != CPU ] || return 0
    # An index that is hidden cannot be loaded.
    sql -c "SELECT show_indexes('keyed', 'owner_include holder_include')" >/dev/null
    load_mirror owner_include
    load_mirror holder_include
    keys_owners holder int8 '' ", on the device"
    keys_owners owner uuid '' ", on the device"
    for type in "$any@, index-only" "$join@"; do
        against 1.8 "uuid against int8 on the device: ${type%@*}" keys \
            "${type%@*} owner_id (uuid)${type#*@}, on the device" "gpujoin include" -- \
            "${type%@*} holder_id (int8)${type#*@}, on the device@gpujoin include"
    done
}

keys_numeric() {
    local case="count(*), a twentieth of the values of account_id"
    local stock=(btree "btree, custom plan")
    ask_keyed keyed int8 holder_id "count(*)" "SELECT holder_id AS k FROM wanted_owners"
    list_contest "$case (int8)" holder gpujoin
    ask_keyed keyed numeric account_id "count(*)" "SELECT account_id AS k FROM wanted_owners"
    list_contest "$case (numeric)" account "${stock[@]}" gpujoin
    list_bar 0.5 "numeric(19,0), count(*)" "$case (numeric)" gpujoin -- "${stock[@]}"
    list_bar 1.1 "the same against int8" "$case (numeric)" gpujoin -- "$case (int8)@gpujoin"
}

# A list of texts makes PostgreSQL cast the column.
keys_char() {
    local case="1000 unique char(20) by a list of texts"
    ask_keyed keyed text code "$heap" "SELECT code::text AS k FROM wanted LIMIT 1000"
    in_session=${in_session/code =/code::text =}
    list_contest "$case" code "no index" gpujoin
    list_bar 0.05 "$case, against a sequential scan" "$case" gpujoin -- "no index"
}

# An index on plain text_ops has hashes, so each row is fetched: the planner should prefer the
# covering btree. If it does not, the heap is read after a start, when nothing is in the shared
# buffers.
keys_plain_text() {
    local case keys
    named_indexes["stock/plain"]=member_covering
    named_indexes["all indexes/plain"]="member_covering plain_gpujoin"
    for keys in 40 400 4000; do
        case="$keys texts of 250 rows, plain text_ops beside the covering btree"
        ask_keyed keyed text member_id "$covered" \
            "SELECT member_id AS k FROM wanted_owners LIMIT $keys"
        keyed_contest "$case" plain stock "all indexes"
        if [[ $(take_of "all indexes" keys "$case") == *_gpujoin ]]; then
            case+=", after a start"
            before_run='restart_server'
            keyed_contest "$case" plain stock "all indexes"
            before_run=''
        fi
        against 1.05 "$case" keys "$case" "all indexes" -- stock
    done
}

restart_server() {
    stop_server bench
    start_bench_server
}

# ---------------------------------------------------------------------------------------------
# Keys that were made to be difficult
# ---------------------------------------------------------------------------------------------

keys_of_one_code() {
    local count=$((BENCH_ROWS < 1000000 ? BENCH_ROWS / 10 : 100000)) case output
    sql -c "CREATE EXTENSION IF NOT EXISTS gpujoin_test" \
        -c "$committed_for_good" -c "CREATE TABLE one_code AS
            SELECT CASE WHEN i <= $count THEN gpujoin_test_uuid(77, i) ELSE gen_random_uuid() END
                AS id, i AS amount, i AS other FROM generate_series(1, 10 * $count) i" \
        -c "CREATE INDEX one_include ON one_code USING gpujoin (id) INCLUDE (amount)" \
        -c "CREATE INDEX one_btree ON one_code USING btree (id)" \
        -c "VACUUM (FREEZE, ANALYZE) one_code"
    require_all_visible one_code
    in_session=''
    for output in "$covered" "$heap"; do
        case="one of $count uuids of one code, $output"
        text="SELECT $output FROM one_code WHERE id = '$(sql -c "SELECT gpujoin_test_uuid(77, 7)")'"
        contest keys "$case" 0 one_code one "$text" btree "gpujoin include"
        bar "$case" "$(value "gpujoin include" keys "$case")" ms "<= 5" ''
    done
}

# A list of strings that have one hash, and one of random strings; the table has neither. They are
# of type bytea, whose hash is that of text, since some bytes are zero.
keys_flood() {
    local count=100000 what case="strings as a list"
    [[ "keys, $case" =~ $BENCH_CASES ]] || return 0
    sql -c "CREATE EXTENSION IF NOT EXISTS gpujoin_test" -c "$committed_for_good" \
        -c "CREATE TABLE flood AS SELECT gpujoin_test_flood(i) AS colliding,
                left(md5('flood' || i), 24)::bytea AS random FROM generate_series(1, $count) i" \
        -c "CREATE TABLE strings AS SELECT left(md5('string' || i), 24)::bytea AS s, i AS amount
            FROM generate_series(1, least($BENCH_ROWS, 1000000)) i" \
        -c "CREATE INDEX string_gpujoin ON strings USING gpujoin (s)" \
        -c "CREATE INDEX string_btree ON strings USING btree (s)" \
        -c "VACUUM (FREEZE, ANALYZE) flood" -c "VACUUM (FREEZE, ANALYZE) strings"
    in_session=''
    for what in random colliding; do
        text="SELECT count(*), sum(amount) FROM strings
            WHERE s = ANY (ARRAY(SELECT $what FROM flood))"
        contest keys "$count $what $case" 0 strings string "$text" btree gpujoin
    done
    against 3 "$count colliding $case, against random ones" keys "$count colliding $case" \
        gpujoin -- "$count random $case@gpujoin"
    bar "the same, canceled after 20 ms" "$({
        show_what_it_has gpujoin strings string
        orders_of gpujoin | as_set_commands
        printf '%s\n' 'SET statement_timeout = 20;' '\timing on' "$text;"
    } | psql -XqAt 2>&1 | sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p')" ms "<= 100" \
        "an end before that counts, too"
    sql -c "DROP TABLE flood, strings"
}

# ---------------------------------------------------------------------------------------------
# uuids in the order of time: how many pages the newest are on
# ---------------------------------------------------------------------------------------------

# uuid_at MILLISECONDS [TWELVE-BITS]: a version 7 uuid; the bits after the time are random, or, as
# PostgreSQL 18's uuidv7() has them, a fraction of the millisecond.
uuid_at() {
    local rest="substr(gen_random_uuid()::text, 16)"
    [ -z "${2:-}" ] || rest="lpad(to_hex($2), 3, '0') || substr(gen_random_uuid()::text, 19)"
    echo "(lpad(to_hex(1700000000000 + ($1)::bigint), 12, '0') || '7' || $rest)::uuid"
}

make_timed() {
    sql -c "CREATE UNLOGGED TABLE timed (n int, slow uuid, fast uuid, bulk uuid)"
    fill_table timed "n, $(uuid_at n), $(uuid_at "n / 100"),
        $(uuid_at "n / 1000" "(n % 1000 * 4096 / 1000)::int")"
}

timed_indexes() {
    local column
    for column in slow fast bulk; do
        echo "timed|${column}_btree|||USING btree ($column)"
        echo "timed|${column}_gpujoin|||USING gpujoin ($column)"
    done
}

# Pages that the query reads into empty shared buffers, with the visibility map's
pages_of() { # COLUMN KIND LIST
    {
        echo "SELECT show_indexes('timed', '$1_$2') \\g /dev/null"
        settings_of "$2" | as_set_commands
        echo "SET gpujoin.auto_load = off;"
        echo "PREPARE asked (uuid[]) AS SELECT count(*) FROM timed WHERE $1 = ANY (\$1);"
        echo "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE asked ('$3');"
    } | sql | grep -m 1 Buffers: | sed -nE 's/.*read=([0-9]+).*/\1/p'
}

keys_newest() {
    local column kind list rate case
    case="pages that the newest 4000 uuids of version 7 are on"
    [[ "keys, $case" =~ $BENCH_CASES ]] && ! out_of_time || return 0
    restart_server
    for column in slow fast bulk; do
        case $column in slow) rate="1,000 a second" ;; fast) rate="100,000 a second" ;; *)
            rate="in bulk, by uuidv7()" ;;
        esac
        list=$(sql -c "SELECT array_agg($column) FROM timed WHERE n >= $BENCH_ROWS - 4000")
        for kind in btree gpujoin; do
            keep keys "$case, $rate" "$kind" pages less 0 "$(pages_of $column $kind "$list")" ''
        done
        bar "$case, $rate, against the btree" "$(calculate 'a / b' \
            "$(value gpujoin keys "$case, $rate")" "$(value btree keys "$case, $rate")")" '' \
            "<= 2" "$(value gpujoin keys "$case, $rate") and $(value btree keys "$case, $rate")"
    done
}

# ---------------------------------------------------------------------------------------------
# Size, build, insertion
# ---------------------------------------------------------------------------------------------

keys_builds() {
    local type what bars case
    for type in uuid text; do
        [ $type = uuid ] && bars="size@0.8 processor@0.6" || bars="size@0.35 processor@0.4"
        for what in $bars; do
            case=${what%@*}
            [ "$case" = size ] || case="processor time"
            against "${what#*@}" "index on $type, unique, $case" build \
                "index on $type, unique, $case" gpujoin -- btree
        done
    done
}

# A table of the same rows for each kind of index, with WAL
make_written() { # KIND
    sql -c "CREATE TABLE written_$1 AS SELECT uuid_id AS id, amount FROM keyed" \
        -c "SET max_parallel_maintenance_workers = 0" \
        -c "SET maintenance_work_mem = '$(memory_for_builds)MB'" \
        -c "CREATE INDEX written_$1_index ON written_$1 USING $1 (id)"
}

keys_insert() {
    local round kind case="random uuids inserted"
    begin_case "keys, $case" || return 0
    for kind in btree gpujoin; do
        echo "INSERT INTO written_$kind VALUES (gen_random_uuid(), 1);" >"$work/insert-$kind.sql"
    done
    for ((round = 1; round <= 3; round++)); do
        while IFS= read -r kind <&3; do
            keep keys "$case, single rows, 8 clients" "$kind" "rows a second" more 0 "$(tps_of \
                -M prepared -c 8 -j 8 -T "$BENCH_SECONDS" -f "$work/insert-$kind.sql")" ''
            keep keys "$case, 200,000 at a time" "$kind" ms less 0 "$(timed "INSERT INTO
                written_$kind SELECT gen_random_uuid(), 1 FROM generate_series(1, 200000)")" ''
        done 3< <(in_order "$round" btree gpujoin)
    done
    bar "$case, single rows, 8 clients, against the btree" "$(calculate 'a / b' \
        "$(value gpujoin keys "$case, single rows, 8 clients")" \
        "$(value btree keys "$case, single rows, 8 clients")")" '' ">= 1" ''
    bar "$case, 200,000 at a time, against the btree" "$(calculate 'b / a' \
        "$(value gpujoin keys "$case, 200,000 at a time")" \
        "$(value btree keys "$case, 200,000 at a time")")" '' ">= 1" ''

}

part_keys() {
    local text literal indexes=() writing
    without_mirrors
    make_keyed
    make_timed
    mapfile -t indexes < <(keyed_indexes; timed_indexes)
    at_once make_written -- btree gpujoin &
    writing=$!
    at_once build_index -- "${indexes[@]}"
    wait "$writing"
    sql -c CHECKPOINT
    note "indexes ($SECONDS s)"
    cases_left=52
    keys_unique 4000 int8 ''
    keys_unique 4000 uuid 0.5
    list_bar 1.15 "the same against int8" "4000 unique keys of type uuid" gpujoin -- \
        "4000 unique keys of type int8@gpujoin"
    keys_of_250_rows
    keys_unique 10000 text 0.4
    keys_unnest 10000 0.4
    keys_unique 100000 uuid 0.35
    keys_unique 100000 text 0.2
    keys_unnest 100000 0.2
    keys_numeric
    keys_char
    keys_of_one_code
    keys_flood
    keys_builds
    keys_newest
    keys_plain_text
    keys_insert
    keys_on_device
    in_session=''
    sql -c "DROP TABLE IF EXISTS keyed, wanted, wanted_owners, owners, timed, one_code, listed" \
        -c "DROP TABLE written_btree, written_gpujoin"
}
