// Knex: whereIn with a list and with a query.
const fs = require('fs');
const knex = require('knex')({ client: 'pg', connection: { database: 'clients' } });

const line = (...values) => console.log(values.join('|'));

const steps = {
    async in() {
        const ids = fs.readFileSync(process.env.IDS, 'utf8').trim().split('\n').map(Number);
        for (const o of await knex('orders').whereIn('id', ids)) {
            line(o.id, o.customer_id, o.amount);
        }
    },
    async eager() {
        const customers = await knex('customers').where({ region: 7 });
        const orders = await knex('orders').whereIn('customer_id', customers.map((c) => c.id));
        for (const o of orders) {
            line(o.customer_id, o.id, o.amount);
        }
    },
    async subquery() {
        const chosen = knex('customers').select('id').where({ region: 7 });
        for (const o of await knex('orders').whereIn('customer_id', chosen)) {
            line(o.customer_id, o.id, o.amount);
        }
    },
};

steps[process.argv[2]]().finally(() => knex.destroy());
