"""asyncpg: prepared statements and binary arrays; after five executions the plan is generic."""
import asyncio
import os
import sys

import asyncpg


def lines(name):
    return open(os.environ[name]).read().split("\n")[:-1]


def numbers(name):
    return [int(line) for line in lines(name)]


async def orders_by_id(connection, ids):
    return await connection.fetch("SELECT * FROM orders WHERE id = ANY($1::bigint[])", ids)


select = "SELECT o.id, o.customer_id, o.amount FROM orders o "
accounts = "SELECT number, amount FROM accounts "


async def main(step):
    connection = await asyncpg.connect(database="clients")
    if step == "unnest":
        rows = await connection.fetch(
            select + "JOIN unnest($1::bigint[]) AS wanted(id) ON o.id = wanted.id", numbers("IDS"))
    elif step == "any":
        rows = await orders_by_id(connection, numbers("IDS"))
    elif step == "repeat":
        for _ in range(8):
            rows = await connection.fetch(
                "SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY($1)",
                numbers("CUSTOMERS"))
    elif step == "uuid":
        rows = await connection.fetch(accounts + "WHERE uid = ANY($1)", lines("UIDS"))
    elif step == "code":
        rows = await connection.fetch(accounts + "WHERE code = ANY($1)", lines("CODES"))
    elif step == "pair":
        tenants, pair_numbers = zip(*(map(int, line.split()) for line in lines("PAIRS")))
        rows = await connection.fetch(
            accounts + "JOIN unnest($1::int[], $2::int[]) AS wanted(tenant_id, number)"
            " USING (tenant_id, number)", tenants, pair_numbers)
    else:
        for _ in range(8):
            rows = await connection.fetch(select + "WHERE o.id = ANY($1::bigint[])",
                                          numbers("IDS"))
    for row in rows:
        print(*row, sep="|")
    await connection.close()

asyncio.run(main(sys.argv[1]))
