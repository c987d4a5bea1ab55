# test/bench/part_scale.sh: time against rows, keys and share of matches, one process; the plots.
# The query is a join with the set, count(*) and the sum of a column.
# shellcheck shell=bash

scale_text() { # KEYS CLASSES TABLE
    echo "SELECT count(*), sum(p.company_id) FROM $(sql -c "SELECT make_keys($1, $2)") s
        JOIN $3 p ON p.class_id = s.k"
}

make_scale_index() { # ROWS KIND
    local name
    name=$(index_of "$2" "scale_$1")
    sql -c "CREATE INDEX $name ON scale_$1 $(definition "$2" class)"
    ! is_mirrored "$2" || sql -c "SELECT gpujoin_load('$name')" >/dev/null 2>&1 || true
}

make_scale_table() { # ROWS
    sql -c "$committed_for_good" \
        -c "CREATE TABLE scale_$1 AS SELECT * FROM patents WHERE patent_id <= $1" \
        -c "VACUUM (FREEZE, ANALYZE) scale_$1"
    require_all_visible "scale_$1"
    at_once make_scale_index "$1" -- "${kinds[@]}"
}

part_scale() {
    local rows keys classes step
    cases_left=15
    for step in 64 16 4; do
        rows=$((BENCH_ROWS / step))
        ! out_of_time || { not_reached "scale: rows, $rows rows"; continue; }
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
