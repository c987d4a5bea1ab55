// Zero: ZQL, compiled to PostgreSQL's SQL as in its mutators on the server: IN is a JSON list, and
// numbers are sent as double precision. Fewer ids and pairs, because stock PostgreSQL compares
// each with each row.
const { Pool } = require('pg');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

(async () => {
    const { createBuilder, createSchema, number, relationships, string, table } =
        await import(require.resolve('@rocicorp/zero'));
    const { zeroNodePg } = await import(require.resolve('@rocicorp/zero/server/adapters/pg'));
    const customers = table('customers').columns({ id: number(), region: number() })
        .primaryKey('id');
    const orders = table('orders')
        .columns({ id: number(), customer_id: number(), amount: number() }).primaryKey('id');
    const accounts = table('accounts').columns({ uid: string(), code: string(),
        tenant_id: number(), number: number(), amount: number() }).primaryKey('uid');
    const schema = createSchema({
        tables: [customers, orders, accounts],
        relationships: [relationships(customers, ({ many }) => ({ orders: many({
            sourceField: ['id'], destField: ['customer_id'], destSchema: orders }) }))] });
    const zql = createBuilder(schema);
    const pool = new Pool({ database: 'clients' });
    const db = zeroNodePg(schema, pool);

    const ordersById = (ids) => db.run(zql.orders.where('id', 'IN', ids));
    const customersWithOrders = (region, last) => db.run(zql.customers
        .where('region', region).where('id', '<=', last).related('orders'));

    const steps = {
        in: async () => printOrders(await ordersById(wanted.ids().filter((id) => id <= 25000))),
        related: async () => printChildren(await customersWithOrders(7, 500)),
        uuid: async () => printAccounts(
            await db.run(zql.accounts.where('uid', 'IN', wanted.uids()))),
        code: async () => printAccounts(
            await db.run(zql.accounts.where('code', 'IN', wanted.codes()))),
        pair: async () => printAccounts(await db.run(zql.accounts
            .where(({ and, cmp, or }) => or(...wanted.pairs()
                .filter(([, number]) => number <= 50000)
                .map(([t, n]) => and(cmp('tenant_id', t), cmp('number', n))))))),
    };
    await steps[process.argv[2]]();
    await pool.end();
})();
