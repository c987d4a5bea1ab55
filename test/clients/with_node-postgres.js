// node-postgres: arrays as parameters; a named statement is prepared once and kept.
const fs = require('fs');
const { Client } = require('pg');

const lines = (file) => fs.readFileSync(file, 'utf8').trim().split('\n');
const numbers = (file) => lines(file).map(Number);
const columns = (file) => lines(file).map((line) => line.split(' ').map(Number))
    .reduce((all, pair) => (pair.forEach((value, i) => all[i].push(value)), all), [[], []]);
const select = 'SELECT o.id, o.customer_id, o.amount FROM orders o ';
const queries = {
    repeat: {
        name: 'children', file: process.env.CUSTOMERS,
        text: 'SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY($1)' },
    repeat_id: { name: 'wanted', text: select + 'WHERE o.id = ANY($1::bigint[])' },
    unnest: { text: select + 'JOIN unnest($1::bigint[]) AS wanted(id) ON o.id = wanted.id' },
    uuid: {
        values: () => [lines(process.env.UIDS)],
        text: 'SELECT number, amount FROM accounts WHERE uid = ANY($1)' },
    code: {
        values: () => [lines(process.env.CODES)],
        text: 'SELECT number, amount FROM accounts WHERE code = ANY($1)' },
    pair: {
        values: () => columns(process.env.PAIRS),
        text: 'SELECT number, amount FROM accounts JOIN unnest($1::int[], $2::int[])'
            + ' AS wanted(tenant_id, number) USING (tenant_id, number)' },
};

async function ordersById(client, ids) {
    const result = await client.query('SELECT * FROM orders WHERE id = ANY($1)', [ids]);
    return result.rows;
}

async function ask(client, step) {
    const { name, text, file, values: read } = queries[step];
    const values = read ? read() : [numbers(file || process.env.IDS)];
    let result;
    for (let i = name ? 8 : 1; i > 0; i--) {
        result = await client.query({ name, text, values });
    }
    return result.rows;
}

(async () => {
    const step = process.argv[2];
    const client = new Client({ database: 'clients' });
    await client.connect();
    const rows = step === 'any' ? await ordersById(client, numbers(process.env.IDS))
        : await ask(client, step);
    for (const row of rows) {
        console.log(Object.values(row).join('|'));
    }
    await client.end();
})();
