// Strapi's database layer: $in, a relation that is populated through its link table, a filter on
// a relation, pairs as $or.
const { Database } = require('@strapi/database');
const { wanted, print, printOrders, printAccounts, printChildren } = require('./rows.js');

// Strapi changes what it is given, so nothing is shared.
const model = (name, attributes) => ({ uid: name, tableName: name + 's', singularName: name,
    attributes: Object.fromEntries(Object.entries({ id: 'increments', ...attributes }).map(
        ([key, type]) => [key, typeof type === 'string' ? { type } : type])) });
const relation = (kind, target, inverse) => ({
    type: 'relation', relation: kind, target, ...inverse });
const models = [
    model('customer', { region: 'integer',
        orders: relation('oneToMany', 'order', { mappedBy: 'customer' }) }),
    model('order', { customer_id: 'integer', amount: 'integer',
        customer: relation('manyToOne', 'customer', { inversedBy: 'orders' }) }),
    model('account', { uid: 'string', code: 'string', tenant_id: 'integer', number: 'integer',
        amount: 'integer' }),
];

(async () => {
    const db = new Database({ connection: { client: 'postgres', connection: {
        database: 'clients', user: process.env.PGUSER, host: process.env.PGHOST } },
        settings: { migrations: { dir: process.env.TMPDIR || '/tmp' } } });
    await db.init({ models });

    const ordersById = (ids) => db.query('order').findMany({ where: { id: { $in: ids } } });
    const customersWithOrders = (where) => db.query('customer')
        .findMany({ where, populate: { orders: true } });
    const accountsWhere = async (where) => printAccounts(
        await db.query('account').findMany({ where }));

    const steps = {
        in: async () => printOrders(await ordersById(wanted.ids())),
        populate: async () => printChildren(await customersWithOrders({ region: 7 })),
        filter: async () => print(await db.query('order')
            .findMany({ where: { customer: { region: 7 } } }), 'customer_id', 'id', 'amount'),
        uuid: () => accountsWhere({ uid: { $in: wanted.uids() } }),
        code: () => accountsWhere({ code: { $in: wanted.codes() } }),
        pair: () => accountsWhere({ $or: wanted.pairs()
            .map(([tenant_id, number]) => ({ tenant_id, number })) }),
    };
    await steps[process.argv[2]]();
    await db.destroy();
})();
