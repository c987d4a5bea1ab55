// Payload's database layer: in, a join field, a filter on a relationship and its count, pairs
// as or.
const { wanted, print, printOrders, printAccounts, printChildren } = require('./rows.js');

const number = (name) => ({ name, type: 'number' });
const text = (name) => ({ name, type: 'text' });
const collection = (slug, ...fields) => ({ slug, fields: [number('id'), ...fields],
    timestamps: false, lockDocuments: false });
const collections = [
    collection('customers', number('region'),
        { name: 'orders', type: 'join', collection: 'orders', on: 'customer' }),
    collection('orders', number('amount'),
        { name: 'customer', type: 'relationship', relationTo: 'customers' }),
    collection('accounts', text('uid'), text('code'), number('tenant_id'), number('number'),
        number('amount')),
];

(async () => {
    const { BasePayload, buildConfig } = await import(require.resolve('payload'));
    const { postgresAdapter } = await import(require.resolve('@payloadcms/db-postgres'));
    const payload = await new BasePayload().init({ disableOnInit: true, config: buildConfig({
        secret: 'none', telemetry: false, collections, typescript: { autoGenerate: false },
        logger: { options: { level: 'fatal' } },
        db: postgresAdapter({ push: false, disableCreateDatabase: true, pool: {
            host: process.env.PGHOST, user: process.env.PGUSER, database: 'clients' } }) }) });
    const find = async (name, where, more) => (await payload.db.find(
        { collection: name, where, limit: 0, pagination: false, ...more })).docs;
    const flat = (orders) => orders.map((o) => ({ ...o, customer_id: o.customer }));

    const ordersById = (ids) => find('orders', { id: { in: ids } });
    const customersWithOrders = async (where) => (await payload.find({ collection: 'customers',
        where, depth: 1, limit: 0, joins: { orders: { limit: 0 } } })).docs;
    const count = async (where) => console.log(
        (await payload.db.count({ collection: 'orders', where })).totalDocs);

    const steps = {
        in: async () => printOrders(flat(await ordersById(wanted.ids()))),
        join: async () => printChildren((await customersWithOrders(
            { and: [{ region: { equals: 7 } }, { id: { less_than_equal: 500 } }] }))
            .map((c) => ({ id: c.id, orders: c.orders.docs }))),
        filter: async () => print(await find('orders', { 'customer.region': { equals: 7 } }),
            'customer', 'id', 'amount'),
        count: () => count({ id: { in: wanted.ids() } }),
        relation: () => count({ 'customer.region': { equals: 7 } }),
        uuid: async () => printAccounts(await find('accounts', { uid: { in: wanted.uids() } })),
        code: async () => printAccounts(await find('accounts', { code: { in: wanted.codes() } })),
        pair: async () => printAccounts(await find('accounts', { or: wanted.pairs().map(
            ([t, n]) => ({ and: [{ tenant_id: { equals: t } }, { number: { equals: n } }] })) })),
    };
    await steps[process.argv[2]]();
    process.exit();
})();
