#!/usr/bin/env bash
# drizzle-kit-pull-include.sh: "pull" makes key columns of the columns of INCLUDE.
#
# Seen with drizzle-kit 0.31.11, drizzle-orm 0.45.4, Node.js 20.20, PostgreSQL 15.20 (2026-11-28).
#
# 1. The columns of INCLUDE become key columns, with the operator class of the first key column,
#    also where that class is of another type (int4_ops for a numeric column).
# 2. In the file each column has an order and an operator class by name, whatever the access
#    method; the statements have the class only.
# 3. "push" drops the indexes that the schema file lacks.
#
# Consequence: after "pull", leave the key column alone in a gpujoin index of the file, as in
# index("orders_customer").using("gpujoin", table.customer), or push drops it; the index with its
# columns of INCLUDE is made by SQL.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
npm_packages drizzle-kit@0.31.11 drizzle-orm@0.45.4 pg@8.23.1

cat > "$temp/drizzle.config.js" <<'JS'
module.exports = {
    dialect: 'postgresql', schema: './schema.js', out: './out',
    dbCredentials: {
        host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER,
        password: 'none', database: process.env.PGDATABASE, ssl: false,
    },
};
JS
cat > "$temp/schema.js" <<'JS'
const { pgTable, integer, numeric } = require('drizzle-orm/pg-core');
exports.orders = pgTable('orders', {
    id: integer().primaryKey(), customer: integer(), amount: numeric(),
});
JS

cd "$temp" || exit
npx drizzle-kit pull >/dev/null 2>&1
expect "the indexes of the schema file" \
'index("orders_covering").using("btree", table.customer.asc().nullsLast().op("int4_ops"), table.amount.asc().nullsLast().op("int4_ops")),
index("orders_customer").using("bloom", table.customer.asc().nullsLast().op("int4_ops")),' \
    "$(sed -n 's/^[[:space:]]*\(index(.*\)/\1/p' out/schema.ts)"

sql -c 'DROP INDEX orders_covering, orders_customer'
sed -n 's/^\(CREATE INDEX .*;\).*/\1/p' out/*.sql > indexes.sql
expect "the statements" \
'CREATE INDEX "orders_covering" ON "orders" USING btree ("customer" int4_ops,"amount" int4_ops);
CREATE INDEX "orders_customer" ON "orders" USING bloom ("customer" int4_ops);' \
    "$(sed 's/;-->.*/;/' indexes.sql)"
expect "what PostgreSQL says of the first" \
    'ERROR:  operator class "int4_ops" does not accept data type numeric' \
    "$(sed -n 1p indexes.sql | sql 2>&1 | sed -n 's/.*\(ERROR: .*\)/\1/p' || true)"

sql -c 'CREATE INDEX orders_customer ON orders USING bloom (customer)'
npx drizzle-kit push --force >/dev/null 2>&1
expect "the indexes that are left after a push" orders_pkey \
    "$(sql -c "SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'orders'::regclass")"
