# test/bench/part_peers.sh: jobs that external contestants can do as well (peers.sh), time against
# the size of the set, and joins by keys of other types (keyed.sh).
# shellcheck shell=bash

peers_text() {
    case $1 in
        "count(*), = ANY" | "count, sum, join" | "all columns, join") job_text "$1" ;;
        *) column_text "$1" ;;
    esac
}

# A btree on pairs has both columns as keys.
make_peer_indexes() {
    local prefix kind indexes=()
    for kind in "${kinds[@]}"; do
        for prefix in int8 uuid text; do
            indexes+=("keyed|$(index_of "$kind" $prefix)|||$(
                index_definition "$kind" ${prefix}_id amount)")
        done
        case $kind in
            btree | covering) indexes+=("tupled|one_$kind|||$(
                index_definition "$kind" "one, one_part" amount)") ;;
            *) indexes+=("tupled|$(index_of "$kind" one)|||$(
                index_definition "$kind" one "one_part, amount")") ;;
        esac
    done
    at_once build_index -- "${indexes[@]}"
    for kind in "${kinds[@]}"; do
        ! is_mirrored "$kind" || for prefix in int8 uuid text one; do
            load_mirror "$(index_of "$kind" $prefix)"
        done
    done
}

part_peers() {
    local job text keys name all tables indexed
    local joins=("int8_id" "uuid_id" "text_id" "one_part, one")
    local jobs=("count(*), = ANY" "count, sum, join" "all columns, join"
        "groups by key" "groups by year" "count(DISTINCT)" "newest 100" "count over DISTINCT"
        "filter that keeps 1 %, rows of the index")
    make_keyed
    make_tupled
    make_peer_indexes
    start_peers
    all=("${contestants[@]}" "${outside_contestants[@]}")
    cases_left=$((2 * ${#jobs[@]} + 2 * ${#joins[@]} + 4))
    for job in "${jobs[@]}"; do
        is_wanted "peers, 1 process, $job" || is_wanted "peers, N workers, $job" || continue
        text=$(peers_text "$job")
        contest "peers, 1 process" "$job" 0 patents class "$text" "${all[@]}"
        contest "peers, N workers" "$job" 0 patents class "$text" "${all[@]/%/, N}"
    done
    for keys in "${joins[@]}"; do
        name=${keys##* }
        tables="keyed JOIN wanted" indexed=keyed
        [ "$name" != one ] || tables="tupled JOIN wanted_tuples" indexed=tupled
        text="SELECT count(*), sum($indexed.amount) FROM $tables USING ($keys)"
        name=${name%_id}
        contest "peers, 1 process" "join by $keys" 0 $indexed "$name" "$text" "${all[@]}"
        contest "peers, N workers" "join by $keys" 0 $indexed "$name" "$text" "${all[@]/%/, N}"
    done
    for keys in 10 100 1000 4000; do
        name=$(sql -c "SELECT make_keys($keys, $keys)")
        text="SELECT count(*), sum(company_id) FROM patents
            WHERE class_id = ANY ('$(sql -c "SELECT array_agg(k) FROM $name")')"
        contest "scale: peers" "$keys keys" "$keys" patents class "$text" "${all[@]}"
    done
    sql -c "DROP TABLE keyed, wanted, wanted_owners, tupled, wanted_tuples"
}
