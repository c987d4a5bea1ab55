// What the clients of this folder share: the wanted values, and the form of an answer's rows.
const fs = require('fs');

const lines = (name) => fs.readFileSync(process.env[name], 'utf8').trim().split('\n');
const wanted = {
    ids: () => lines('IDS').map(Number),
    customers: () => lines('CUSTOMERS').map(Number),
    uids: () => lines('UIDS'),
    codes: () => lines('CODES'),
    pairs: () => lines('PAIRS').map((pair) => pair.split(' ').map(Number)),
};

const print = (rows, ...columns) => rows.forEach((row) =>
    console.log(columns.map((column) => row[column]).join('|')));
const printOrders = (orders) => print(orders, 'id', 'customer_id', 'amount');
const printAccounts = (accounts) => print(accounts, 'number', 'amount');

// Parents with lists of children
const printChildren = (parents, list = 'orders') => parents.forEach((parent) =>
    parent[list].forEach((o) => console.log([parent.id, o.id, o.amount].join('|'))));

module.exports = { wanted, print, printOrders, printAccounts, printChildren };
