# test/bench/part_types.sh: columns that applications have, in INCLUDE: sums of numeric, groups of
# varchar, DISTINCT uuids, filters on them, and texts that are too long for the index. A twentieth
# of the values of customer_id is wanted; 250 rows have each. One process; DuckDB, which takes part
# in `make bench-peers` and where DUCKDB names it, has one thread, and N for comparison.
# shellcheck shell=bash

types_stock=(btree covering "no index")

make_sales() {
    say "making the table of sales ($SECONDS s)"
    make_owners
    sql -c "CREATE UNLOGGED TABLE sales (sale_id int, customer_id int, price int8,
        amount numeric(12,2), status varchar(20), country char(2), user_id uuid, half text,
        long text)"
    # A hundredth of the rows is paid and above 100.
    fill_table sales "n, owner, hashint8(n + 5) & 1048575,
        ((hashint8(n + 1) & 2147483647) % 10526 + 1)::numeric / 100,
        (ARRAY['paid', 'paid', 'paid', 'paid', 'open', 'open', 'open', 'shipped', 'shipped',
            'shipped', 'shipped', 'cancelled', 'cancelled', 'returned', 'returned', 'returned',
            'delivered', 'delivered', 'delivered', 'delivered'])
            [1 + (hashint8(n + 2) & 2147483647) % 20],
        (ARRAY['DE', 'FR', 'US', 'GB', 'JP', 'BR', 'IN', 'CN'])[1 + (hashint8(n + 3) & 7)],
        md5(((hashint8(n + 4) & 2147483647) % least(1000000, greatest($BENCH_ROWS / 20, 1)))::text)
            ::uuid,
        CASE WHEN hashint8(n + 6) & 1 = 0 THEN 'note ' ELSE 'a note that is long ' END
            || (hashint8(n + 7) & 511),
        'a note that is long ' || (hashint8(n + 8) & 1023)"
    sql -c "$committed_for_good" -c "CREATE TABLE chosen AS SELECT owner::int AS customer_id
            FROM owners WHERE hashint8extended(owner, 1) & 1048575 < 1.1 * 1048576 / 20
            LIMIT greatest($(values_of_250) / 20, 1)" -c "VACUUM (FREEZE, ANALYZE) chosen"
    require_all_visible chosen
}

# types_indexes PREFIX COLUMNS: each job's indexes have the columns that it needs.
types_indexes() {
    echo "sales|$1_covering|covering|index on int8 with $2|$(
        index_definition covering customer_id "$2")"
    echo "sales|$1_include|gpujoin include|index on int8 with $2|$(
        index_definition gpujoin\ include customer_id "$2")"
    named_indexes["stock/$1"]="all_btree $1_covering"
    named_indexes["all indexes/$1"]="all_btree $1_covering $1_include"
    named_indexes["btree/$1"]=all_btree
}

# types_job CASE PREFIX STATEMENT
types_job() {
    contest types "$1" 0 sales "$2" "$3" "${types_stock[@]}" "${outside_contestants[@]}" \
        "${outside_contestants[@]/%/, N}" "gpujoin include"
}

# types_bar CASE BAR [DUCKDB-BAR]
types_bar() {
    against "$2" "$1, against stock's best" types "$1" "gpujoin include" -- "${types_stock[@]}"
    [ -z "${3:-}" ] || [ ${#outside_contestants[@]} = 0 ] ||
        against "$3" "$1, against DuckDB" types "$1" "gpujoin include" -- DuckDB
}

# A case in which the planner has the choice among all indexes
types_choice() { # CASE PREFIX STATEMENT
    contest types "$1" 0 sales "$2" "$3" stock "${types_stock[@]}" "${outside_contestants[@]}" \
        "gpujoin include" "all indexes"
    against 1.05 "$1, planner's choice against stock's best" types "$1" "all indexes" -- stock \
        "${types_stock[@]}"
}

part_types() {
    local join="sales JOIN chosen USING (customer_id)" column share indexes=()
    without_mirrors
    make_sales
    types_indexes sums "amount, price" >"$work/types-indexes"
    types_indexes dims "amount, status, user_id" >>"$work/types-indexes"
    types_indexes half half >>"$work/types-indexes"
    types_indexes long long >>"$work/types-indexes"
    types_indexes country country >>"$work/types-indexes"
    echo "sales|all_btree|||USING btree (customer_id)" >>"$work/types-indexes"
    mapfile -t indexes <"$work/types-indexes"
    at_once build_index -- "${indexes[@]}"
    ! start_duckdb || fill_duckdb sales chosen
    sql -c CHECKPOINT
    note "indexes ($SECONDS s)"
    cases_left=13
    types_job "sum(price), int8" sums "SELECT sum(price) FROM $join"
    types_job "sum(amount), numeric(12,2)" sums "SELECT sum(amount) FROM $join"
    types_bar "sum(amount), numeric(12,2)" 0.15 0.7
    against 1.4 "sum(amount), numeric(12,2), against int8" types "sum(amount), numeric(12,2)" \
        "gpujoin include" -- "sum(price), int8@gpujoin include"
    types_job "count, sum by status" dims \
        "SELECT status, count(*), sum(amount) FROM $join GROUP BY status"
    types_bar "count, sum by status" 0.15 0.7
    types_job "count(DISTINCT user_id)" dims "SELECT count(DISTINCT user_id) FROM $join"
    types_bar "count(DISTINCT user_id)" 0.3 1.0
    types_job "filter that keeps 1 %, rows of the heap" dims "SELECT sale_id, price, long FROM $join
        WHERE status = 'paid' AND amount > 100"
    types_bar "filter that keeps 1 %, rows of the heap" 0.1
    timed_as="EXPLAIN (ANALYZE, TIMING OFF)"
    types_job "DISTINCT user_id, status, amount" dims \
        "SELECT DISTINCT user_id, status, amount FROM $join"
    timed_as=''
    types_bar "DISTINCT user_id, status, amount" 0.2 1.0
    types_job "count by country, char(2)" country \
        "SELECT country, count(*) FROM $join GROUP BY country"
    types_bar "count by country, char(2)" 0.15 0.7
    for column in half long; do
        [ $column = half ] && share="half of the texts" || share="all texts"
        types_choice "$share too long, groups" $column \
            "SELECT $column, count(*) FROM $join GROUP BY $column"
        types_choice "$share too long, = a short text" $column \
            "SELECT count(*) FROM $join WHERE $column = 'note 7'"
        types_choice "$share too long, = a long text" $column \
            "SELECT count(*) FROM $join WHERE $column = 'a note that is long 7'"
    done
    sql -c "DROP TABLE sales, chosen"
}
