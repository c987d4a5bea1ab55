// Waterline, the ORM of Sails: a list as a value, pairs by or, populate by a query of its own.
const Waterline = require('waterline');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

const url = `postgresql://${process.env.PGUSER}:${process.env.PGPASSWORD ?? ''}@127.0.0.1:${
    process.env.PGPORT}/clients`;
const number = () => ({ type: 'number', required: true });
const models = {
    orders: { id: number(), amount: number(), customer_id: { model: 'customers' } },
    customers: { id: number(), region: number(),
        orders: { collection: 'orders', via: 'customer_id' } },
    accounts: { uid: { type: 'string', required: true }, code: { type: 'string' },
        tenant_id: number(), number: number(), amount: number() },
};
const waterline = new Waterline();
for (const [identity, attributes] of Object.entries(models))
    waterline.registerModel(Waterline.Collection.extend({ identity, attributes, schema: true,
        datastore: 'db', primaryKey: identity === 'accounts' ? 'uid' : 'id' }));

const accountsWhere = (db, where) => db.accounts.find(where);
const ordersById = (db, ids) => db.orders.find({ id: ids });
const customersWithOrders = (db, region) => db.customers.find({ region }).populate('orders');

const steps = {
    in: async (db) => printOrders(await ordersById(db, wanted.ids())),
    populate: async (db) => printChildren(await customersWithOrders(db, 7)),
    uuid: async (db) => printAccounts(await accountsWhere(db, { uid: wanted.uids() })),
    code: async (db) => printAccounts(await accountsWhere(db, { code: wanted.codes() })),
    pair: async (db) => printAccounts(await accountsWhere(db, { or: wanted.pairs().map(
        ([tenant_id, n]) => ({ tenant_id, number: n })) })),
};

waterline.initialize({ adapters: { pg: require('sails-postgresql') },
    datastores: { db: { adapter: 'pg', url } }, defaults: { migrate: 'safe' } },
async (err, orm) => {
    if (err) throw err;
    await steps[process.argv[2]](orm.collections);
    process.exit(0);
});
