// Drizzle: inArray, pairs as or(and()), a relational query (LATERAL with json_agg), a prepared one.
const { Client } = require('pg');
const { drizzle } = require('drizzle-orm/node-postgres');
const { and, eq, inArray, lte, or, relations, sql } = require('drizzle-orm');
const { bigint, integer, pgTable, text, uuid } = require('drizzle-orm/pg-core');
const { wanted, printOrders, printAccounts, printChildren } = require('./rows.js');

const customers = pgTable('customers', { id: integer().primaryKey(), region: integer() });
const orders = pgTable('orders', {
    id: bigint({ mode: 'number' }).primaryKey(), customer_id: integer(), amount: integer() });
const accounts = pgTable('accounts', {
    uid: uuid().primaryKey(), code: text(), tenant_id: integer(), number: integer(),
    amount: integer() });
const customersRelations = relations(customers, ({ many }) => ({ orders: many(orders) }));
const ordersRelations = relations(orders, ({ one }) => ({
    customer: one(customers, { fields: [orders.customer_id], references: [customers.id] }) }));

const client = new Client({ database: 'clients' });
const db = drizzle(client,
    { schema: { customers, orders, accounts, customersRelations, ordersRelations } });

const ordersById = (ids) => db.select().from(orders).where(inArray(orders.id, ids));
const customersWithOrders = (region, last) => db.query.customers.findMany({
    where: and(eq(customers.region, region), lte(customers.id, last)), with: { orders: true } });

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    async prepared() {
        const query = db.select().from(orders)
            .where(sql`${orders.id} = ANY(${sql.placeholder('ids')})`).prepare('wanted');
        let rows;
        for (let i = 0; i < 8; i++) {
            rows = await query.execute({ ids: wanted.ids() });
        }
        printOrders(rows);
    },
    relational: async () => printChildren(await customersWithOrders(7, 500)),
    uuid: async () => printAccounts(
        await db.select().from(accounts).where(inArray(accounts.uid, wanted.uids()))),
    code: async () => printAccounts(
        await db.select().from(accounts).where(inArray(accounts.code, wanted.codes()))),
    pair: async () => printAccounts(await db.select().from(accounts).where(or(...wanted.pairs()
        .map(([t, n]) => and(eq(accounts.tenant_id, t), eq(accounts.number, n)))))),
};

client.connect().then(() => steps[process.argv[2]]()).finally(() => client.end());
