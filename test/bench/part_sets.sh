# test/bench/part_sets.sh: time against the size of the set. In sets of up to 4,000 keys, each key
# has rows: the fewer keys, the less needs to be read; in larger sets, 4,000 keys have rows. One
# process, count(*) and the sum of a column, by a generic plan. On a machine with a GPU, the
# contestant "gpujoin CPU" shows the processor alone.
# shellcheck shell=bash

# ask_for TABLE COLUMN KEYS-QUERY: sets in_session and text.
ask_for() {
    in_session="DEALLOCATE ALL; PREPARE asked (int[]) AS
        SELECT count(*), sum(company_id) FROM $1 WHERE $2 = ANY (\$1);"
    text="EXECUTE asked ('$(sql -c "SELECT array_agg(k) FROM ($3) keys")')"
}

make_unsorted_index() { # KIND
    sql -c 'SET gpujoin.auto_load = off' \
        -c "CREATE INDEX $(index_of "$1" unsorted) ON unsorted $(definition "$1" class)"
}

# A tenth of the rows is added after the build. The index is not cleaned up, which might sort it,
# but all pages are all-visible.
make_unsorted_table() {
    local first=$((BENCH_ROWS / 10 * 9))
    sql -c "$committed_for_good" \
        -c "CREATE TABLE unsorted AS SELECT * FROM patents WHERE patent_id <= $first" \
        -c "VACUUM (FREEZE) unsorted"
    at_once make_unsorted_index -- "${kinds[@]}"
    sql -c "$committed_for_good" \
        -c "INSERT INTO unsorted SELECT * FROM patents WHERE patent_id > $first" \
        -c "VACUUM (FREEZE, ANALYZE, INDEX_CLEANUP off) unsorted"
    load_mirrors unsorted
}

load_mirrors() { # PREFIX
    local kind
    for kind in "${kinds[@]}"; do
        ! is_mirrored "$kind" || load_mirror "$(index_of "$kind" "$1")"
    done
}

part_sets() {
    local keys matching name text unique="unique keys"
    local unsorted="10 % of the rows inserted after the build"
    cases_left=10
    for keys in 1 10 100 1000 4000 10000 100000 1000000; do
        matching=$((keys < 4000 ? keys : 4000))
        ask_for patents class_id "TABLE $(sql -c "SELECT make_keys($keys, $matching)")"
        name="$keys keys"
        contest "scale: set" "${name/#1 keys/1 key}" "$keys" patents class "$text" \
            "${contestants[@]}"
    done
    if is_wanted "sets, $unsorted"; then
        make_unsorted_table
        ask_for unsorted class_id "TABLE $(sql -c 'SELECT make_keys(4000, 4000)')"
        contest sets "$unsorted" 0 unsorted unsorted "$text" "${contestants[@]}"
        sql -c "DROP TABLE unsorted"
    fi
    if is_wanted "sets, $unique"; then
        make_indexes patent
        ask_for patents patent_id "SELECT 1 + (hashint8(n) & 2147483647) % $BENCH_ROWS AS k
            FROM generate_series(1, 4000) n"
        contest sets "$unique" 0 patents patent "$text" "${contestants[@]}"
        drop_indexes patent
    fi
    in_session=''
}
