// Slonik: arrays with a type, lists, tuples as unnest; each query is followed by DISCARD ALL.
const { createPool, sql } = require('slonik');
const { wanted, printOrders, printAccounts } = require('./rows.js');

const url = `postgresql://${process.env.PGUSER}:${process.env.PGPASSWORD ?? ''}@127.0.0.1:${
    process.env.PGPORT}/clients`;

const ordersById = (pool, ids) => pool.any(sql.unsafe`
    SELECT * FROM orders WHERE id = ANY(${sql.array(ids, 'int8')})`);

const steps = {
    any: async (pool) => printOrders(await ordersById(pool, wanted.ids())),
    in: async (pool) => printOrders(await pool.any(sql.unsafe`
        SELECT * FROM orders WHERE id IN (${sql.join(wanted.ids(), sql.fragment`, `)})`)),
    uuid: async (pool) => printAccounts(await pool.any(sql.unsafe`
        SELECT number, amount FROM accounts WHERE uid = ANY(${sql.array(wanted.uids(), 'uuid')})`)),
    code: async (pool) => printAccounts(await pool.any(sql.unsafe`
        SELECT number, amount FROM accounts
        WHERE code = ANY(${sql.array(wanted.codes(), 'text')})`)),
    pair: async (pool) => printAccounts(await pool.any(sql.unsafe`
        SELECT number, amount FROM accounts a JOIN ${sql.unnest(wanted.pairs(), ['int4', 'int4'])}
            AS wanted(tenant, num) ON a.tenant_id = tenant AND number = num`)),
};

(async () => {
    const pool = await createPool(url);
    await steps[process.argv[2]](pool);
    await pool.end();
})();
