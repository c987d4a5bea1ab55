# test/bench/part_build.sh: build times of indexes, one at a time and with PostgreSQL's default
# number of workers.
# shellcheck shell=bash

part_build() {
    local round kind
    cases_left=1
    begin_case build || return 0
    for ((round = 1; ; round++)); do
        another_round "$round" || break
        while IFS= read -r kind <&3; do
            keep build "index on class_id" "$kind" ms less 0 \
                "$(timed "CREATE INDEX built ON patents $(definition "$kind" class)")" ''
            [ "$round" != 1 ] || keep_size "$kind" class built
            sql -c 'DROP INDEX built'
        done 3< <(in_order "$round" "${kinds[@]}")
    done
    say_rounds build $((round - 1))
}
