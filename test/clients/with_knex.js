// Knex: whereIn with a list and with a query.
const fs = require('fs');
const knex = require('knex')({ client: 'pg', connection: { database: 'clients' } });

const ordersById = (ids) => knex('orders').whereIn('id', ids);
const ordersOfRegion = (region) => knex('orders')
    .whereIn('customer_id', knex('customers').select('id').where({ region }));

const line = (...values) => console.log(values.join('|'));

const steps = {
    async in() {
        const ids = fs.readFileSync(process.env.IDS, 'utf8').trim().split('\n').map(Number);
        for (const o of await ordersById(ids)) {
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
        for (const o of await ordersOfRegion(7)) {
            line(o.customer_id, o.id, o.amount);
        }
    },
};

steps[process.argv[2]]().finally(() => knex.destroy());
