"""asyncpg: prepared statements and binary arrays; after five executions the plan is generic."""
import asyncio
import os
import sys

import asyncpg

def numbers(name):
    return [int(line) for line in open(os.environ[name])]


async def orders_by_id(connection, ids):
    return await connection.fetch("SELECT * FROM orders WHERE id = ANY($1::bigint[])", ids)


select = "SELECT o.id, o.customer_id, o.amount FROM orders o "


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
    else:
        for _ in range(8):
            rows = await connection.fetch(select + "WHERE o.id = ANY($1::bigint[])",
                                          numbers("IDS"))
    for row in rows:
        print(*row, sep="|")
    await connection.close()

asyncio.run(main(sys.argv[1]))
