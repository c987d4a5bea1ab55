# test/bench/part_tuples.sh: lists of pairs of columns, as ORMs write them (OR of ANDs, rows in a
# list, two arrays), of columns that have 1, 100 or 5,000 rows a value. "stock" has a
# btree on both columns, "all indexes" has also a gpujoin index on the first column, with the second
# in INCLUDE. One process; literals are planned each time, so these times contain the planning.
# shellcheck shell=bash

pairs_of() { # PREFIX COUNT FORMAT SEPARATOR
    sql -c "SELECT string_agg(format('$3', $1, $1_part), '$4')
        FROM (SELECT * FROM wanted_tuples LIMIT $2) w"
}

# tuples_text PREFIX COUNT FORM: sets text and in_session
tuples_text() {
    local select="SELECT $heap FROM tupled WHERE"
    in_session=''
    case $3 in
        "OR of ANDs")
            text="$select $(pairs_of "$1" "$2" "($1 = %s AND $1_part = %s)" " OR ")" ;;
        "row IN") text="$select ($1, $1_part) IN ($(pairs_of "$1" "$2" "(%s, %s)" ", "))" ;;
        "OR of ANDs, generic plan")
            in_session="DEALLOCATE ALL; SET plan_cache_mode = force_generic_plan;
                PREPARE asked AS $select $(sql -c "SELECT string_agg(format(
                    '($1 = \$%s AND $1_part = \$%s)', 2 * i - 1, 2 * i), ' OR ')
                    FROM generate_series(1, $2) i");"
            text="EXECUTE asked ($(pairs_of "$1" "$2" "%s, %s" ", "))" ;;
        "unnest of two arrays")
            in_session="DEALLOCATE ALL; PREPARE asked (int[], int[]) AS
                $select ($1, $1_part) IN (SELECT unnest(\$1), unnest(\$2));"
            text="EXECUTE asked ($(sql -c "
                SELECT format('%L, %L', array_agg($1), array_agg($1_part))
                FROM (SELECT * FROM wanted_tuples LIMIT $2) w"))" ;;
    esac
}

# tuples PREFIX COUNT FORM BAR
tuples() {
    local text case="$2 tuples, $3, $(rows_a_value "$1") rows a value"
    local stock=(stock) ours=("all indexes") forced=()
    [ "$2" -le "$(most_wanted)" ] || return 0
    tuples_text "$@"
    if [[ $3 == unnest* ]]; then
        stock=(btree "btree, custom plan") ours+=("all indexes, generic plan")
        forced=("gpujoin include")
    fi
    contest tuples "$case" 0 tupled "$1" "$text" "${stock[@]}" "${ours[@]}" "${forced[@]}"
    against "$4" "$case" tuples "$case" "${ours[@]}" -- "${stock[@]}"
}

rows_a_value() { case $1 in one) echo 1 ;; hundred) echo 100 ;; many) echo 5000 ;; esac; }

# Time the planning of 10,000 arms with the index and without it.
tuples_planning() {
    local text in_session i shown case="10000 arms, planning" prefix=$1
    begin_case "tuples, $case" || return 0
    tuples_text "$prefix" 10000 "OR of ANDs"
    for i in 1 2 3; do
        for shown in "${prefix}_btree" "${prefix}_btree ${prefix}_include"; do
            {
                echo "SELECT show_indexes('tupled', '$shown') \\g /dev/null"
                echo "SET max_parallel_workers_per_gather = 0;"
                echo "EXPLAIN (SUMMARY) $text;"
                echo "EXPLAIN (SUMMARY) $text;"
            } | sql >"$work/said"
            keep tuples "$case, $(rows_a_value "$prefix") rows a value" \
                "$([[ $shown == *include ]] && echo "all indexes" || echo stock)" ms less 0 \
                "$(sed -nE 's/^ *Planning Time: ([0-9.]+) ms/\1/p' "$work/said" | tail -n 1)" ''
        done
    done
    case+=", $(rows_a_value "$prefix") rows a value"
    bar "$case, more than without the index" "$(calculate 'a - b' \
        "$(value "all indexes" tuples "$case")" "$(value stock tuples "$case")")" ms "<= 15" \
        "$(short "$(value "all indexes" tuples "$case")") and $(
            short "$(value stock tuples "$case")") ms"
}

part_tuples() {
    local prefix count indexes=() bars
    without_mirrors
    make_tupled
    for prefix in one hundred many; do
        mapfile -t -O ${#indexes[@]} indexes < <(tuple_indexes $prefix)
        named_indexes["stock/$prefix"]="${prefix}_btree"
        named_indexes["all indexes/$prefix"]="${prefix}_btree ${prefix}_include"
        named_indexes["all indexes, generic plan/$prefix"]="${prefix}_btree ${prefix}_include"
    done
    at_once build_index -- "${indexes[@]}"
    sql -c CHECKPOINT
    note "indexes ($SECONDS s)"
    cases_left=19
    for prefix in one hundred; do
        [ $prefix = one ] && bars=(0.3 0.1) || bars=(0.35 0.15)
        tuples $prefix 10000 "OR of ANDs" "${bars[0]}"
        tuples $prefix 1000 "OR of ANDs" 0.45
        tuples $prefix 100 "OR of ANDs" 1.05
        tuples $prefix 10000 "OR of ANDs, generic plan" "${bars[1]}"
        tuples $prefix 5000 "row IN" "${bars[0]}"
        tuples $prefix 10000 "unnest of two arrays" 0.4
        tuples_planning $prefix
    done
    for count in 100 1000 10000; do
        tuples many $count "OR of ANDs" 1.05
    done
    tuples many 1000 "row IN" 1.05
    tuples many 10000 "unnest of two arrays" 1.05
    in_session=''
    sql -c "DROP TABLE tupled, wanted_tuples"
}
