# test/bench/part_row.sh: the same statement many times in a row, planned once, in PL/pgSQL, which
# takes all rows: what a query costs after planning, with the rows reduced on a device and not. Each
# job is also explained once, with the times of its request to the device.
# shellcheck shell=bash

row_text() {
    case $1 in
        "count, sum, join") job_text "$1" ;;
        # An argument of the function is a parameter: its length is not known to the planner.
        "count(*), generic plan") echo "SELECT count(*) FROM patents WHERE class_id = ANY (keys)" ;;
        *) column_text "$1" ;;
    esac
}

# take_rows JOB: commands of PL/pgSQL that run the statement once. PERFORM copies the rows into
# memory, which for a million takes longer than the query; MOVE throws them away one by one.
take_rows() {
    local text
    text=$(row_text "$1")
    case $1 in
        "DISTINCT rows") echo "OPEN c FOR $text; MOVE FORWARD ALL FROM c; CLOSE c;" ;;
        *) echo "PERFORM ${text#SELECT};" ;;
    esac
}

# measure_row JOB CONTESTANT [SETTING]: prints a time in ms for each run
measure_row() {
    {
        show_what_it_has "$2" patents class
        echo 'SET cursor_tuple_fraction = 1;'
        [ -z "${3:-}" ] || echo "SET $3;"
        echo "CREATE OR REPLACE FUNCTION in_a_row(runs int) RETURNS SETOF float8
            LANGUAGE plpgsql AS \$f\$
            DECLARE
                keys int[] := (SELECT array_agg(class_id) FROM top_classes);
                c refcursor;
                began timestamptz;
            BEGIN
                FOR i IN 1 .. runs LOOP
                    began := clock_timestamp();
                    $(take_rows "$1")
                    RETURN NEXT 1000 * extract(epoch FROM clock_timestamp() - began);
                END LOOP;
            END \$f\$;"
        echo 'SELECT in_a_row(5) \g /dev/null'
        echo "SELECT in_a_row($BENCH_IN_A_ROW);"
    } | sql
}

explain_row() { # JOB
    [ "$1" != "count(*), generic plan" ] || return 0
    {
        show_what_it_has "gpujoin include" patents class
        echo "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) $(row_text "$1");"
    } | sql | cut -c 1-110 | { echo "-- row, $1"; cat; } >>"$log/plans.txt"
}

# row_job CASE JOB
row_job() {
    local contestant ms
    begin_case "row, $1" || return 0
    for contestant in "${contestants[@]}"; do
        for ms in $(measure_row "$2" "$contestant"); do
            keep row "$1" "$contestant" ms less 0 "$ms" ''
        done
        [[ $contestant == "gpujoin include" ]] || continue
        for ms in $(measure_row "$2" "$contestant" "gpujoin.device_aggregate = off"); do
            keep row "$1" "$contestant, not reduced" ms less 0 "$ms" ''
        done
    done
    say_rounds "row, $1" "$BENCH_IN_A_ROW"
    say_medians row "$1"
}

part_row() {
    local job jobs=("count(*), IN list" "count(*), generic plan" "count, sum, join" "groups by key"
        "groups by year" "count(DISTINCT)" "newest 100" "count over DISTINCT" "DISTINCT rows")
    cases_left=$((2 * ${#jobs[@]}))
    for job in "${jobs[@]}"; do
        row_job "$job" "$job"
        [[ " ${contestants[*]} " != *" gpujoin include "* ]] || explain_row "$job"
    done
    ! out_of_time || return 0
    spoil_visibility
    for job in "${jobs[@]}"; do
        [ "$job" = "DISTINCT rows" ] || row_job "$job, 1 % of the pages not all-visible" "$job"
    done
    restore_visibility
}
