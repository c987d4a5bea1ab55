// node-postgres: arrays as parameters; a named statement is prepared once and kept.
const fs = require('fs');
const { Client } = require('pg');

const numbers = (file) => fs.readFileSync(file, 'utf8').trim().split('\n').map(Number);
const select = 'SELECT o.id, o.customer_id, o.amount FROM orders o ';
const queries = {
    repeat: {
        name: 'children', file: process.env.CUSTOMERS,
        text: 'SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY($1)' },
    repeat_id: { name: 'wanted', text: select + 'WHERE o.id = ANY($1::bigint[])' },
    unnest: { text: select + 'JOIN unnest($1::bigint[]) AS wanted(id) ON o.id = wanted.id' },
};

async function ordersById(client, ids) {
    const result = await client.query('SELECT * FROM orders WHERE id = ANY($1)', [ids]);
    return result.rows;
}

async function ask(client, step) {
    const { name, text, file } = queries[step];
    const values = [numbers(file || process.env.IDS)];
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
