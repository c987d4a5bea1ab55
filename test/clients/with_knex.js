// Knex: whereIn with a list, with a query, and with pairs.
const fs = require('fs');
const knex = require('knex')({ client: 'pg', connection: { database: 'clients' } });

const ordersById = (ids) => knex('orders').whereIn('id', ids);
const ordersOfRegion = (region) => knex('orders')
    .whereIn('customer_id', knex('customers').select('id').where({ region }));

const accountsByPair = (pairs) => knex('accounts').whereIn(['tenant_id', 'number'], pairs);

const lines = (name) => fs.readFileSync(process.env[name], 'utf8').trim().split('\n');
const line = (...values) => console.log(values.join('|'));
const printAccounts = (accounts) => accounts.forEach((a) => line(a.number, a.amount));

const steps = {
    async in() {
        for (const o of await ordersById(lines('IDS').map(Number))) {
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
    async uuid() {
        printAccounts(await knex('accounts').whereIn('uid', lines('UIDS')));
    },
    async code() {
        printAccounts(await knex('accounts').whereIn('code', lines('CODES')));
    },
    async pair() {
        printAccounts(await accountsByPair(
            lines('PAIRS').map((pair) => pair.split(' ').map(Number))));
    },
};

steps[process.argv[2]]().finally(() => knex.destroy());
