// postgres.js: a list of values, an array; each text is a named statement, which after five custom
// plans gets a generic one.
const { wanted, printOrders, printAccounts } = require('./rows.js');
const sql = require('postgres')({ database: 'clients' });

const ordersById = (ids) => sql`SELECT * FROM orders WHERE id IN ${sql(ids)}`;
const ordersOf = (customers) => sql`
    SELECT customer_id AS id, id AS customer_id, amount FROM orders
    WHERE customer_id = ANY(${customers})`;

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    any: async () => printOrders(await sql`SELECT * FROM orders WHERE id = ANY(${wanted.ids()})`),
    async repeat() {
        const ids = (await sql`SELECT id FROM customers WHERE region = 7`).map((c) => c.id);
        let rows;
        for (let i = 0; i < 8; i++) {
            rows = await ordersOf(ids);
        }
        printOrders(rows);
    },
    uuid: async () => printAccounts(
        await sql`SELECT number, amount FROM accounts WHERE uid = ANY(${wanted.uids()})`),
    code: async () => printAccounts(
        await sql`SELECT number, amount FROM accounts WHERE code IN ${sql(wanted.codes())}`),
    async pair() {
        const [tenants, numbers] = [0, 1].map((i) => wanted.pairs().map((pair) => pair[i]));
        printAccounts(await sql`
            SELECT number, amount FROM accounts WHERE (tenant_id, number) IN
                (SELECT * FROM unnest(${tenants}::int[], ${numbers}::int[]))`);
    },
};

steps[process.argv[2]]().finally(() => sql.end());
