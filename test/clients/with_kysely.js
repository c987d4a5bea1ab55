// Kysely: where in, pairs as tuples, = ANY with a value, children as a correlated json_agg.
const { Pool } = require('pg');
const { Kysely, PostgresDialect } = require('kysely');
const { jsonArrayFrom } = require('kysely/helpers/postgres');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

const pool = new Pool({ database: 'clients' });
const db = new Kysely({ dialect: new PostgresDialect({ pool }) });
const accountsWhere = (column, values) => db.selectFrom('accounts')
    .select(['number', 'amount']).where(column, 'in', values).execute();

const ordersById = (ids) => db.selectFrom('orders').selectAll().where('id', 'in', ids).execute();
const customersWithOrders = (region, last) => db.selectFrom('customers as c')
    .select((eb) => ['c.id', jsonArrayFrom(eb.selectFrom('orders as o')
        .select(['o.id', 'o.amount']).whereRef('o.customer_id', '=', 'c.id')).as('orders')])
    .where('c.region', '=', region).where('c.id', '<=', last).execute();

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    any: async () => printOrders(await db.selectFrom('orders').selectAll()
        .where((eb) => eb('id', '=', eb.fn.any(eb.val(wanted.ids())))).execute()),
    json: async () => printChildren(await customersWithOrders(7, 500)),
    uuid: async () => printAccounts(await accountsWhere('uid', wanted.uids())),
    code: async () => printAccounts(await accountsWhere('code', wanted.codes())),
    pair: async () => printAccounts(await db.selectFrom('accounts').select(['number', 'amount'])
        .where((eb) => eb(eb.refTuple('tenant_id', 'number'), 'in',
            wanted.pairs().map(([t, n]) => eb.tuple(t, n)))).execute()),
};

steps[process.argv[2]]().finally(() => db.destroy());
