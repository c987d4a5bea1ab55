"""psycopg2: arrays and lists become literals in the text of the statement."""
import os
import sys

import psycopg2
from psycopg2.extras import execute_values


def lines(name):
    return open(os.environ[name]).read().split("\n")[:-1]


def orders_by_id(cursor, ids):
    cursor.execute("SELECT * FROM orders WHERE id = ANY(%s)", (ids,))
    return cursor.fetchall()


ids = [int(line) for line in lines("IDS")]
select = "SELECT o.id, o.customer_id, o.amount FROM orders o "
cursor = psycopg2.connect("dbname=clients").cursor()

step = sys.argv[1]
if step == "in":
    cursor.execute(select + "WHERE o.id IN %s", (tuple(ids),))
elif step == "any":
    rows = orders_by_id(cursor, ids)
elif step == "text":
    cursor.execute(select + "WHERE o.id = ANY(%s::bigint[])",
                   ("{" + ",".join(map(str, ids)) + "}",))
elif step == "unnest":
    cursor.execute(select + "JOIN unnest(%s) AS wanted(id) ON o.id = wanted.id", (ids,))
elif step == "temp":
    cursor.execute("CREATE TEMP TABLE wanted (id bigint)")
    execute_values(cursor, "INSERT INTO wanted VALUES %s", [(i,) for i in ids])
    cursor.execute("ANALYZE wanted")
    cursor.execute(select + "JOIN wanted w ON o.id = w.id")
elif step == "uuid":
    cursor.execute("SELECT number, amount FROM accounts WHERE uid = ANY(%s::uuid[])",
                   (lines("UIDS"),))
elif step == "code":
    cursor.execute("SELECT number, amount FROM accounts WHERE code = ANY(%s)", (lines("CODES"),))
elif step == "pair":
    pairs = tuple(tuple(map(int, line.split())) for line in lines("PAIRS"))
    cursor.execute("SELECT number, amount FROM accounts WHERE (tenant_id, number) IN %s", (pairs,))
else:
    sys.exit("no step " + step)
for row in rows if step == "any" else cursor:
    print(*row, sep="|")
