#!/usr/bin/env bash
# prisma-long-lists.sh: what a list of 40,000 ids does depends on the rest of the query.
#
# Seen with @prisma/client and @prisma/adapter-pg 7.10.0, Node.js 20.20, PostgreSQL 15.20
# (2026-11-28).
#
# 1. findMany() sends two statements, of 32,766 and of 7,234 ids, and puts the rows together.
# 2. With "distinct" it does the same: what both parts have is returned twice. So 30,000 ids give
#    1,000 orders with different amounts, and 40,000 ids 2,000 orders.
# 3. With "orderBy", with "notIn", and in count(), aggregate() and groupBy() it refuses: P2029,
#    "query parameter limit exceeded".
#
# Consequence: lists of more than 32,766 keys belong into an array: $queryRaw with = ANY (${ids}).
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=findings/prisma.sh
source "$(dirname "$0")/prisma.sh"
start_server
make_customers
make_client

# shellcheck disable=SC2016  # parameters of a statement
expect "findMany" '40000
SELECT ... FROM "public"."orders" AS "t0" WHERE "t0"."id" IN ($...,$32766)
SELECT ... FROM "public"."orders" AS "t0" WHERE "t0"."id" IN ($...,$7234)' "$(run_client <<'JS'
    console.log((await db.order.findMany({ where: { id: { in: ids } } })).length);
    console.log(sent.filter((text) => text.startsWith('SELECT')).join('\n'));
JS
)"
expect "distinct, of 30,000 and of 40,000 ids" '1000 2000' "$(run_client <<'JS'
    const distinct = async (list) => (await db.order.findMany({
        where: { id: { in: list } }, distinct: ['amount'] })).length;
    console.log(await distinct(ids.slice(0, 30000)), await distinct(ids));
JS
)"
expect "orderBy, notIn, count, aggregate, groupBy" 'P2029 P2029 P2029 P2029 P2029' "$(
    run_client <<'JS'
    const where = { id: { in: ids } };
    const codes = [];
    for (const query of [() => db.order.findMany({ where, orderBy: { id: 'asc' } }),
        () => db.order.findMany({ where: { id: { notIn: ids } } }),
        () => db.order.count({ where }),
        () => db.order.aggregate({ where, _sum: { amount: true } }),
        () => db.order.groupBy({ by: ['amount'], where })])
        await query().then(() => codes.push('answered'), (error) => codes.push(error.code));
    console.log(codes.join(' '));
JS
)"
