# test/bench/part_clients.sh: many concurrent sessions. A look-up searches for 1,000 of a million
# companies, that is, one row in a thousand, with the keys in the text of the statement; the mixed
# load has one writing transaction, an update and an insertion, for nine look-ups.
# shellcheck shell=bash

lookups=40

make_lookups() {
    local i
    for ((i = 1; i <= lookups; i++)); do
        sql -c "SELECT 'SELECT count(*), sum(patent_id) FROM :tbl WHERE company_id = ANY (''' ||
            array_agg(1 + (hashint8(n * 1000 + $i) & 2147483647) % 1000000)::text || ''');'
            FROM generate_series(1, 1000) n" >"$work/lookup-$i.sql"
    done
    cat >"$work/write.sql" <<PGBENCH
\\set id random(1, $BENCH_WRITE_ROWS)
\\set k random(1, 1000000)
BEGIN;
UPDATE :tbl SET company_id = :k WHERE patent_id = :id;
INSERT INTO :tbl VALUES ($BENCH_WRITE_ROWS + :id, 2, 2000, 2001, :k, false);
COMMIT;
PGBENCH
}

mixed_table() { echo "mixed_${1// /_}"; }

make_mixed_table() { # KIND
    copy_patents company mixed "$1"
    sql -c "CREATE INDEX ON $(mixed_table "$1") (patent_id)"
}

# rate CONTESTANT CLIENTS TABLE WRITE: transactions per second.
rate() {
    local files=() i
    for ((i = 1; i <= lookups; i++)); do files+=(-f "$work/lookup-$i.sql@9"); done
    [ -z "$4" ] || files+=(-f "$4@$lookups")
    PGOPTIONS=$(as_options "$1") tps_of -M simple -c "$2" \
        -j "$(($2 < processors ? $2 : processors))" -T "$BENCH_SECONDS" -D tbl="$3" "${files[@]}"
}

check_lookups() {
    local contestant index answer right=''
    for contestant in "${contestants[@]}"; do
        index=$(index_of "$contestant" company)
        answer=$({
            echo "SELECT show_indexes('patents'${index:+, '$index'}) \g /dev/null"
            settings_of "$contestant" | as_set_commands
            cat "$work/lookup-1.sql"
        } | sql -v tbl=patents)
        [ "${right:=$answer}" = "$answer" ] || die "look-up: \"$contestant\" answers $answer"
    done
}

# A sequential scan for each look-up cannot compete: one client is enough to show it.
part_clients() {
    local clients round contestant index table tps
    cases_left=8
    make_lookups
    make_indexes company
    check_lookups
    for clients in 1 8 32 64; do
        begin_case "clients, look-ups, $clients clients" || continue
        for ((round = 1; ; round++)); do
            another_round "$round" || break
            while IFS= read -r contestant <&3; do
                [ "$contestant" != "no index" ] || [ "$clients" = 1 ] || continue
                index=$(index_of "$contestant" company)
                sql -c "SELECT show_indexes('patents'${index:+, '$index'})" >/dev/null
                tps=$(rate "$contestant" "$clients" patents '')
                keep clients "look-ups, $clients clients" "$contestant" "a second" more \
                    "$clients" "$tps" ''
            done 3< <(in_order "$round" "${contestants[@]}")
        done
        say_rounds "look-ups, $clients clients" $((round - 1))
    done
    at_once make_mixed_table -- "${kinds[@]}"
    vacuum_copies mixed "${kinds[@]}"
    for clients in 1 8 32 64; do
        begin_case "clients, mixed, $clients clients" || continue
        for ((round = 1; ; round++)); do
            another_round "$round" || break
            while IFS= read -r contestant <&3; do
                table=$(mixed_table "$contestant")
                tps=$(rate "$contestant" "$clients" "$table" "$work/write.sql")
                keep clients "mixed, $clients clients" "$contestant" "a second" more "$clients" \
                    "$tps" ''
            done 3< <(in_order "$round" "${kinds[@]}")
        done
        say_rounds "mixed, $clients clients" $((round - 1))
    done
    drop_tables mixed "${kinds[@]}"
}
