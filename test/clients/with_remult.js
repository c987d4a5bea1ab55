// remult: a list as a value, pairs by $or; a relation by one list, whose rows come in pages of
// 1,000; $ne with a list, which is a chain of <>.
const { Fields, Relations, describeEntity, remult, repo } = require('remult');
const { createPostgresDataProvider } = require('remult/postgres');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

class Order {}
class Customer {}
class Account {}
const number = Fields.integer();
describeEntity(Order, 'orders', { id: number, customer_id: number, amount: number });
describeEntity(Customer, 'customers', { id: number, region: number,
    orders: Relations.toMany(() => Order, 'customer_id') });
describeEntity(Account, 'accounts', { uid: Fields.uuid(), code: Fields.string(),
    tenant_id: number, number, amount: number }, { id: 'uid' });

const ordersById = (ids) => repo(Order).find({ where: { id: ids } });
const customersWithOrders = (region) => repo(Customer).find({
    where: { region }, include: { orders: true } });

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    include: async () => printChildren(await customersWithOrders(7)),
    ne: async () => console.log(
        await repo(Order).count({ customer_id: { $ne: wanted.customers() } })),
    uuid: async () => printAccounts(await repo(Account).find({ where: { uid: wanted.uids() } })),
    code: async () => printAccounts(await repo(Account).find({ where: { code: wanted.codes() } })),
    pair: async () => printAccounts(await repo(Account).find({ where: { $or: wanted.pairs().map(
        ([tenant_id, n]) => ({ tenant_id, number: n })) } })),
};

(async () => {
    remult.dataProvider = await createPostgresDataProvider(
        { configuration: { database: 'clients' } });
    await steps[process.argv[2]]();
    process.exit(0);
})();
