# test/cluster/queries.sh: the queries of cluster.sh; sourced, not run.
# shellcheck shell=bash
# shellcheck disable=SC2034  # used by cluster.sh

queries="aggregate groups rows top_n join semijoin array distinct local except prepared update
    by_branch join_branch top_branch"

# Citus reports that it cannot execute these.
refused_by_citus="selfjoin anti generic"

set_of_keys="k = ANY (:'keys'::int[])"

# query_text NAME SET-UP
query_text() {
    case $1 in
        aggregate) echo "SELECT count(*), sum(v), min(v), max(v) FROM big WHERE $set_of_keys" ;;
        groups) echo "SELECT k, count(*), sum(v), round(avg(v), 6) FROM big
            WHERE $set_of_keys GROUP BY k" ;;
        rows) echo "SELECT id, k, t FROM big WHERE $set_of_keys" ;;
        top_n) echo "SELECT id, v FROM big WHERE $set_of_keys ORDER BY v DESC, id LIMIT 10" ;;
        join) echo "SELECT s.name, count(*), sum(b.v) FROM big b JOIN small s USING (k)
            GROUP BY s.name" ;;
        semijoin) echo "SELECT count(*), sum(v) FROM big
            WHERE k IN (SELECT k FROM small WHERE name < 'name 4')" ;;
        array) echo "SELECT count(*), sum(v) FROM big WHERE k = ANY (ARRAY(SELECT k FROM small))" ;;
        distinct) echo "SELECT count(DISTINCT v) FROM big WHERE $set_of_keys" ;;
        local) echo "SELECT count(*), sum(v) FROM big WHERE k IN (SELECT k FROM local)" ;;
        except) echo "SELECT count(*) FROM big WHERE k <> ALL (:'keys'::int[])" ;;
        prepared | generic) echo "EXECUTE p(:'keys')" ;;
        update) echo "UPDATE big SET v = v WHERE k = ANY ('{1,2,3}'::int[])" ;;
        by_branch) echo "SELECT sum(n), sum(s) FROM (
            $(branches "SELECT count(*) AS n, sum(v) AS s FROM BIG WHERE $set_of_keys" "$2")) b" ;;
        join_branch) echo "SELECT name, sum(n), sum(s) FROM (
            $(branches "SELECT s.name, count(*) AS n, sum(b.v) AS s FROM BIG b JOIN SMALL s
                USING (k) GROUP BY s.name" "$2")) b GROUP BY name" ;;
        top_branch) echo "SELECT * FROM (
            $(branches "(SELECT id, v FROM BIG WHERE $set_of_keys
                ORDER BY v DESC, id LIMIT 10)" "$2")) b ORDER BY v DESC, id LIMIT 10" ;;
        selfjoin) echo "SELECT count(*) FROM big a JOIN big b ON a.k = b.k WHERE b.v < 2" ;;
        anti) echo "SELECT name FROM small s
            WHERE NOT EXISTS (SELECT FROM big b WHERE b.k = s.k)" ;;
    esac
}

# Settings of a session before its query
preamble() { # NAME
    case $1 in
        prepared | generic)
            echo "PREPARE p(int[]) AS SELECT count(*), sum(v) FROM big WHERE k = ANY (\$1);" ;;&
        generic) echo "SET plan_cache_mode = force_generic_plan;" ;;
    esac
}

# A query over each foreign table, so that postgres_fdw can ship it as a whole
branches() {
    if [ "$2" = fdw ]; then
        sed 's/BIG/big_half1/; s/SMALL/small_half1/' <<<"$1"
        echo 'UNION ALL'
        sed 's/BIG/big_half2/; s/SMALL/small_half2/' <<<"$1"
    else
        sed 's/BIG/big/; s/SMALL/small/' <<<"$1"
    fi
}

# Succeeds if the query is for this set-up.
asked_of() { # NAME SET-UP
    case $1 in
        *_branch) [ "$2" != citus ] ;;
    esac
}

# Succeeds if the set of keys is shipped to the shards, so that gpujoin can search there.
ships() { # NAME SET-UP
    [ "$2" != one ] || return 1
    case "$2 $1" in
        'fdw join' | 'fdw semijoin' | 'fdw local') return 1 ;;
    esac
}
