#!/usr/bin/env bash
# postgres-js-prepared-lists.sh: each length of a list leaves a prepared statement on the server.
#
# Seen with postgres 3.4.9, Node.js 20.20, PostgreSQL 15.20 (2026-11-28).
#
# Each text of a statement is prepared by a name, and kept as long as the connection. A list, as in
# IN ${sql(ids)}, has a parameter for each element; so lists of 200 different lengths are 200
# prepared statements, each with its plan. An array, = ANY (${ids}), is one for all lengths.
#
# Consequence: use the array, or { prepare: false }.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
npm_packages postgres@3.4.9

cat >"$temp/seen.js" <<'JS'
const postgres = require('postgres');

async function prepared(select) {
    const sql = postgres({ max: 1 });
    for (let n = 1; n <= 200; n++)
        await select(sql, Array.from({ length: n }, (_, i) => i));
    const [{ count }] = await sql`SELECT count(*) FROM pg_prepared_statements
        WHERE statement LIKE 'SELECT * FROM orders%'`;
    await sql.end();
    return count;
}

(async () => {
    console.log(await prepared((sql, ids) => sql`SELECT * FROM orders WHERE id IN ${sql(ids)}`));
    console.log(await prepared((sql, ids) => sql`SELECT * FROM orders WHERE id = ANY (${ids})`));
})();
JS
expect "prepared statements of 200 lists: IN, ANY" '200
1' "$(cd "$temp" && node seen.js)"
