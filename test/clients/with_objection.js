// Objection: findByIds, pairs, relations loaded by a query of their own or by a join.
const { Model } = require('objection');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');
const knex = require('knex')({ client: 'pg', connection: { database: 'clients' } });

Model.knex(knex);

class Order extends Model {
    static tableName = 'orders';
}
class Customer extends Model {
    static tableName = 'customers';
    static relationMappings = { orders: { relation: Model.HasManyRelation, modelClass: Order,
        join: { from: 'customers.id', to: 'orders.customer_id' } } };
}
class Account extends Model {
    static tableName = 'accounts';
    static idColumn = ['tenant_id', 'number'];
}

const ordersById = (ids) => Order.query().findByIds(ids);
const customersWithOrders = (region) => Customer.query().where({ region })
    .withGraphFetched('orders');

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    graph: async () => printChildren(await customersWithOrders(7)),
    joined: async () => printChildren(
        await Customer.query().where({ region: 7 }).withGraphJoined('orders')),
    uuid: async () => printAccounts(await Account.query().whereIn('uid', wanted.uids())),
    code: async () => printAccounts(await Account.query().whereIn('code', wanted.codes())),
    pair: async () => printAccounts(await Account.query().findByIds(wanted.pairs())),
};

steps[process.argv[2]]().finally(() => knex.destroy());
