// pg-promise: values are put into the text, as lists, arrays and rows of VALUES.
const pgp = require('pg-promise')();
const { wanted, printOrders, printAccounts } = require('./rows.js');

const db = pgp({ database: 'clients', host: process.env.PGHOST });
const accounts = 'SELECT number, amount FROM accounts';

const ordersById = (ids) => db.any('SELECT * FROM orders WHERE id IN ($1:csv)', [ids]);

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    any: async () => printOrders(
        await db.any('SELECT * FROM orders WHERE id = ANY($1)', [wanted.ids()])),
    uuid: async () => printAccounts(
        await db.any(`${accounts} WHERE uid = ANY($1::uuid[])`, [wanted.uids()])),
    code: async () => printAccounts(
        await db.any(`${accounts} WHERE code IN ($1:csv)`, [wanted.codes()])),
    async pair() {
        const pairs = wanted.pairs().map(([tenant, number]) => ({ tenant, number }));
        printAccounts(await db.any(`${accounts} WHERE (tenant_id, number) IN (${
            pgp.helpers.values(pairs, ['tenant', 'number'])})`));
    },
};

steps[process.argv[2]]().finally(() => pgp.end());
