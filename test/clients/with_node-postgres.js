// node-postgres: arrays as parameters; a named statement is prepared once and kept.
const fs = require('fs');
const { Client } = require('pg');

const numbers = (file) => fs.readFileSync(file, 'utf8').trim().split('\n').map(Number);
const select = 'SELECT o.id, o.customer_id, o.amount FROM orders o ';
const queries = {
    any: { text: select + 'WHERE o.id = ANY($1)' },
    repeat: {
        name: 'children', file: process.env.CUSTOMERS,
        text: 'SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY($1)' },
    repeat_id: { name: 'wanted', text: select + 'WHERE o.id = ANY($1::bigint[])' },
    unnest: { text: select + 'JOIN unnest($1::bigint[]) AS wanted(id) ON o.id = wanted.id' },
};

(async () => {
    const { name, text, file } = queries[process.argv[2]];
    const values = [numbers(file || process.env.IDS)];
    const client = new Client({ database: 'clients' });
    let result;
    await client.connect();
    for (let i = name ? 8 : 1; i > 0; i--) {
        result = await client.query({ name, text, values, rowMode: 'array' });
    }
    for (const row of result.rows) {
        console.log(row.join('|'));
    }
    await client.end();
})();
