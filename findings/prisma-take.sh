#!/usr/bin/env bash
# prisma-take.sh: "take" in a relation is no limit in the statement.
#
# Seen with @prisma/client and @prisma/adapter-pg 7.10.0, Node.js 20.20, PostgreSQL 15.20
# (2026-11-28).
#
# The three newest orders of each of 100 customers, include: { orders: { take: 3 } }, with
# relationLoadStrategy: 'query': the statement has an order and no limit, so all 5,000 orders are
# sent, and the client drops 4,700. With 'join' each customer's orders are limited by the server.
#
# Consequence: a relation with "take" is loaded by 'join'; an index on the foreign key with the
# columns of orderBy in INCLUDE answers it.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=findings/prisma.sh
source "$(dirname "$0")/prisma.sh"
start_server
make_customers
make_client

# take STRATEGY: the number of orders, and words of the statements that read them
take() {
    run_client <<JS
    const customers = await db.customer.findMany({ relationLoadStrategy: '$1',
        where: { region: 7 }, include: { orders: { take: 3, orderBy: { id: 'desc' } } } });
    console.log(customers.reduce((sum, customer) => sum + customer.orders.length, 0));
    sent.filter((text) => text.includes('orders')).forEach((text) =>
        console.log((text.match(/LATERAL|ORDER BY|LIMIT|OFFSET/g) || []).join(' ')));
JS
}
expect "all orders of these customers" 5000 "$(sql -c 'SELECT count(*) FROM orders o
    JOIN customers c ON c.id = o.customer WHERE region = 7')"
expect "relationLoadStrategy: 'query'" '300
ORDER BY OFFSET' "$(take query)"
expect "relationLoadStrategy: 'join'" '300
LATERAL ORDER BY LIMIT' "$(take join)"
