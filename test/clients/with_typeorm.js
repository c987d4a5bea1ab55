// TypeORM: In() with a list, where with an array of pairs; relations joined or loaded by a query of
// their own.
const fs = require('fs');
const { DataSource, EntitySchema, In, LessThanOrEqual } = require('typeorm');

const Customer = new EntitySchema({
    name: 'Customer', tableName: 'customers',
    columns: { id: { type: Number, primary: true }, region: { type: Number } },
    relations: { orders: { type: 'one-to-many', target: 'Order', inverseSide: 'customer' } } });
const Order = new EntitySchema({
    name: 'Order', tableName: 'orders',
    columns: { id: { type: 'bigint', primary: true }, amount: { type: Number },
        customerId: { type: Number, name: 'customer_id' } },
    relations: { customer: { type: 'many-to-one', target: 'Customer', inverseSide: 'orders',
        joinColumn: { name: 'customer_id' } } } });
const Account = new EntitySchema({
    name: 'Account', tableName: 'accounts',
    columns: { uid: { type: 'uuid', primary: true }, code: { type: 'text' },
        tenantId: { type: Number, name: 'tenant_id' }, number: { type: Number },
        amount: { type: Number } } });

const ordersById = (source, ids) => source.getRepository(Order).findBy({ id: In(ids) });
const accountsBy = (source, where) => source.getRepository(Account).findBy(where);

const lines = (name) => fs.readFileSync(process.env[name], 'utf8').trim().split('\n');
const accountsWhere = {
    uuid: () => ({ uid: In(lines('UIDS')) }),
    code: () => ({ code: In(lines('CODES')) }),
    pair: () => lines('PAIRS').map((pair) => pair.split(' ').map(Number))
        .map(([tenantId, number]) => ({ tenantId, number })),
};

(async () => {
    const step = process.argv[2];
    const source = await new DataSource({
        type: 'postgres', host: process.env.PGHOST, port: Number(process.env.PGPORT),
        username: process.env.PGUSER, database: 'clients', entities: [Customer, Order, Account],
    }).initialize();
    if (step === 'in') {
        for (const o of await ordersById(source, lines('IDS'))) {
            console.log([o.id, o.customerId, o.amount].join('|'));
        }
    } else if (accountsWhere[step]) {
        for (const a of await accountsBy(source, accountsWhere[step]())) {
            console.log([a.number, a.amount].join('|'));
        }
    } else {
        const customers = await source.getRepository(Customer).find({
            where: step === 'query' ? { region: 7, id: LessThanOrEqual(500) } : { region: 7 },
            relations: { orders: true }, relationLoadStrategy: step });
        for (const c of customers) {
            for (const o of c.orders) {
                console.log([c.id, o.id, o.amount].join('|'));
            }
        }
    }
    await source.destroy();
})();
