// Prisma: `in` (in pieces of 32,766), relations by a query of their own or by a join (LATERAL), a
// count of children, count() and findUnique() side by side. The model is in schema.prisma, the
// generated client in $PRISMA_CLIENT.
const { PrismaPg } = require('@prisma/adapter-pg');
const { PrismaClient } = require(process.env.PRISMA_CLIENT);
const { wanted, print, printOrders, printAccounts, printChildren } = require('./rows.js');

const db = new PrismaClient({ adapter: new PrismaPg({ database: 'clients' }) });
const orders = (rows) => printOrders(rows.map((o) => ({ ...o, customer_id: o.customerId })));

const ordersById = (ids) => db.order.findMany({ where: { id: { in: ids } } });
const customersWithOrders = (where, relationLoadStrategy) => db.customer.findMany({
    where, include: { orders: true }, relationLoadStrategy });

const steps = {
    in: async () => orders(await ordersById(wanted.ids())),
    any: async () => printOrders(
        await db.$queryRaw`SELECT * FROM orders WHERE id = ANY(${wanted.ids()})`),
    query: async () => printChildren(await customersWithOrders({ region: 7 }, 'query')),
    join: async () => printChildren(
        await customersWithOrders({ region: 7, id: { lte: 500 } }, 'join')),
    counts: async () => print((await db.customer.findMany({
        where: { region: 7 }, include: { _count: { select: { orders: true } } },
        relationLoadStrategy: 'query' }))
        .map((c) => ({ id: c.id, n: c._count.orders })), 'id', 'n'),
    count: async () => console.log(await db.order.count({ where: { id: { in: wanted.ids() } } })),
    uuid: async () => printAccounts(
        await db.account.findMany({ where: { uid: { in: wanted.uids() } } })),
    code: async () => printAccounts(
        await db.account.findMany({ where: { code: { in: wanted.codes() } } })),
    pair: async () => printAccounts(await Promise.all(wanted.pairs().map(
        ([tenantId, number]) => db.account.findUnique(
            { where: { tenantId_number: { tenantId, number } } })))),
};

steps[process.argv[2]]().finally(() => db.$disconnect());
