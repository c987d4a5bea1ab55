"""SQLAlchemy's ORM: expanding IN, and its three ways to load children."""
import os
import sys

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, create_engine, select
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


index = Index("orders_customer", Order.customer_id,
              postgresql_using="gpujoin", postgresql_include=["amount"])


def orders_by_id(session, ids):
    return session.scalars(select(Order).where(Order.id.in_(ids)))


def customers_with_orders(session, region, load=selectinload):  # or joinedload, subqueryload
    query = select(Customer).where(Customer.region == region).options(load(Customer.orders))
    return session.scalars(query).unique()


engine = create_engine("postgresql+psycopg2:///clients")
session = Session(engine)
load = {"selectin": selectinload, "subquery": subqueryload, "joined": joinedload}
step = sys.argv[1]
if step == "in":
    for o in orders_by_id(session, [int(line) for line in open(os.environ["IDS"])]):
        print(o.id, o.customer_id, o.amount, sep="|")
elif step == "index":
    index.create(engine)
else:
    for c in customers_with_orders(session, 7, load[step]):
        for o in c.orders:
            print(c.id, o.id, o.amount, sep="|")
