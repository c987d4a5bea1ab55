#!/usr/bin/env bash
# mikro-orm-safe-update.sh: a "safe" update of the schema drops indexes.
#
# Seen with @mikro-orm/postgresql 7.2.5, Node.js 20.20, PostgreSQL 15.20 (2026-11-28).
#
# The schema generator's option "safe" keeps tables and columns. Indexes that no entity declares are
# dropped all the same, whatever their access method: getUpdateSchemaSQL() writes DROP INDEX with
# "safe: true" as without. One that is declared by its name and columns, but has another access
# method, is dropped and made again as a btree. Statements are sorted here.
#
# Consequence: a gpujoin index is declared with an expression, which is the whole CREATE INDEX
# statement; an index of that name is then left alone.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
npm_packages @mikro-orm/core@7.2.5 @mikro-orm/postgresql@7.2.5 @mikro-orm/sql@7.2.5

cat > "$temp/seen.mjs" <<'JS'
import { MikroORM, EntitySchema } from '@mikro-orm/postgresql';

const properties = {
    id: { type: 'integer', primary: true, autoincrement: false },
    customer: { type: 'integer', nullable: true },
    amount: { type: 'decimal', columnType: 'numeric', nullable: true },
};

async function plan(indexes, safe) {
    const orm = await MikroORM.init({
        host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER,
        dbName: process.env.PGDATABASE,
        entities: [new EntitySchema({ name: 'Order', tableName: 'orders', properties, indexes })],
    });
    const statements = await orm.schema.getUpdateSchemaSQL({ wrap: false, safe });
    console.log(statements.trim().split('\n').sort().join('\n'));
    console.log('--');
    await orm.close(true);
}

await plan([], false);
await plan([], true);
await plan([{ name: 'orders_customer', properties: ['customer'] }], true);
await plan([{
    name: 'orders_customer',
    expression: 'create index orders_customer on orders using bloom (customer)',
}], true);
JS

expect "what MikroORM would execute" \
'drop index "orders_covering";
drop index "orders_customer";
--
drop index "orders_covering";
drop index "orders_customer";
--
create index "orders_customer" on "orders" ("customer");
drop index "orders_covering";
drop index "orders_customer";
--
drop index "orders_covering";
--' "$(cd "$temp" && node seen.mjs)"
