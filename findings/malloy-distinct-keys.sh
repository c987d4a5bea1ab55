#!/usr/bin/env bash
# malloy-distinct-keys.sh: counting the children of some parents reads the whole table of children.
#
# Seen with @malloydata/malloy and @malloydata/db-postgres 0.0.431, antlr4ts 0.5.0-alpha.4,
# Node.js 20.20, PostgreSQL 15.20 (2026-11-29).
#
# Of a source that another one joins by join_many, and that declares no primary_key, Malloy makes a
# subquery in which each row gets a key from gen_random_uuid(), and counts the different keys. The
# function is volatile, so PostgreSQL cannot join the table itself: an index on the foreign key is
# of no use, and for two parents of 2,000 all 100,000 children are read. With primary_key in the
# joined source there is no subquery, and the index is used.
#
# Consequence: declare the primary_key of joined sources, with gpujoin, too.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
sql -f - <<'SQL'
CREATE TABLE customers (id int PRIMARY KEY, region int NOT NULL);
INSERT INTO customers SELECT i, i / 2 FROM generate_series(1, 2000) i;
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL);
INSERT INTO orders SELECT i, 1 + i % 2000 FROM generate_series(1, 100000) i;
CREATE INDEX ON orders (customer);
VACUUM ANALYZE customers, orders;
SQL
npm_packages @malloydata/malloy@0.0.431 @malloydata/db-postgres@0.0.431 antlr4ts@0.5.0-alpha.4

cat > "$temp/count.js" <<'JS'
const { Runtime } = require('@malloydata/malloy');
const { PostgresConnection } = require('@malloydata/db-postgres');
const { PGHOST: host, PGPORT: port, PGUSER: username, PGDATABASE: databaseName } = process.env;
const connection = new PostgresConnection('pg', {}, { host, port: Number(port), username,
    databaseName });
const runtime = new Runtime({ connection, urlReader: { readURL: async () => '' } });
const query = runtime.loadQuery(`
source: orders is pg.table('public.orders') extend { ${process.argv[2] || ''} }
run: pg.table('public.customers') extend {
    primary_key: id
    join_many: orders on id = orders.customer
} -> { where: region = 7 group_by: id aggregate: n is orders.count() }`);
(async () => {
    const sql = await query.getSQL();
    console.log(JSON.stringify((await query.run()).data.value), /GEN_RANDOM_UUID/i.test(sql));
    require('fs').writeFileSync('sent.sql', 'EXPLAIN (COSTS OFF) ' + sql);
    await connection.close();
})();
JS
# count [DECLARATION]: the answer, whether the statement makes keys, and how orders are read
count() {
    (cd "$temp" && node count.js "$@") || die "the client fails"
    sql -f "$temp/sent.sql" | sed -n 's/^[ >-]*\(.*Scan .*on orders\)/\1/p'
}
expect "without a primary key" '[{"id":14,"n":50},{"id":15,"n":50}] true
Seq Scan on orders x' "$(count)"
expect "with primary_key: id" '[{"id":14,"n":50},{"id":15,"n":50}] false
Index Only Scan using orders_customer_idx on orders orders_0' "$(count 'primary_key: id')"
