"""SQLAlchemy's ORM: expanding IN, and its three ways to load children."""
import os
import sys

from sqlalchemy import Column, ForeignKey, Integer, BigInteger, create_engine, select
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


session = Session(create_engine("postgresql+psycopg2:///clients"))
load = {"selectin": selectinload, "subquery": subqueryload, "joined": joinedload}
step = sys.argv[1]
if step == "in":
    ids = [int(line) for line in open(os.environ["IDS"])]
    for o in session.scalars(select(Order).where(Order.id.in_(ids))):
        print(o.id, o.customer_id, o.amount, sep="|")
else:
    query = select(Customer).where(Customer.region == 7).options(load[step](Customer.orders))
    for c in session.scalars(query).unique():
        for o in c.orders:
            print(c.id, o.id, o.amount, sep="|")
