#!/usr/bin/env bash
# typeorm-drops-indexes.sh: schema synchronization drops indexes, and replaces some by btrees.
#
# Seen with typeorm 1.1.1, pg 8.23.1, Node.js 20.20, PostgreSQL 15.20 (2026-11-28). The same
# builder makes what "synchronize: true" executes and what "migration:generate" writes.
#
# 1. Every index of an entity's table that no entity declares is dropped, whoever made it.
# 2. An index that is declared by its name is dropped, too, if its access method is another one:
#    it comes back as a btree. A "type" in the declaration that TypeORM does not know is ignored.
# 3. Only the name together with "synchronize: false" keeps the index.
#
# Consequence: a gpujoin index made by SQL needs { name, synchronize: false } in its entity. If it
# is declared in the usual way, the next generated migration silently makes it a btree.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
npm_packages typeorm@1.1.1 pg@8.23.1 reflect-metadata@0.2.2

cat > "$temp/seen.js" <<'JS'
require('reflect-metadata');
const { DataSource, EntitySchema } = require('typeorm');

const id = { type: 'int', primary: true, primaryKeyConstraintName: 'orders_pkey' };
const customer = { type: 'int', nullable: true };
const amount = { type: 'numeric', nullable: true };

async function plan(...indices) {
    const entity = new EntitySchema({
        name: 'Order', tableName: 'orders', columns: { id, customer, amount }, indices,
    });
    const source = await new DataSource({
        type: 'postgres', host: process.env.PGHOST, port: Number(process.env.PGPORT),
        username: process.env.PGUSER, database: process.env.PGDATABASE, entities: [entity],
    }).initialize();
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    upQueries.forEach(({ query }) => console.log(query.trim().replace(/\s+/g, ' ')));
    console.log('--');
    await source.destroy();
}

(async () => {
    const name = 'orders_customer';
    const columns = ['customer'];
    await plan();
    await plan({ name, columns });
    await plan({ name, columns, type: 'bloom' });
    await plan({ name, columns, synchronize: false });
})();
JS

expect "what TypeORM would execute" \
'DROP INDEX "public"."orders_customer"
DROP INDEX "public"."orders_covering"
--
DROP INDEX "public"."orders_customer"
DROP INDEX "public"."orders_covering"
CREATE INDEX "orders_customer" ON "orders" ("customer")
--
DROP INDEX "public"."orders_customer"
DROP INDEX "public"."orders_covering"
CREATE INDEX "orders_customer" ON "orders" ("customer")
--
DROP INDEX "public"."orders_covering"
--' "$(cd "$temp" && node seen.js)"
