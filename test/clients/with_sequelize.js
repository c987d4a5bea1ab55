// Sequelize: where with a list, Op.or for pairs; include in one statement or in one of its own.
const fs = require('fs');
const { DataTypes, Op, Sequelize } = require('sequelize');

const sequelize = new Sequelize('clients', process.env.PGUSER, '', {
    host: process.env.PGHOST, port: process.env.PGPORT, dialect: 'postgres', logging: false,
    define: { timestamps: false, underscored: true } });
const Customer = sequelize.define('Customer', { region: DataTypes.INTEGER },
    { tableName: 'customers' });
const Order = sequelize.define('Order', {
    id: { type: DataTypes.BIGINT, primaryKey: true }, amount: DataTypes.INTEGER },
{ tableName: 'orders' });
const Account = sequelize.define('Account', {
    uid: { type: DataTypes.UUID, primaryKey: true }, code: DataTypes.TEXT,
    tenantId: DataTypes.INTEGER, number: DataTypes.INTEGER, amount: DataTypes.INTEGER },
{ tableName: 'accounts' });
Customer.hasMany(Order, { as: 'orders', foreignKey: 'customer_id' });

const ordersById = (ids) => Order.findAll({ where: { id: ids } });
const accountsByPair = (pairs) => Account.findAll({
    where: { [Op.or]: pairs.map(([tenantId, number]) => ({ tenantId, number })) } });

const lines = (name) => fs.readFileSync(process.env[name], 'utf8').trim().split('\n');
const accounts = {
    uuid: () => Account.findAll({ where: { uid: lines('UIDS') } }),
    code: () => Account.findAll({ where: { code: lines('CODES') } }),
    pair: () => accountsByPair(lines('PAIRS').map((pair) => pair.split(' ').map(Number))),
};

(async () => {
    const step = process.argv[2];
    if (step === 'in') {
        for (const o of await ordersById(lines('IDS').map(Number))) {
            console.log([o.id, o.get('customer_id'), o.amount].join('|'));
        }
    } else if (accounts[step]) {
        for (const a of await accounts[step]()) {
            console.log([a.number, a.amount].join('|'));
        }
    } else {
        const customers = await Customer.findAll({
            where: { region: 7 },
            include: { model: Order, as: 'orders', separate: step === 'separate' } });
        for (const c of customers) {
            for (const o of c.orders) {
                console.log([c.id, o.id, o.amount].join('|'));
            }
        }
    }
    await sequelize.close();
})();
