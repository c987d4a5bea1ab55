// PostGraphile 5: objects by a list of ids, uuids, texts or pairs, which is one JSON value for a
// named statement; parents with their children, as arrays of text.
// Promise.withResolvers is in Node.js from 22 on.
Promise.withResolvers ??= () => {
    const all = {};
    all.promise = new Promise((resolve, reject) => Object.assign(all, { resolve, reject }));
    return all;
};
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');
const { makeSchema } = require('postgraphile');
const { PostGraphileAmberPreset } = require('postgraphile/presets/amber');
const { makePgService } = require('postgraphile/adaptors/pg');
const { each, get, grafast } = require('postgraphile/grafast');
const { extendSchema } = require('postgraphile/utils');

const ByIds = extendSchema((build) => {
    const { customers, orders, accounts } = build.pgResources;
    return {
        typeDefs: `
            input Pair { tenant: Int!, number: Int! }
            extend type Query {
                customersById(ids: [Int!]!): [Customer]
                ordersById(ids: [BigInt!]!): [Order]
                accountsByUid(uids: [UUID!]!): [Account]
                accountsByCode(codes: [String!]!): [Account]
                accountsByPair(pairs: [Pair!]!): [Account]
            }`,
        objects: { Query: { plans: {
            customersById: (_, { $ids }) => each($ids, ($id) => customers.get({ id: $id })),
            ordersById: (_, { $ids }) => each($ids, ($id) => orders.get({ id: $id })),
            accountsByUid: (_, { $uids }) => each($uids, ($uid) => accounts.get({ uid: $uid })),
            accountsByCode: (_, { $codes }) =>
                each($codes, ($code) => accounts.get({ code: $code })),
            accountsByPair: (_, { $pairs }) => each($pairs, ($pair) => accounts.get({
                tenant_id: get($pair, 'tenant'), number: get($pair, 'number') })),
        } } },
    };
});

const ordersById = 'query ($ids: [BigInt!]!) { rows: ordersById(ids: $ids) '
    + '{ id: rowId customer_id: customerId amount } }';
const customersWithOrders = `query ($ids: [Int!]!) { rows: customersById(ids: $ids) {
    id: rowId orders: ordersByCustomerId { nodes { id: rowId amount } } } }`;
const accountsBy = (argument, type) => `query ($keys: [${type}!]!) {
    rows: accountsBy${argument[0].toUpperCase()}${argument.slice(1, -1)}(${argument}: $keys) {
        number amount } }`;

(async () => {
    const pgService = makePgService({ schemas: ['public'], poolConfig: {
        host: process.env.PGHOST, user: process.env.PGUSER, database: 'clients' } });
    const { schema, resolvedPreset } = await makeSchema({
        extends: [PostGraphileAmberPreset], plugins: [ByIds], pgServices: [pgService] });
    const ask = async (source, variableValues) => {
        const { data, errors } = await grafast(
            { schema, source, variableValues, resolvedPreset, requestContext: {} });
        if (errors) {
            throw errors[0];
        }
        return data;
    };

    const steps = {
        async get() {
            const ids = wanted.ids();
            let rows;
            for (let i = 0; i < 8; i++) {
                rows = (await ask(ordersById, { ids })).rows;
            }
            printOrders(rows);
        },
        children: async () => printChildren((await ask(customersWithOrders,
            { ids: wanted.customers().filter((id) => id <= 500) })).rows
            .map((c) => ({ id: c.id, orders: c.orders.nodes }))),
        uuid: async () => printAccounts(
            (await ask(accountsBy('uids', 'UUID'), { keys: wanted.uids() })).rows),
        code: async () => printAccounts(
            (await ask(accountsBy('codes', 'String'), { keys: wanted.codes() })).rows),
        pair: async () => printAccounts((await ask(accountsBy('pairs', 'Pair'), {
            keys: wanted.pairs().map(([tenant, number]) => ({ tenant, number })) })).rows),
    };
    await steps[process.argv[2]]();
    await pgService.release();
})();
