#!/usr/bin/env bash
# test/bench/one_beside.sh ROUNDS: look-ups of one key of 10 rows, 300 a second, beside sessions
# that insert 20,000 rows a second, with a btree or a gpujoin index alone; then also while VACUUM
# runs again and again. For bench_one.sh, in an empty database. Prints a table in markdown: the
# median, 95th and 99th percentile of a look-up's time, in µs; of each, the median of the rounds.
set -euo pipefail

rounds=$1
rows=2000000
keys=200000
seconds=12
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"

psql -Xq -c 'CREATE EXTENSION gpujoin' -c 'SELECT setseed(0.5)' >/dev/null
for method in btree gpujoin; do
    psql -Xq -c "CREATE TABLE beside_$method AS SELECT i AS id, (random() * $keys)::int AS k,
        i AS v, repeat('x', 40) AS pad FROM generate_series(1, $rows) i" \
        -c "CREATE INDEX ON beside_$method USING $method (k)" \
        -c "VACUUM (ANALYZE) beside_$method"
    echo "INSERT INTO beside_$method SELECT i, (random() * $keys)::int, i, repeat('x', 40)
        FROM generate_series(1, 100) i;" >"insert_$method.sql"
    echo "\\set k random(0, $keys)
        SELECT * FROM beside_$method WHERE k = :k;" >"search_$method.sql"
done

# Print the three percentiles of one round. A look-up's time does not count what it waited to begin.
one_round() { # METHOD VACUUM
    local method=$1 vacuum=$2 inserts vacuums=''
    pgbench -n -R 200 -T $((seconds + 2)) -f "insert_$method.sql" >/dev/null 2>&1 &
    inserts=$!
    sleep 1
    if [ "$vacuum" = vacuum ]; then
        while kill -0 "$inserts" 2>/dev/null; do psql -Xq -c "VACUUM beside_$method"; done &
        vacuums=$!
    fi
    rm -f searches.*
    pgbench -n -M prepared -R 300 -T "$seconds" -l --log-prefix=searches \
        -f "search_$method.sql" >/dev/null 2>&1
    wait "$inserts"
    [ -z "$vacuums" ] || wait "$vacuums"
    awk '{print $3 - $7}' searches.* | sort -n | awk '{v[NR] = $1} END {
        print v[int(NR * 0.5)], v[int(NR * 0.95)], v[int(NR * 0.99)]}'
}

for round in $(seq "$rounds"); do
    for vacuum in none vacuum; do
        order="btree gpujoin"
        [ $((round % 2)) = 0 ] || order="gpujoin btree"
        for method in $order; do one_round "$method" "$vacuum" >>"$method-$vacuum"; done
    done
done

median_of() { # FILE COLUMN
    awk -v c="$2" '{print $c}' "$1" | sort -n |
        awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}
echo "| One key beside 20,000 new rows a second | btree, µs | gpujoin, µs | gpujoin / btree |"
echo "|---|--:|--:|--:|"
for vacuum in none vacuum; do
    column=0
    for name in median "95th percentile" "99th percentile"; do
        column=$((column + 1))
        btree=$(median_of "btree-$vacuum" "$column")
        gpujoin=$(median_of "gpujoin-$vacuum" "$column")
        [ "$vacuum" = none ] || name="$name, while \`VACUUM\` runs"
        awk -v n="$name" -v b="$btree" -v g="$gpujoin" \
            'BEGIN {printf "| %s | %d | %d | %.2f |\n", n, b, g, g / b}'
    done
done
