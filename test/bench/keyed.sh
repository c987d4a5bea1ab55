# test/bench/keyed.sh: tables with keys of other types than int, and their indexes, made by many
# sessions at a time; sourced by bench.sh. The tables are unlogged: they are made for one run.
# shellcheck shell=bash

# member_of NUMBER: a version 4 uuid as text, as applications store it.
member_of() {
    echo "overlay(overlay(md5('member' || $1)::uuid::text PLACING '4' FROM 15) PLACING 'a' FROM 20)"
}

# The number of values that have 250 rows each
values_of_250() { echo $((BENCH_ROWS < 250 ? 1 : BENCH_ROWS / 250)); }

# fill_table TABLE EXPRESSIONS: fill the table with BENCH_ROWS rows; expressions may use n, which
# is 0 .. BENCH_ROWS - 1 in an order that looks random, and a row of owners, which 250 rows share.
fill_table() {
    # shellcheck disable=SC2046  # numbers
    at_once fill_share "$1" "$2" -- $(seq 0 $((processors - 1)))
    sql -c "$committed_for_good" -c "ALTER TABLE $1 SET (parallel_workers = $BENCH_WORKERS)" \
        -c "VACUUM (FREEZE, ANALYZE) $1"
    # Sessions that wait for each other extend the table by many pages at a time.
    spare_pages=$((40 * processors)) require_all_visible "$1"
    note "table $1: $(sql -c "SELECT pg_size_pretty(pg_table_size('$1'))") ($SECONDS s)"
}

fill_share() { # TABLE EXPRESSIONS, and the NUMBER of the session, from 0
    sql -c "$committed_for_good" -c "INSERT INTO $1 SELECT $2
        FROM (SELECT i * 1000003 % $BENCH_ROWS AS n
            FROM generate_series($((BENCH_ROWS * $3 / processors))::bigint,
                $((BENCH_ROWS * ($3 + 1) / processors - 1))) i OFFSET 0) numbers
        JOIN owners ON owner = (hashint8(n) & 2147483647) % $(values_of_250)"
}

# The bars are for the CPU, except those of the part's last cases, which load mirrors.
without_mirrors() { sql -c "ALTER DATABASE bench SET gpujoin.auto_load = off"; }

make_owners() {
    sql -c "$committed_for_good" -c "CREATE TABLE IF NOT EXISTS owners AS SELECT n AS owner,
            $(member_of n)::uuid AS owner_id, $(member_of "-n") AS member_id,
            1000000000000 + n::bigint AS holder_id,
            (1000000000000 + n)::numeric(19,0) AS account_id
        FROM generate_series(0, $(values_of_250) - 1) n" -c "VACUUM (FREEZE, ANALYZE) owners"
}

# build_index "TABLE|NAME|KIND|CASE|DEFINITION": in one process; keeps the processor time and the
# size as samples of CASE, if it has a name.
build_index() {
    local table name kind case definition cpu
    IFS='|' read -r table name kind case definition <<<"$1"
    cpu=$(sql -c "SET max_parallel_maintenance_workers = 0" -c "SET gpujoin.auto_load = off" \
        -c "SET maintenance_work_mem = '$(memory_for_builds)MB'" \
        -c "SELECT cpu_ms(pg_backend_pid())" -c "CREATE INDEX $name ON $table $definition" \
        -c "SELECT cpu_ms(pg_backend_pid())")
    [ -n "$case" ] || return 0
    keep build "$case, processor time" "$kind" ms less 0 \
        "$(awk 'NR == 1 {a = $1} END {print $1 - a}' <<<"$cpu")" ''
    keep build "$case, size" "$kind" "bytes a row" less 0 \
        "$(sql -c "SELECT pg_relation_size('$name') / $BENCH_ROWS::float8")" ''
}

# Enough for each of twenty sorts at a time to be done in memory
memory_for_builds() {
    local memory
    memory=$(($(of_memory MemTotal) / 1024))
    between 64 $((BENCH_ROWS / 12000)) $((memory / 60))
}

# ask_keyed TABLE TYPE COLUMN OUTPUT SUBSELECT: sets in_session and text: the rows of a list, which
# is a parameter. A function returns it as an array, as drivers with a binary protocol send it, and
# functions have it in a variable; literal is the same statement with the list's text.
ask_keyed() {
    in_session="DEALLOCATE ALL; PREPARE asked ($2[]) AS SELECT $4 FROM $1 WHERE $3 = ANY (\$1);"
    sql -c "$committed_for_good" -c "DROP TABLE IF EXISTS listed" \
        -c "CREATE TABLE listed (list $2[])" \
        -c "ALTER TABLE listed ALTER list SET STORAGE external" \
        -c "INSERT INTO listed SELECT array_agg(k) FROM ($5) keys" \
        -c "DROP FUNCTION IF EXISTS list_of_keys" \
        -c "CREATE FUNCTION list_of_keys() RETURNS $2[] LANGUAGE plpgsql AS
            'DECLARE keys $2[] := (SELECT list FROM listed); BEGIN RETURN keys; END'"
    text="EXECUTE asked (list_of_keys())"
    literal="EXECUTE asked ('$(sql -c "SELECT list FROM listed")')"
}

# ---------------------------------------------------------------------------------------------
# The table keyed: rows under keys of several types
# ---------------------------------------------------------------------------------------------

# int8_id, uuid_id (version 4), text_id (24 bytes) and code are unique. holder_id, account_id,
# owner_id and member_id (a uuid as text) are numbers of owners, with 250 rows each. The wanted rows
# are in random order: the first of them are spread over the table and over each index.
make_keyed() {
    say "making the table with other keys ($SECONDS s)"
    make_owners
    sql -c "CREATE UNLOGGED TABLE keyed (int8_id int8, holder_id int8, uuid_id uuid, owner_id uuid,
        amount int, other int, account_id numeric(19,0), text_id text, member_id text,
        code char(20))"
    fill_table keyed "n, holder_id, gen_random_uuid(), owner_id, (n % 1000)::int, (n % 777)::int,
        account_id, 'ord_' || left(md5('text' || n), 20), member_id, 'C' || n"
    sql -c "$committed_for_good" -c "CREATE TABLE wanted AS SELECT int8_id, uuid_id, text_id, code
            FROM keyed WHERE hashint8extended(int8_id, 1) & 1048575 <
                1.1 * 1048576 * $(most_wanted) / $BENCH_ROWS
            ORDER BY hashint8extended(int8_id, 2) LIMIT $(most_wanted)" \
        -c "CREATE TABLE wanted_owners AS SELECT * FROM owners
            WHERE hashint8extended(owner, 1) & 1048575 < 1.1 * 1048576 / 20
            LIMIT greatest($(values_of_250) / 20, 1)" \
        -c "VACUUM (FREEZE, ANALYZE) wanted" -c "VACUUM (FREEZE, ANALYZE) wanted_owners"
    require_all_visible wanted wanted_owners
}

most_wanted() { echo $((BENCH_ROWS / 4 < 100000 ? BENCH_ROWS / 4 : 100000)); }

# ---------------------------------------------------------------------------------------------
# The table tupled: unique pairs of ints. A value of the first has 1, 100 or 5,000 rows
# ---------------------------------------------------------------------------------------------

make_tupled() {
    say "making the table of tuples ($SECONDS s)"
    make_owners
    sql -c "CREATE UNLOGGED TABLE tupled (one int, one_part int, hundred int, hundred_part int,
        many int, many_part int, amount int, other int)"
    fill_table tupled "n, n % 100, n / 100, n % 100, n / 5000, n % 5000, n % 1000, n % 777"
    sql -c "$committed_for_good" -c "CREATE TABLE wanted_tuples AS SELECT tupled.*
            FROM tupled WHERE hashint4extended(one, 1) & 1048575 <
                1.1 * 1048576 * $(most_wanted) / $BENCH_ROWS LIMIT $(most_wanted)" \
        -c "VACUUM (FREEZE, ANALYZE) wanted_tuples"
    require_all_visible wanted_tuples
}

tuple_indexes() { # PREFIX
    echo "tupled|$1_btree|||USING btree ($1, $1_part)"
    echo "tupled|$1_include|||USING gpujoin ($1) INCLUDE ($1_part)"
}
