"""Django's ORM: __in with a list, prefetch_related, __in with a query set, Q objects for pairs."""
import functools
import operator
import os
import sys

import django
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql",
                                          "NAME": "clients", "HOST": os.environ["PGHOST"],
                                          "PORT": os.environ["PGPORT"],
                                          "USER": os.environ["PGUSER"]}},
                   DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()

from django.db import connection, migrations, models  # noqa: E402  (after setup)


class Customer(models.Model):
    id = models.IntegerField(primary_key=True)
    region = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "shop", "customers", False


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True)
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="orders")
    amount = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "shop", "orders", False


class Account(models.Model):
    uid = models.UUIDField(primary_key=True)
    code = models.TextField(unique=True)
    tenant_id = models.IntegerField()
    number = models.IntegerField()
    amount = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "shop", "accounts", False


def orders_by_id(ids):
    return Order.objects.filter(id__in=ids)                 # IN (1, 2, ...): GpuScan


def customers_with_orders(region):
    return Customer.objects.filter(region=region).prefetch_related("orders")    # GpuScan


def orders_of_region(region):
    customers = Customer.objects.filter(region=region)
    return Order.objects.filter(customer__in=customers)     # IN (SELECT ...): GpuJoin


def accounts_by_pair(pairs):                                # (... AND ...) OR (... AND ...)
    return Account.objects.filter(functools.reduce(operator.or_, (
        models.Q(tenant_id=tenant, number=number) for tenant, number in pairs)))


class Migration(migrations.Migration):
    atomic = False
    operations = [
        migrations.RunSQL(
            "CREATE INDEX CONCURRENTLY orders_customer ON orders USING gpujoin (customer_id)",
            "DROP INDEX orders_customer"),
    ]


def lines(name):
    return open(os.environ[name]).read().split("\n")[:-1]


def print_accounts(accounts):
    for a in accounts:
        print(a.number, a.amount, sep="|")


step = sys.argv[1]
if step == "in":
    for o in orders_by_id([int(line) for line in lines("IDS")]):
        print(o.id, o.customer_id, o.amount, sep="|")
elif step == "prefetch":
    for c in customers_with_orders(7):
        for o in c.orders.all():
            print(c.id, o.id, o.amount, sep="|")
elif step == "subquery":
    for o in orders_of_region(7):
        print(o.customer_id, o.id, o.amount, sep="|")
elif step == "uuid":
    print_accounts(Account.objects.filter(uid__in=lines("UIDS")))
elif step == "code":
    print_accounts(Account.objects.filter(code__in=lines("CODES")))
elif step == "pair":
    print_accounts(accounts_by_pair(line.split() for line in lines("PAIRS")))
elif step == "index":
    with connection.schema_editor(atomic=Migration.atomic) as editor:
        for operation in Migration.operations:
            operation.database_forwards("shop", editor, None, None)
else:
    sys.exit("no step " + step)
