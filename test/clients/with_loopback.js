// LoopBack: inq with a list, pairs by or of and; an included relation, by lists of 256 ids.
const { DataSource } = require('loopback-datasource-juggler');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

const db = new DataSource('db', { connector: require('loopback-connector-postgresql'),
    host: process.env.PGHOST, port: process.env.PGPORT, user: process.env.PGUSER,
    database: 'clients' });
const id = { type: Number, id: true };
const of = (table) => ({ postgresql: { table }, forceId: false });
const Order = db.define('Order', { id, customer_id: Number, amount: Number }, of('orders'));
const Customer = db.define('Customer', { id, region: Number }, of('customers'));
const Account = db.define('Account', {
    uid: { type: String, id: true, postgresql: { dataType: 'uuid' } }, code: String,
    tenant_id: Number, number: Number, amount: Number }, of('accounts'));
Customer.hasMany(Order, { as: 'orders', foreignKey: 'customer_id' });

const ordersById = (ids) => Order.find({ where: { id: { inq: ids } } });
const customersWithOrders = (region) => Customer.find({ where: { region }, include: 'orders' });

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    include: async () => printChildren((await customersWithOrders(7)).map((c) => c.toJSON())),
    uuid: async () => printAccounts(await Account.find({ where: { uid: { inq: wanted.uids() } } })),
    code: async () => printAccounts(
        await Account.find({ where: { code: { inq: wanted.codes() } } })),
    pair: async () => printAccounts(await Account.find({ where: { or: wanted.pairs().map(
        ([tenant_id, number]) => ({ and: [{ tenant_id }, { number }] })) } })),
};

steps[process.argv[2]]().finally(() => db.disconnect());
