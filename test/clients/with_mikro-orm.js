// MikroORM: lists of keys, pairs, and relations loaded by a query of their own or by a join.
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

const ordersById = (em, ids) => em.find('Order', { id: ids });
const customersWithOrders = (em, region, strategy) =>
    em.find('Customer', { region }, { populate: ['orders'], strategy });

const printOrdersOf = (customers) => printChildren(
    customers.map((c) => ({ id: c.id, orders: c.orders.getItems() })));
const flat = (orders) => orders.map(
    (o) => ({ id: o.id, customer_id: o.customer.id, amount: o.amount }));

const steps = {
    in: async (em) => printOrders(flat(await ordersById(em, wanted.ids()))),
    select: async (em) => printOrdersOf(await customersWithOrders(em, 7, 'select-in')),
    joined: async (em) => printOrdersOf(await customersWithOrders(em, 7, 'joined')),
    uuid: async (em) => printAccounts(await em.find('Account', { uid: wanted.uids() })),
    code: async (em) => printAccounts(await em.find('Account', { code: wanted.codes() })),
    pair: async (em) => printAccounts(await em.find('Account', { $or: wanted.pairs()
        .map(([tenant_id, number]) => ({ tenant_id, number })) })),
};

(async () => {
    const { EntitySchema, MikroORM } = await import(
        require.resolve('@mikro-orm/postgresql'));
    const number = { type: 'integer' };
    const Customer = new EntitySchema({ name: 'Customer', tableName: 'customers', properties: {
        id: { type: 'integer', primary: true }, region: number,
        orders: { kind: '1:m', entity: () => 'Order', mappedBy: 'customer' } } });
    const Order = new EntitySchema({ name: 'Order', tableName: 'orders', properties: {
        id: { type: 'bigint', primary: true }, amount: number,
        customer: { kind: 'm:1', entity: () => 'Customer', fieldName: 'customer_id' } } });
    const Account = new EntitySchema({ name: 'Account', tableName: 'accounts', properties: {
        uid: { type: 'uuid', primary: true }, code: { type: 'text' },
        tenant_id: number, number, amount: number } });
    const orm = await MikroORM.init({
        dbName: 'clients', host: '127.0.0.1', port: Number(process.env.PGPORT),
        user: process.env.PGUSER, password: process.env.PGPASSWORD,
        entities: [Customer, Order, Account] });
    await steps[process.argv[2]](orm.em.fork());
    await orm.close();
})();
