#!/usr/bin/env bash
# tryton-ids.sh: a list of ids reaches PostgreSQL as ranges and a rest.
#
# Seen with Debian's tryton-server 6.0.29 and python3-sql 1.4.0, PostgreSQL 15.20 (2026-11-28).
#
# Tryton reads records by lists of ids. reduce_ids(), which makes the condition, sorts them, and
# writes "id >= a AND id <= b" for six or more ids in a row; the others stay in one IN list. Of 450
# ids, nine out of each ten of 1 to 500, 50 ranges are made, and no list is left. PostgreSQL
# combines as many bitmap scans of the btree.
#
# Consequence: an index that answers lists of equal keys only does not serve such a client; it has
# to take an OR of ranges and a list as one set of keys.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
debian_packages tryton-server=6.0.29-2+deb12u4 python3-sql=1.4.0-1+deb12u1

cat > "$temp/seen.py" <<'PY'
import importlib.util
import sys

packages = sys.argv[1] + '/usr/lib/python3/dist-packages'
sys.path.insert(0, packages)
from sql import Table

source = open(packages + '/trytond/tools/misc.py').read()
spec = importlib.util.spec_from_loader('misc', loader=None)
misc = importlib.util.module_from_spec(spec)
exec(source.replace('from trytond.const import OPERATORS', 'OPERATORS = ()'), misc.__dict__)

orders = Table('orders')


def statement(ids):
    query = orders.select(orders.id, where=misc.reduce_ids(orders.id, ids))
    text, values = tuple(query)
    return text % tuple(values)


print(statement([3, 1, 2, 30, 8, 9, 10, 11, 12, 13]))
text = statement(i for i in range(1, 501) if i % 10)
print(text.count('>='), 'ranges', text.count(' IN '), 'lists')
print(text, file=open(sys.argv[1] + '/statement.sql', 'w'))
PY

expect "the conditions" \
'SELECT "a"."id" FROM "orders" AS "a" WHERE ((("a"."id" >= 8) AND ("a"."id" <= 13)) OR ("a"."id" IN (1, 2, 3, 30)))
50 ranges 0 lists' "$(python3 "$temp/seen.py" "$temp/root")"

(echo 'EXPLAIN (COSTS OFF)' && cat "$temp/root/statement.sql") > "$temp/explain.sql"
expect "bitmap scans of the primary key" 50 \
    "$(sql -f "$temp/explain.sql" | grep -c 'Bitmap Index Scan on orders_pkey')"
