# test/bench/part_build.sh: how long an index takes to build, and how big it is.
# shellcheck shell=bash

# time_build KIND NAME COLUMN INCLUDED
time_build() {
    local definition ms
    definition=$(index_definition "$1" "$3" "$4")
    ms=$(sql -c '\timing on' -c "CREATE INDEX $2 ON patents $definition" |
        sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p')
    keep build "index on $3" "$1" ms less 0 "$ms" ''
    keep build "size of index on $3" "$1" "bytes a row" less 0 \
        "$(sql -c "SELECT pg_relation_size('$2') / $BENCH_ROWS::float8")" ''
}

part_build() {
    local round kind
    cases_left=1
    begin_case
    for ((round = 1; ; round++)); do
        another_round "$round" || break
        while IFS= read -r kind <&3; do
            time_build "$kind" built class_id \
                "patent_id, app_year, issue_year, company_id, is_important"
            sql -c 'DROP INDEX built'
        done 3< <(in_order "$round" "${kinds[@]}")
    done
}
