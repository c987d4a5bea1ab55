# test/bench/part_keys.sh: keys of other types beside int8, and pairs of columns. The table keyed
# has the same rows under each of them: int8_id, uuid_id (version 4) and text_id (24 bytes) are
# unique, owner_id is a uuid with 250 rows a value and member_id the text of one, and (tenant_id,
# pair_id) a unique pair. One process; lists are parameters of generic plans, but pairs are written
# out, as ORMs do, and so these times contain the planning.
# shellcheck shell=bash

# member_of NUMBER: a version 4 uuid as text, as applications store it.
member_of() {
    echo "overlay(overlay(md5('member' || $1)::uuid::text PLACING '4' FROM 15) PLACING 'a' FROM 20)"
}

make_keyed() {
    say "making the table with other keys ($SECONDS s)"
    sql -c "$committed_for_good" -c "CREATE TABLE keyed AS
        SELECT n AS int8_id, md5('uuid' || n)::uuid AS uuid_id,
            'ord_' || left(md5('text' || n), 20) AS text_id,
            md5('owner' || hashint8(n) % greatest($BENCH_ROWS / 250, 1))::uuid AS owner_id,
            $(member_of "(hashint8(n) & 2147483647) % greatest($BENCH_ROWS / 250, 1)") AS member_id,
            (n % 100)::int AS tenant_id, n::int AS pair_id,
            (n % 1000)::int AS amount, (n % 777)::int AS other
        FROM generate_series(1::bigint, $BENCH_ROWS) n ORDER BY hashint8(n)" \
        -c "ALTER TABLE keyed SET (parallel_workers = $BENCH_WORKERS)" \
        -c "VACUUM (FREEZE, ANALYZE) keyed" \
        -c "CREATE TABLE wanted AS SELECT int8_id, uuid_id, text_id, tenant_id, pair_id
            FROM keyed ORDER BY hashint8extended(int8_id, 1) LIMIT least(100000, $BENCH_ROWS / 4)" \
        -c "VACUUM (FREEZE, ANALYZE) wanted"
    require_all_visible keyed wanted
}

# keyed_definition KIND PREFIX: a btree on pairs has both columns as keys.
keyed_definition() {
    case $2:$1 in
        pair:btree) echo "USING btree (tenant_id, pair_id)" ;;
        pair:covering) echo "USING btree (tenant_id, pair_id) INCLUDE (amount)" ;;
        pair:*) index_definition "$1" pair_id "tenant_id, amount" ;;
        member:gpujoin*) index_definition "$1" "member_id text_id_ops" amount ;;
        *) index_definition "$1" "${2}_id" amount ;;
    esac
}

make_keyed_index() { # PREFIX KIND
    sql -c 'SET gpujoin.auto_load = off' \
        -c "CREATE INDEX $(index_of "$2" "$1") ON keyed $(keyed_definition "$2" "$1")"
}

make_keyed_indexes() {
    local prefix kind
    for prefix in "$@"; do
        for kind in "${kinds[@]}"; do make_keyed_index "$prefix" "$kind"; done
        load_mirrors "$prefix"
    done
}

# ask_keyed TYPE COLUMN OUTPUT SUBSELECT: sets in_session and text.
ask_keyed() {
    in_session="DEALLOCATE ALL; PREPARE asked ($1[]) AS SELECT $3 FROM keyed WHERE $2 = ANY (\$1);"
    text="EXECUTE asked ('$(sql -c "SELECT array_agg(k) FROM ($4) keys")')"
}

part_keys() {
    local text type keys heap="count(*), sum(amount), sum(other)"
    make_keyed
    make_keyed_indexes int8 uuid text owner member pair
    cases_left=15
    for keys in 4000 100000; do
        for type in int8 uuid text; do
            ask_keyed $type ${type}_id "$heap" "SELECT ${type}_id AS k FROM wanted LIMIT $keys"
            contest keys "$keys unique keys of type $type, from the heap" 0 keyed $type "$text" \
                "${contestants[@]}"
        done
    done
    ask_keyed uuid uuid_id "count(*), sum(amount)" "SELECT uuid_id AS k FROM wanted LIMIT 4000"
    contest keys "4000 unique keys of type uuid, columns of the index" 0 keyed uuid "$text" \
        "${contestants[@]}"
    ask_keyed uuid owner_id "count(*), sum(amount)" "SELECT DISTINCT md5('owner' || n)::uuid AS k
        FROM generate_series(0, greatest($BENCH_ROWS / 5000, 1)) n"
    contest keys "a twentieth of all rows by uuid, columns of the index" 0 keyed owner "$text" \
        "${contestants[@]}"
    ask_keyed text member_id "count(*), sum(amount)" "SELECT DISTINCT $(member_of n) AS k
        FROM generate_series(0, greatest($BENCH_ROWS / 5000, 1)) n"
    contest keys "a twentieth of all rows by uuids as text, columns of the index" 0 keyed member \
        "$text" "${contestants[@]}"
    in_session=''
    contest keys "the same, join" 0 keyed member "SELECT count(*), sum(amount) FROM keyed JOIN
        (SELECT DISTINCT $(member_of n) AS member_id FROM generate_series(0,
            greatest($BENCH_ROWS / 5000, 1)) n) members USING (member_id)" "${contestants[@]}"
    contest keys "100000 keys of type text, join" 0 keyed text \
        "SELECT $heap FROM keyed JOIN wanted USING (text_id)" "${contestants[@]}"
    # Without an index each row would be compared with each pair.
    for keys in 100 1000 10000; do
        text="SELECT $heap FROM keyed WHERE $(sql -c "SELECT string_agg(
            format('(tenant_id = %s AND pair_id = %s)', tenant_id, pair_id), ' OR ')
            FROM (SELECT * FROM wanted LIMIT $keys) w")"
        contest keys "$keys pairs, OR of ANDs" 0 keyed pair "$text" "${kinds[@]}"
    done
    contest keys "100000 pairs, join" 0 keyed pair \
        "SELECT $heap FROM keyed JOIN wanted USING (tenant_id, pair_id)" "${contestants[@]}"
    sql -c "DROP TABLE keyed, wanted"
}
