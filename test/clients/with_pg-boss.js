// pg-boss: 20,000 jobs, of which 10,000 are completed by one statement; the answer is read from the
// jobs. Its schema is the role's own. The index on the partitioned table is for all queues.
const { Client } = require('pg');
const PgBoss = require('pg-boss');
const { wanted, printAccounts } = require('./rows.js');

const schema = process.env.PGUSER;

(async () => {
    const client = new Client({ database: 'clients' });
    await client.connect();
    const boss = new PgBoss({ database: 'clients', host: '127.0.0.1', port: process.env.PGPORT,
        user: process.env.PGUSER, password: process.env.PGPASSWORD, schema,
        supervise: false, schedule: false });
    await boss.start();
    await client.query(`CREATE INDEX ON ${schema}.job USING gpujoin (id)`);
    await boss.createQueue('accounts');
    const { rows: data } = await client.query(
        'SELECT uid AS id, number, amount FROM accounts WHERE number % 25 = 0');
    await boss.insert(data.map((a) => ({ id: a.id, name: 'accounts', data: a })));
    await boss.fetch('accounts', { batchSize: data.length });
    await client.query(`VACUUM ANALYZE ${schema}.job`);
    await boss.complete('accounts', wanted.uids());
    const { rows } = await client.query(
        `SELECT data->>'number' AS number, data->>'amount' AS amount FROM ${schema}.job
         WHERE name = 'accounts' AND state = 'completed'`);
    printAccounts(rows);
    await client.query(`DROP SCHEMA ${schema} CASCADE`);
    await client.end();
    await boss.stop({ graceful: false });
})();
