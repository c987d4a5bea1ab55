# test/coexist/probes.sh: checks that an extension still works, and gpujoin, too. Sourced by
# coexist.sh, not run. Each probe uses the objects that probe_gpujoin has created in database
# probe.
# shellcheck shell=bash

scan="SELECT count(*), sum(v) FROM big WHERE k = ANY (ARRAY[1, 5, 77])"

# both QUERY: succeeds if its answer is the same without gpujoin, and its plan with gpujoin has a
# node of ours
both() {
    local stock ours plan
    stock=$(sql probe -c "SET gpujoin.enabled = off" -c "$1")
    ours=$(sql probe -c "SET gpujoin.force = on" -c "$1")
    plan=$(sql probe -c "SET gpujoin.force = on" -c "EXPLAIN (COSTS OFF) $1")
    if [ "$stock" != "$ours" ]; then
        note "other rows: $1"
        return 1
    fi
    grep -q 'Custom Scan (Gpu' <<<"$plan" || { note "no node of ours: $1"; return 1; }
}

probe_gpujoin() {
    sql probe >/dev/null <<'SQL'
CREATE EXTENSION gpujoin;
CREATE EXTENSION gpujoin_advisor;
CREATE TABLE big (id int, k int, v int);
INSERT INTO big SELECT i, i % 1000, i % 77 FROM generate_series(1, 50000) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v);
CREATE TABLE small AS SELECT i * 13 AS k FROM generate_series(1, 50) i;
VACUUM ANALYZE big; ANALYZE small;
SQL
    both "$scan" && both "SELECT count(*), sum(v) FROM big JOIN small USING (k)" &&
        both "SELECT id, v FROM big WHERE k IN (3, 8) ORDER BY v DESC, id LIMIT 5" &&
        both "SELECT k, count(*) FROM big WHERE k IN (3, 8) GROUP BY k ORDER BY k"
}

probe_pg_stat_statements() {
    sql probe -c 'SET gpujoin.force = on' -c "$scan" >/dev/null
    [ "$(sql probe -c "SELECT sum(rows) = sum(calls) AND sum(calls) > 0 FROM pg_stat_statements
        WHERE query LIKE 'SELECT count(*), sum(v) FROM big WHERE k = ANY%'")" = t ]
}

probe_auto_explain() {
    sql probe -c 'SET gpujoin.force = on' -c "$scan /* explained */" >/dev/null
    sed -n '/explained/,$p' "$log/server-server.log" | grep -q 'Custom Scan (GpuScan) on big'
}

# hinted HINT QUERY [SETTING...]: the plan
hinted() {
    local hint=$1 query=$2 settings=() setting
    shift 2
    for setting in "$@"; do settings+=(-c "SET $setting"); done
    sql probe "${settings[@]}" -c "/*+ $hint */ EXPLAIN (COSTS OFF) $query"
}

# A hint overrides gpujoin, and a hint for another table does not affect gpujoin. No plan has an
# index that a hint forbids, even if gpujoin offered it in a choice between two; an advised index
# has no name that could match a hint's.
probe_pg_hint_plan() {
    local join="SELECT count(*), sum(few.z) FROM big JOIN small USING (k) JOIN few ON few.v = big.v"
    sql probe >/dev/null <<'SQL'
CREATE UNIQUE INDEX big_id ON big (id);
CREATE INDEX big_id_too ON big USING gpujoin (id) INCLUDE (v);
CREATE TABLE few AS SELECT i AS v, i % 3 AS z FROM generate_series(1, 77) i;
VACUUM ANALYZE big; ANALYZE few;
SQL
    hinted 'SeqScan(big)' "$scan" | grep -q 'Seq Scan on big' &&
        hinted 'SeqScan(nothing)' "$scan" | grep -q GpuScan &&
        ! hinted 'Set(gpujoin.enabled off)' "$scan" | grep -q Gpu &&
        hinted '' "$join" | grep -q 'Custom Scan (GpuJoin)' &&
        ! hinted 'Leading(big few small)' "$join" | grep -q 'Custom Scan (GpuJoin)' &&
        ! hinted 'Leading(((big few) small))' "$join" | grep -q 'Custom Scan (GpuJoin)' &&
        choice_is_hinted '' big_id big_id_too &&
        choice_is_hinted 'IndexScan(big)' big_id big_id_too &&
        choice_is_hinted 'IndexScan(big big_id_too)' '' big_id_too &&
        choice_is_hinted 'IndexScan(big big_id)' big_id '' &&
        choice_is_hinted 'SeqScan(big)' '' '' &&
        sql probe -c "SELECT count(*) FROM gpujoin_propose(
            '/*+ IndexScan(big big_id) */ SELECT k FROM big WHERE v IN (1, 2)')" >/dev/null &&
        sql probe -c 'DROP INDEX big_id, big_id_too' -c 'DROP TABLE few'
}

# choice_is_hinted HINT BTREE GPUJOIN: the plan for an array of unknown length has these indexes
choice_is_hinted() {
    local plan
    plan=$(sql probe -c 'SET plan_cache_mode = force_generic_plan' \
        -c "PREPARE p(int[]) AS /*+ $1 */ SELECT sum(v) FROM big WHERE id = ANY (\$1)" \
        -c "EXPLAIN (COSTS OFF) EXECUTE p('{1,2}')" -c "EXECUTE p('{1,2}')")
    [ "$(grep -oE '(using|on|Index:) big_[a-z_]+' <<<"$plan" | sed 's/.* //' | sort | xargs)" = \
        "$(xargs <<<"$2 $3")" ] && [ "$(tail -n 1 <<<"$plan")" = 3 ] && return
    note "hint $1: other indexes than $2 $3"
    return 1
}

probe_vector() {
    sql probe >/dev/null <<'SQL'
CREATE TABLE points AS SELECT i AS id, i % 1000 AS k,
    format('[%s,%s,%s]', i % 7, i % 11, i % 13)::vector(3) AS p FROM generate_series(1, 50000) i;
CREATE INDEX ON points USING gpujoin (k);
CREATE INDEX ON points USING ivfflat (p vector_l2_ops) WITH (lists = 10);
VACUUM ANALYZE points;
SQL
    both "SELECT id FROM points WHERE k IN (3, 8) ORDER BY p <-> '[1,2,3]', id LIMIT 5" &&
        sql probe -c "EXPLAIN (COSTS OFF) SELECT id FROM points ORDER BY p <-> '[1,2,3]' LIMIT 5" |
        grep -q 'Index Scan using points_p_idx'
}

# Its chunks are tables that it creates; an index of the hypertable is created on each.
probe_timescaledb() {
    sql probe >/dev/null <<'SQL'
CREATE TABLE measured (at timestamptz NOT NULL, k int, v int);
SELECT create_hypertable('measured', 'at', chunk_time_interval => interval '1 day');
CREATE INDEX measured_k ON measured USING gpujoin (k) INCLUDE (v);
INSERT INTO measured SELECT '2026-01-01'::timestamptz + i * interval '10 seconds', i % 1000, i % 77
    FROM generate_series(1, 50000) i;
VACUUM ANALYZE measured;
SQL
    both "SELECT count(*), sum(v) FROM measured WHERE k IN (1, 5, 77)" &&
        both "SELECT count(*), sum(v) FROM measured JOIN small USING (k)" &&
        both "SELECT time_bucket('1 day', at) AS day, count(*) FROM measured WHERE k IN (1, 5, 77)
            GROUP BY day ORDER BY day"
}

# One server as a cluster of its own. The plan shows those of the tasks.
probe_citus() {
    sql probe >/dev/null <<SQL
SELECT citus_set_coordinator_host('$PGHOST', current_setting('port')::int);
SELECT citus_set_node_property('$PGHOST', current_setting('port')::int, 'shouldhaveshards', true);
CREATE TABLE spread (id int, k int, v int);
SELECT create_distributed_table('spread', 'id', shard_count => 2);
INSERT INTO spread SELECT * FROM big;
CREATE INDEX spread_k ON spread USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE spread;
SQL
    [ "$(sql probe -c "SELECT count(*), sum(v) FROM spread WHERE k IN (1, 5, 77)")" = \
        "$(sql probe -c "SELECT count(*), sum(v) FROM big WHERE k IN (1, 5, 77)")" ] &&
        sql probe -c 'EXPLAIN (COSTS OFF) SELECT count(*) FROM spread WHERE k IN (1, 5, 77)' |
        grep -q 'Custom Scan (Gpu'
}
