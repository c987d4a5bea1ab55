// Malloy: a list as a filter string, and the number of children of each parent. (Its compiler's
// stack does not suffice for as many texts, and pairs as alternatives take it minutes.)
const { Runtime } = require('@malloydata/malloy');
const { PostgresConnection } = require('@malloydata/db-postgres');
const { wanted, print, printOrders } = require('./rows.js');

const connection = new PostgresConnection('pg', { rowLimit: 20000 }, {
    host: process.env.PGHOST, port: Number(process.env.PGPORT), databaseName: 'clients',
    username: process.env.PGUSER });
const runtime = new Runtime({ connection, urlReader: { readURL: async () => '' } });
const model = `
source: orders is pg.table('public.orders') extend { primary_key: id }
source: customers is pg.table('public.customers') extend {
    primary_key: id
    join_many: orders on id = orders.customer_id
}`;
const run = async (query) => (await runtime.loadModel(model).loadQuery('run: ' + query)
    .run({ rowLimit: 20000 })).data.value;

const ordersById = (ids) => run(`orders -> { select: * where: id ~ f'${ids.join(', ')}' }`);
const customersWithCounts = (region) => run(`customers -> {
    where: region = ${region}
    group_by: id
    aggregate: n is orders.count() }`);

const steps = {
    in: async () => printOrders(await ordersById(wanted.ids())),
    counts: async () => print(await customersWithCounts(7), 'id', 'n'),
};
steps[process.argv[2]]().then(() => connection.close()).catch((error) => {
    console.error(error);
    process.exit(1);
});
