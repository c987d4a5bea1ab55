# test/coexist/tools.sh: what tools do with a gpujoin index, as docs/coexistence.md says. Sourced by
# coexist.sh, not run. Each check_TOOL uses the objects that probe_gpujoin has created in database
# probe; the extension, if the tool is one, has been created.
# shellcheck shell=bash

tools="hypopg amcheck pgstattuple pageinspect pg_freespacemap pg_prewarm pg_visibility pg_qualstats"

# fails_with MESSAGE STATEMENT
fails_with() {
    local said
    ! said=$(sql probe -c "$2" 2>&1) && grep -qF "$1" <<<"$said" && return
    note "not \"$1\" but: $said"
    return 1
}

is() { # WANTED STATEMENT
    local said
    said=$(sql probe -c "$2" 2>&1) && [ "$said" = "$1" ] && return
    note "not \"$1\" but \"$said\": $2"
    return 1
}

# An invented btree beside the index is compared with it.
check_hypopg() {
    fails_with 'access method "gpujoin" is not supported' \
        "SELECT hypopg_create_index('CREATE INDEX ON big USING gpujoin (v)')" &&
        is 1 "SELECT count(*) FROM hypopg_create_index('CREATE INDEX ON big (v)')" &&
        both "$scan" &&
        is t "SELECT count(*) > 0 FROM gpujoin_propose('SELECT id FROM big WHERE v = ANY (\$1)')"
}

# pg_amcheck finds nothing to check in an index of ours, and says so only if it is named.
check_amcheck() {
    fails_with 'only B-Tree indexes are supported' "SELECT bt_index_check('big_k')" &&
        pg_amcheck -d probe >/dev/null &&
        ! pg_amcheck -d probe -i big_k >/dev/null 2>&1 &&
        is 50000 "SELECT gpujoin_check('big_k', true)"
}

check_pgstattuple() {
    fails_with 'is not supported' "SELECT pgstattuple('big_k')" &&
        fails_with 'is not a btree index' "SELECT pgstatindex('big_k')" &&
        is t "SELECT pg_relpages('big_k') = pages FROM gpujoin_index_info('big_k')"
}

check_pageinspect() {
    is 0 "SELECT count(*) FROM gpujoin_index_info('big_k'), generate_series(0, pages - 1) b,
        page_header(get_raw_page('big_k', b::int)) h WHERE lower > upper OR upper > special" &&
        fails_with 'is not a btree index' "SELECT bt_page_stats('big_k', 1)"
}

check_pg_freespacemap() {
    is 0 "SELECT count(*) FROM pg_freespace('big_k') WHERE avail > 0"
}

check_pg_prewarm() {
    is t "SELECT pg_prewarm('big_k') = pages FROM gpujoin_index_info('big_k')"
}

# Without its map, rows are read from the table: the answer is the same.
check_pg_visibility() {
    sql probe -c "SELECT pg_truncate_visibility_map('big')" >/dev/null &&
        both "$scan" && sql probe -c 'VACUUM big' && both "$scan"
}

# It records a condition of PostgreSQL's own scan, and none of what our nodes answer.
check_pg_qualstats() {
    local recorded="SELECT count(*) > 0 FROM pg_qualstats
        WHERE lrelid IN ('big'::regclass, 'small'::regclass)"
    sql probe -c 'SET pg_qualstats.sample_rate = 1' -c 'SET gpujoin.force = on' \
        -c 'SELECT count(*) FROM big WHERE k IN (1, 2)' \
        -c 'SELECT count(*) FROM big JOIN small USING (k) WHERE small.k > 100' >/dev/null &&
        is f "$recorded" &&
        sql probe -c 'SET pg_qualstats.sample_rate = 1' -c 'SET gpujoin.enabled = off' \
            -c 'SELECT count(*) FROM big WHERE k IN (1, 2)' >/dev/null &&
        is t "$recorded"
}

# check_tools: each on a server with gpujoin, and where it has a library to preload, with that.
check_tools() {
    local tool libraries before
    for tool in $tools; do
        if ! has_sql "$tool"; then
            note "$tool skipped: this PostgreSQL does not have it"
            continue
        fi
        libraries=gpujoin
        [ "$tool" != pg_qualstats ] || libraries=pg_qualstats,gpujoin
        start "$libraries"
        createdb probe
        before=$failed
        check "$tool: gpujoin" probe_gpujoin
        sql probe -c "CREATE EXTENSION $tool"
        check "$tool: as documented" "check_$tool"
        check "$tool: no wrong answer" both "$scan"
        stop_server server
        check "$tool: no crash" no_crash
        [ "$failed" != "$before" ] || note "$(printf '%-70s ok' "$tool")"
    done
}

# plprofiler up to 4.2.1 must be first, with gpujoin or without; then all work together.
check_plprofiler() {
    is_there plprofiler || { note "plprofiler skipped: this PostgreSQL does not have it"; return; }
    start plprofiler,pg_stat_statements,gpujoin
    createdb probe
    sql probe -c 'CREATE EXTENSION plprofiler'
    check "plprofiler first: gpujoin" probe_gpujoin
    stop_server server
    check "plprofiler first: no crash" no_crash
    if start pg_stat_statements,plprofiler >/dev/null 2>&1; then
        note "plprofiler need not be first here"
        stop_server server
        start gpujoin,plprofiler
        stop_server server
    else
        check "plprofiler last, without gpujoin: the server does not start" \
            grep -q 'requested tranche is not registered' "$log/server-server.log"
    fi
}
