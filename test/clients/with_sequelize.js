// Sequelize: where with a list; include in one statement or in one of its own.
const fs = require('fs');
const { DataTypes, Sequelize } = require('sequelize');

const sequelize = new Sequelize('clients', process.env.PGUSER, '', {
    host: process.env.PGHOST, port: process.env.PGPORT, dialect: 'postgres', logging: false,
    define: { timestamps: false, underscored: true } });
const Customer = sequelize.define('Customer', { region: DataTypes.INTEGER },
    { tableName: 'customers' });
const Order = sequelize.define('Order', {
    id: { type: DataTypes.BIGINT, primaryKey: true }, amount: DataTypes.INTEGER },
{ tableName: 'orders' });
Customer.hasMany(Order, { as: 'orders', foreignKey: 'customer_id' });

const ordersById = (ids) => Order.findAll({ where: { id: ids } });

(async () => {
    const step = process.argv[2];
    if (step === 'in') {
        const ids = fs.readFileSync(process.env.IDS, 'utf8').trim().split('\n').map(Number);
        for (const o of await ordersById(ids)) {
            console.log([o.id, o.get('customer_id'), o.amount].join('|'));
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
