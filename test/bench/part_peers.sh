# test/bench/part_peers.sh: jobs that external contestants can do as well (peers.sh), time against
# the size of the set, and joins by keys of other types (part_keys.sh).
# shellcheck shell=bash

peers_text() {
    case $1 in
        "count(*), = ANY" | "count, sum, join" | "all columns, join") job_text "$1" ;;
        *) column_text "$1" ;;
    esac
}

part_peers() {
    local job text keys name all
    local joins=("int8_id" "uuid_id" "text_id" "tenant_id, pair_id")
    local jobs=("count(*), = ANY" "count, sum, join" "all columns, join"
        "groups by key" "groups by year" "count(DISTINCT)" "newest 100" "count over DISTINCT"
        "filter that keeps 1 %, rows of the index")
    make_keyed
    make_keyed_indexes int8 uuid text pair
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
        name=${name%_id}
        text="SELECT count(*), sum(amount) FROM keyed JOIN wanted USING ($keys)"
        contest "peers, 1 process" "join by $keys" 0 keyed "$name" "$text" "${all[@]}"
        contest "peers, N workers" "join by $keys" 0 keyed "$name" "$text" "${all[@]/%/, N}"
    done
    for keys in 10 100 1000 4000; do
        name=$(sql -c "SELECT make_keys($keys, $keys)")
        text="SELECT count(*), sum(company_id) FROM patents
            WHERE class_id = ANY ('$(sql -c "SELECT array_agg(k) FROM $name")')"
        contest "scale: peers" "$keys keys" "$keys" patents class "$text" "${all[@]}"
    done
}
