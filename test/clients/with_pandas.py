"""pandas with SQLAlchemy: read_sql_query with an array, with an expanding list, and with a temporary
table that to_sql has made of a data frame."""
import os
import sys
import warnings

import pandas
from sqlalchemy import bindparam, create_engine, text

warnings.simplefilter("ignore")
connection = create_engine("postgresql+psycopg2:///clients").connect()


def lines(name):
    return open(os.environ[name]).read().split("\n")[:-1]


def orders_by_id(ids):
    query = text("SELECT * FROM orders WHERE id IN :ids").bindparams(
        bindparam("ids", expanding=True))
    return pandas.read_sql_query(query, connection, params={"ids": ids})


def orders_by_frame(frame):
    connection.execute(text("CREATE TEMP TABLE wanted (id bigint)"))
    frame.to_sql("wanted", connection, if_exists="append", index=False, method="multi")
    connection.execute(text("ANALYZE wanted"))
    return pandas.read_sql_query(
        "SELECT o.* FROM orders o JOIN wanted USING (id)", connection)


def accounts_where(condition, value):
    return pandas.read_sql_query(text("SELECT number, amount FROM accounts WHERE " + condition),
                                 connection, params={"value": value})


ids = [int(line) for line in lines("IDS")]
step = sys.argv[1]
if step == "in":
    rows = orders_by_id(ids)
elif step == "any":
    rows = pandas.read_sql_query(text("SELECT * FROM orders WHERE id = ANY (:ids)"), connection,
                                 params={"ids": ids})
elif step == "frame":
    rows = orders_by_frame(pandas.DataFrame({"id": ids}))
elif step == "uuid":
    rows = accounts_where("uid = ANY (CAST(:value AS uuid[]))", lines("UIDS"))
elif step == "code":
    rows = accounts_where("code = ANY (:value)", lines("CODES"))
else:
    rows = accounts_where("(tenant_id, number) IN :value",
                          tuple(tuple(map(int, line.split())) for line in lines("PAIRS")))
rows.to_csv(sys.stdout, sep="|", header=False, index=False)
