"""SQLAlchemy's ORM: expanding IN, also of tuples, and its three ways to load children."""
import os
import sys

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Text, create_engine
from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.orm import Session, declarative_base, joinedload, relationship, selectinload
from sqlalchemy.orm import subqueryload

Base = declarative_base()


class Customer(Base):
    __tablename__ = "customers"
    id = Column(Integer, primary_key=True)
    region = Column(Integer)
    orders = relationship("Order")


class Order(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True)
    customer_id = Column(Integer, ForeignKey("customers.id"))
    amount = Column(Integer)


class Account(Base):
    __tablename__ = "accounts"
    uid = Column(UUID(as_uuid=False), primary_key=True)
    code = Column(Text)
    tenant_id = Column(Integer)
    number = Column(Integer)
    amount = Column(Integer)


index = Index("orders_customer", Order.customer_id,
              postgresql_using="gpujoin", postgresql_include=["amount"])


def orders_by_id(session, ids):
    return session.scalars(select(Order).where(Order.id.in_(ids)))


def customers_with_orders(session, region, load=selectinload):  # or joinedload, subqueryload
    query = select(Customer).where(Customer.region == region).options(load(Customer.orders))
    return session.scalars(query).unique()


def accounts_by_pair(session, pairs):
    return session.scalars(
        select(Account).where(tuple_(Account.tenant_id, Account.number).in_(pairs)))


def lines(name):
    return open(os.environ[name]).read().split("\n")[:-1]


def print_accounts(accounts):
    for a in accounts:
        print(a.number, a.amount, sep="|")


engine = create_engine("postgresql+psycopg2:///clients")
session = Session(engine)
load = {"selectin": selectinload, "subquery": subqueryload, "joined": joinedload}
step = sys.argv[1]
if step == "in":
    for o in orders_by_id(session, [int(line) for line in lines("IDS")]):
        print(o.id, o.customer_id, o.amount, sep="|")
elif step == "uuid":
    print_accounts(session.scalars(select(Account).where(Account.uid.in_(lines("UIDS")))))
elif step == "code":
    print_accounts(session.scalars(select(Account).where(Account.code.in_(lines("CODES")))))
elif step == "pair":
    print_accounts(accounts_by_pair(session, [tuple(map(int, line.split()))
                                              for line in lines("PAIRS")]))
elif step == "index":
    index.create(engine)
else:
    for c in customers_with_orders(session, 7, load[step]):
        for o in c.orders:
            print(c.id, o.id, o.amount, sep="|")
