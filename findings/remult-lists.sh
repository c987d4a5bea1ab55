#!/usr/bin/env bash
# remult-lists.sh: a list is sent again for each thousand rows, and an excluding one as a chain of <>.
#
# Seen with remult 3.3.18, pg 8.23.1, Node.js 20.20, PostgreSQL 15.20 (2026-11-30).
#
# 1. The children of 600 parents are read by one IN list, in pages: ORDER BY id LIMIT 1000 OFFSET 0,
#    1000, 2000 and so on. Each statement has all ids, and the server sorts all rows for each.
# 2. { $ne: ids } is a condition for each id, "customer <> $1 and customer <> $2 ...". PostgreSQL
#    tests each of them for each row: a count over 200,000 rows with 501 ids takes 0.8
#    to 1.1 s, and with NOT IN, whose list is hashed, 31 to 41 ms.
#
# Consequence: with a gpujoin index, a chain is one set of excluded keys (that count: 5 to 22 ms).
# Without, write NOT IN in a raw filter.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
sql -c 'CREATE TABLE customers AS SELECT i AS id FROM generate_series(0, 599) i'
npm_packages remult@3.3.18 pg@8.23.1

cat >"$temp/seen.mjs" <<'JS'
import pg from 'pg';
import { Fields, Relations, describeEntity, remult, repo } from 'remult';
import { createPostgresDataProvider } from 'remult/postgres';

class Customer {}
class Order {}
const id = Fields.integer();
describeEntity(Customer, 'customers', { id, orders: Relations.toMany(() => Order, 'customer') });
describeEntity(Order, 'orders', { id, customer: Fields.integer() });

const sent = [];
const { query } = pg.Client.prototype;
pg.Client.prototype.query = function (text, values, ...rest) {
    if (/"orders"/.test(text)) sent.push([text.replace(/\s+/g, ' '), values.length]);
    return query.call(this, text, values, ...rest);
};
const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
remult.dataProvider = await createPostgresDataProvider(
    { configuration: { host, port: Number(port), user, database } });

const found = await repo(Customer).find({ include: { orders: true } });
console.log(found.reduce((n, parent) => n + parent.orders.length, 0), 'rows');
for (const [text, n] of sent.splice(0))
    console.log(n, 'ids', /limit.*/.exec(text)[0]);
await repo(Order).count({ customer: { $ne: [...Array(300).keys()] } });
for (const [text, n] of sent)
    console.log(n, 'ids,', text.split('<>').length - 1, 'times <>');
process.exit(0);
JS
expect "children of 600 parents, and a list of 300 excluded ids" \
'6000 rows
600 ids limit 1000 offset 0
600 ids limit 1000 offset 1000
600 ids limit 1000 offset 2000
600 ids limit 1000 offset 3000
600 ids limit 1000 offset 4000
600 ids limit 1000 offset 5000
600 ids limit 1000 offset 6000
300 ids, 300 times <>' "$(cd "$temp" && node seen.mjs)"
