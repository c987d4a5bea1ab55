# test/bench/part_peers.sh: jobs that external contestants can do as well (peers.sh), and time
# against the size of the set.
# shellcheck shell=bash

peers_text() {
    case $1 in
        "count(*), = ANY" | "count, sum, join" | "all columns, join") job_text "$1" ;;
        *) column_text "$1" ;;
    esac
}

part_peers() {
    local job text keys name all jobs=("count(*), = ANY" "count, sum, join" "all columns, join"
        "groups by key" "groups by year" "count(DISTINCT)" "newest 100" "count over DISTINCT"
        "filter that keeps 1 %, rows of the index")
    start_peers
    all=("${contestants[@]}" "${outside_contestants[@]}")
    cases_left=$((2 * ${#jobs[@]} + 4))
    for job in "${jobs[@]}"; do
        is_wanted "peers, 1 process, $job" || is_wanted "peers, N workers, $job" || continue
        text=$(peers_text "$job")
        contest "peers, 1 process" "$job" 0 patents class "$text" "${all[@]}"
        contest "peers, N workers" "$job" 0 patents class "$text" "${all[@]/%/, N}"
    done
    for keys in 10 100 1000 4000; do
        name=$(sql -c "SELECT make_keys($keys, $keys)")
        text="SELECT count(*), sum(company_id) FROM patents
            WHERE class_id = ANY ('$(sql -c "SELECT array_agg(k) FROM $name")')"
        contest "scale: peers" "$keys keys" "$keys" patents class "$text" "${all[@]}"
    done
}
