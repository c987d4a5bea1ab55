# test/bench/part_scale.sh: time against rows, keys and share of matches, one process; the plots.
# The query is a join with the set, count(*) and the sum of a column.
# shellcheck shell=bash

scale_text() { # KEYS CLASSES TABLE
    echo "SELECT count(*), sum(p.company_id) FROM $(sql -c "SELECT make_keys($1, $2)") s
        JOIN $3 p ON p.class_id = s.k"
}

make_scale_table() { # ROWS
    local kind
    [ -z "$(sql -c "SELECT to_regclass('scale_$1')")" ] || return 0
    sql -c "CREATE TABLE scale_$1 AS SELECT * FROM patents WHERE patent_id <= $1"
    for kind in "${kinds[@]}"; do
        sql -c "CREATE INDEX $(index_of "$kind" "scale_$1") ON scale_$1 $(
            index_definition "$kind" class_id \
                'patent_id, app_year, issue_year, company_id, is_important')"
    done
    sql -c "VACUUM (FREEZE, ANALYZE) scale_$1"
    for kind in gpujoin "gpujoin include"; do
        sql -c "SELECT gpujoin_load('$(index_of "$kind" "scale_$1")')" >/dev/null 2>&1 || true
    done
}

part_scale() {
    local rows keys classes step
    cases_left=15
    for step in 64 16 4; do
        rows=$((BENCH_ROWS / step))
        make_scale_table "$rows"
        contest "scale: rows" "$rows rows" "$rows" "scale_$rows" "scale_$rows" \
            "$(scale_text 4000 4000 "scale_$rows")" "${contestants[@]}"
        sql -c "DROP TABLE scale_$rows"
    done
    contest "scale: rows" "$BENCH_ROWS rows" "$BENCH_ROWS" patents class \
        "$(scale_text 4000 4000 patents)" "${contestants[@]}"
    for keys in 100 1000 10000 100000 1000000; do
        contest "scale: keys" "$keys keys" "$keys" patents class \
            "$(scale_text "$keys" 80 patents)" "${contestants[@]}"
    done
    for classes in 8 80 800 4000 16000 40000; do
        contest "scale: share" "$(awk -v c="$classes" 'BEGIN {print c / 800}') %" \
            "$(awk -v c="$classes" 'BEGIN {print c / 800}')" patents class \
            "$(scale_text 40000 "$classes" patents)" "${contestants[@]}"
    done
}
