#!/usr/bin/env bash
# peewee-or-chains.sh: a long OR chain fails in the client.
#
# Seen with Debian's python3-peewee 3.14.10, Python 3.11, PostgreSQL 15.20 (2026-11-29).
#
# Conditions that are joined by | are a tree as deep as they are many, and the statement's text is
# made by recursion. A thousand pairs, as (a = 1 AND b = 2) OR ..., are more than Python's limit: no
# statement is sent. Tuple(a, b).in_(pairs), an IN of rows, has no such limit.
#
# Consequence: Tuple(...).in_(pairs); gpujoin answers both forms.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
sql -c 'CREATE TABLE accounts (tenant_id int, number int)' \
    -c 'INSERT INTO accounts SELECT i % 50, i FROM generate_series(1, 10000) i'
debian_packages python3-peewee=3.14.10+dfsg-1+b3

cat >"$temp/seen.py" <<'PY'
import functools
import operator
import os

from peewee import IntegerField, Model, PostgresqlDatabase, Tuple


class Account(Model):
    tenant_id = IntegerField()
    number = IntegerField()

    class Meta:
        database = PostgresqlDatabase(os.environ["PGDATABASE"])
        table_name = "accounts"
        primary_key = False


def found(condition):
    try:
        return Account.select().where(condition).count()
    except RecursionError:
        return "RecursionError"


for n in 100, 1000:
    pairs = [(i % 50, i) for i in range(1, n + 1)]
    print(n, found(functools.reduce(operator.or_, (
        (Account.tenant_id == tenant) & (Account.number == number) for tenant, number in pairs))),
        found(Tuple(Account.tenant_id, Account.number).in_(pairs)))
PY
expect "pairs found by an OR chain and by tuples" '100 100 100
1000 RecursionError 1000' "$(PYTHONPATH=$temp/root/usr/lib/python3/dist-packages \
    /usr/bin/python3 "$temp/seen.py")"
