"""peewee: lists, and pairs as tuples, which the driver makes literals; children by a query of their
own, with the parents' query in it."""
import os
import sys

from peewee import (BigIntegerField, ForeignKeyField, IntegerField, Model, PostgresqlDatabase,
                    TextField, Tuple, UUIDField, prefetch)

database = PostgresqlDatabase("clients")


class Base(Model):
    class Meta:
        database = database


class Customer(Base):
    region = IntegerField()

    class Meta:
        table_name = "customers"


class Order(Base):
    id = BigIntegerField(primary_key=True)
    customer = ForeignKeyField(Customer, backref="orders")
    amount = IntegerField()

    class Meta:
        table_name = "orders"


class Account(Base):
    uid = UUIDField(primary_key=True)
    code = TextField()
    tenant_id = IntegerField()
    number = IntegerField()
    amount = IntegerField()

    class Meta:
        table_name = "accounts"


def lines(name):
    return open(os.environ[name]).read().split("\n")[:-1]


def orders_by_id(ids):
    return Order.select().where(Order.id.in_(ids))


def accounts_by_pair(pairs):
    return Account.select().where(Tuple(Account.tenant_id, Account.number).in_(pairs))


step = sys.argv[1]
if step == "in":
    rows = [(o.id, o.customer_id, o.amount) for o in orders_by_id([int(i) for i in lines("IDS")])]
elif step == "prefetch":
    rows = [(c.id, o.id, o.amount) for c in prefetch(
        Customer.select().where(Customer.region == 7), Order) for o in c.orders]
else:
    accounts = (Account.select().where(Account.uid.in_(lines("UIDS"))) if step == "uuid" else
                Account.select().where(Account.code.in_(lines("CODES"))) if step == "code" else
                accounts_by_pair([tuple(map(int, line.split())) for line in lines("PAIRS")]))
    rows = [(a.number, a.amount) for a in accounts]
for row in rows:
    print(*row, sep="|")
