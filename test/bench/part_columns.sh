# test/bench/part_columns.sh: filters, aggregates, groups, DISTINCT and top-N on the rows of the
# four jobs, with one process and with N.
# shellcheck shell=bash

column_text() {
    local join='patents p JOIN top_classes t ON t.class_id = p.class_id' array any
    array=$(sql -c 'SELECT array_agg(class_id) FROM top_classes')
    any="patents WHERE class_id = ANY ('$array')"
    case $1 in
        "count(*), IN list")
            array=${array#\{} array=${array%\}}
            echo "SELECT count(*) FROM patents WHERE class_id IN ($array)" ;;
        "count(*), generic plan") echo "EXECUTE asked ('$array')" ;;
        "groups by key") echo "SELECT class_id, count(*), sum(app_year) FROM $any
            GROUP BY class_id" ;;
        "groups by year") echo "SELECT app_year, count(*), min(company_id), max(company_id)
            FROM $join GROUP BY app_year" ;;
        "count(DISTINCT)") echo "SELECT count(DISTINCT company_id) FROM $join" ;;
        "newest 100") echo "SELECT patent_id, class_id, app_year FROM $any
            ORDER BY patent_id DESC LIMIT 100" ;;
        "count over DISTINCT") echo "SELECT count(*) FROM (SELECT DISTINCT p.* FROM $join) r" ;;
        "DISTINCT rows") echo "SELECT DISTINCT p.* FROM $join" ;;
        "filter that keeps 1 %, rows of the index") echo "SELECT patent_id, issue_year FROM $any
            AND company_id <= 10000" ;;
        # No index contains ctid.
        "filter that keeps 1 %, rows of the heap") echo "SELECT patent_id, ctid FROM $any
            AND company_id <= 10000" ;;
        "a group for each row") echo "SELECT patent_id, company_id, count(*), sum(app_year)
            FROM $join GROUP BY patent_id, company_id" ;;
        "count, sum, join, 1 % of the pages not all-visible") job_text "count, sum, join" ;;
    esac
}

# Clears all-visible on one page in a hundred, without changing any row, until the next VACUUM.
spoil_visibility() {
    sql -c "BEGIN" -c "DELETE FROM patents WHERE ctid = ANY (ARRAY(
            SELECT format('(%s,1)', page)::tid
            FROM generate_series(0, pg_relation_size('patents') / 8192 - 1, 100) page))" \
        -c "ROLLBACK"
}

restore_visibility() {
    sql -c "$committed_for_good" -c "VACUUM patents"
    require_all_visible patents
}

# Set up the state that a job requires, and restore it afterwards.
begin_job() {
    case $1 in
        *"generic plan") in_session="DEALLOCATE ALL; PREPARE asked (int[]) AS
            SELECT count(*) FROM patents WHERE class_id = ANY (\$1);" ;;
        "DISTINCT rows" | "a group for each row") timed_as="EXPLAIN (ANALYZE, TIMING OFF)" ;;
        *"not all-visible") spoil_visibility ;;
    esac
    explain="EXPLAIN (ANALYZE, TIMING OFF)"
}

end_job() {
    in_session='' timed_as='' explain=EXPLAIN
    [[ $1 != *"not all-visible" ]] || restore_visibility
}

part_columns() {
    local job text jobs=("groups by key" "groups by year" "count(DISTINCT)" "newest 100"
        "count over DISTINCT" "DISTINCT rows" "a group for each row"
        "filter that keeps 1 %, rows of the index" "filter that keeps 1 %, rows of the heap"
        "count(*), IN list" "count(*), generic plan"
        "count, sum, join, 1 % of the pages not all-visible")
    cases_left=$((2 * ${#jobs[@]}))
    for job in "${jobs[@]}"; do
        is_wanted "columns, 1 process, $job" || is_wanted "columns, N workers, $job" || continue
        text=$(column_text "$job")
        begin_job "$job"
        contest "columns, 1 process" "$job" 0 patents class "$text" "${contestants[@]}"
        explain="EXPLAIN (ANALYZE, TIMING OFF)"
        contest "columns, N workers" "$job" 0 patents class "$text" "${contestants[@]/%/, N}"
        end_job "$job"
    done
}
