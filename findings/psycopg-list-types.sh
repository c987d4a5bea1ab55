#!/usr/bin/env bash
# psycopg-list-types.sh: the type of a list follows its largest number.
#
# Seen with Debian's python3-psycopg 3.1.7, PostgreSQL 15.20 (2026-11-28).
#
# "id = ANY (%s)" with a list of Python's integers sends smallint[], integer[], bigint[] or
# numeric[], whichever holds the largest number. The statement is another one for each type: it is
# counted, prepared, and gets a generic plan, four times. With numeric[] PostgreSQL casts the
# column, so that its btree is of no use: one number that no bigint holds (or a float, or a Decimal)
# turns a look-up into a sequential scan.
#
# Consequence: gpujoin compares such lists with integer keys exactly, and takes each of the types.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server
make_orders
debian_packages python3-psycopg=3.1.7-4

cat > "$temp/seen.py" <<'PY'
import sys

sys.path.insert(0, sys.argv[1] + '/usr/lib/python3/dist-packages')
import psycopg
from decimal import Decimal

connection = psycopg.connect('', autocommit=True, prepare_threshold=0)
for ids in [1, 2], [1, 2, 40000], [1, 2, 3000000000], [1, 2, 2 ** 70], [1.0, 2.0], [Decimal(1)]:
    found = len(connection.execute('SELECT FROM orders WHERE id = ANY (%s)', (ids,)).fetchall())
    plan = connection.execute('EXPLAIN (COSTS OFF) SELECT FROM orders WHERE id = ANY (%s)', (ids,))
    print(found, plan.fetchall()[-1][0].strip())
print(connection.execute("SELECT string_agg(parameter_types[1]::text, ' ' ORDER BY prepare_time) "
                         "FROM pg_prepared_statements WHERE statement LIKE 'SELECT FROM%'")
      .fetchone()[0])
PY

expect "rows and conditions" \
"2 Index Cond: (id = ANY ('{1,2}'::smallint[]))
2 Index Cond: (id = ANY ('{1,2,40000}'::integer[]))
2 Index Cond: (id = ANY ('{1,2,3000000000}'::bigint[]))
2 Filter: ((id)::numeric = ANY ('{1,2,1180591620717411303424}'::numeric[]))
2 Filter: ((id)::double precision = ANY ('{1,2}'::double precision[]))
1 Filter: ((id)::numeric = ANY ('{1}'::numeric[]))
smallint[] integer[] bigint[] numeric[] double precision[]" \
    "$(python3 "$temp/seen.py" "$temp/root")"
