"""Django's ORM: __in with a list, prefetch_related, __in with a query set."""
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

from django.db import models  # noqa: E402  (after setup)


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


chosen = Customer.objects.filter(region=7)
step = sys.argv[1]
if step == "in":
    ids = [int(line) for line in open(os.environ["IDS"])]
    for o in Order.objects.filter(id__in=ids):
        print(o.id, o.customer_id, o.amount, sep="|")
elif step == "prefetch":
    for c in chosen.prefetch_related("orders"):
        for o in c.orders.all():
            print(c.id, o.id, o.amount, sep="|")
elif step == "subquery":
    for o in Order.objects.filter(customer__in=chosen):
        print(o.customer_id, o.id, o.amount, sep="|")
else:
    sys.exit("no step " + step)
