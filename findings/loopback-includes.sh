#!/usr/bin/env bash
# loopback-includes.sh: the children of many parents are read by lists of 256 ids, and one parent at
# a time as soon as there is a limit.
#
# Seen with loopback-datasource-juggler 6.0.6, loopback-connector-postgresql 8.0.7, pg 8.23.1,
# Node.js 20.20, PostgreSQL 15.20 (2026-11-30).
#
# An included relation of 600 parents takes three statements, with 256, 256 and 88 ids. The data
# source's setting inqLimit is the length of a list, so that 1,000 makes it one statement. With a
# limit in the relation's scope, 600 statements are sent, one for each parent.
#
# Consequence: set inqLimit. For a few rows of each parent, send a LATERAL join.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
sql -c 'CREATE TABLE customers AS SELECT i AS id FROM generate_series(0, 599) i'
npm_packages loopback-datasource-juggler@6.0.6 loopback-connector-postgresql@8.0.7 pg@8.23.1

cat >"$temp/seen.js" <<'JS'
const { Client } = require('pg');
const { DataSource } = require('loopback-datasource-juggler');
const sent = [];
const { query } = Client.prototype;
Client.prototype.query = function (text, values, ...rest) {
    if (/"orders"/.test(text)) sent.push(values.length);
    return query.call(this, text, values, ...rest);
};

async function count(scope, settings = {}) {
    const db = new DataSource('db', { connector: require('loopback-connector-postgresql'),
        host: process.env.PGHOST, port: process.env.PGPORT, user: process.env.PGUSER,
        database: process.env.PGDATABASE, ...settings });
    const id = { type: Number, id: true };
    const Customer = db.define('Customer', { id }, { postgresql: { table: 'customers' } });
    const Order = db.define('Order', { id, customer: Number },
        { postgresql: { table: 'orders' } });
    Customer.hasMany(Order, { as: 'orders', foreignKey: 'customer' });
    const found = await Customer.find({ include: { relation: 'orders', scope } });
    const children = found.reduce((n, parent) => n + parent.toJSON().orders.length, 0);
    await db.disconnect();
    const lists = sent.splice(0);
    return `${children} rows by ` +
        (lists.length > 9 ? `${lists.length} statements` : `lists of ${lists}`);
}

(async () => {
    console.log(await count({}));
    console.log(await count({}, { inqLimit: 1000 }));
    console.log(await count({ limit: 2 }));
})();
JS
expect "an included relation: as is, with inqLimit, with a limit in its scope" \
'6000 rows by lists of 256,256,88
6000 rows by lists of 600
1200 rows by 600 statements' "$(cd "$temp" && node --no-deprecation seen.js)"
