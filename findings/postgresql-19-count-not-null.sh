#!/usr/bin/env bash
# postgresql-19-count-not-null.sh: count(column) of a NOT NULL column is planned as count(*), also
# for a snapshot that is older than the NOT NULL.
#
# Seen with PostgreSQL 19rc1 (19~rc1-1 of Debian experimental, 2026-11-29); 15.20 and 18.6 count the
# values.
#
# 1. EXPLAIN shows count(*) in place of count(v) once v is NOT NULL.
# 2. A transaction of REPEATABLE READ that began before the NULLs were replaced and the column was
#    made NOT NULL still sees the old rows. It counts 5,000 values, though it sees 4,500 and 500
#    NULLs, as count(*) FILTER says.
#
# Consequence: it is so with gpujoin and without. A test of old snapshots cannot compare count(v)
# with rows that it knows. gpujoin itself relies on a NOT NULL only if all snapshots are younger.
#
# Root is needed, for debootstrap.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=findings/sid.sh
source "$(dirname "$0")/sid.sh"
install_in "$root" postgresql-19=19~rc1-1 postgresql-client-19=19~rc1-1

cat >"$root/tmp/server.sh" <<'SH'
export PATH=/usr/lib/postgresql/19/bin:$PATH PGHOST=/tmp PGUSER=postgres
initdb -D /tmp/data -U postgres -A trust -N >/dev/null
pg_ctl -D /tmp/data -w -l /tmp/log -o "-c unix_socket_directories=/tmp -c listen_addresses=''" \
    start >/dev/null
psql -XqAt -f /tmp/seen.sql
pg_ctl -D /tmp/data -m immediate stop >/dev/null
SH
cat >"$root/tmp/seen.sql" <<'SQL'
CREATE TABLE t (id int, v int);
INSERT INTO t SELECT i, CASE WHEN i % 10 > 0 THEN i END FROM generate_series(1, 5000) i;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(v) FROM t;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 'a snapshot';
\! psql -Xq -c 'UPDATE t SET v = 0 WHERE v IS NULL' -c 'ALTER TABLE t ALTER v SET NOT NULL'
SELECT count(v), count(*) FILTER (WHERE v IS DISTINCT FROM NULL) FROM t;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(v) FROM t;
SQL
chmod 644 "$root"/tmp/se*
expect "the plans, and the count of an older snapshot" \
'Aggregate
  Output: count(v)
  ->  Seq Scan on public.t
        Output: id, v
a snapshot
5000|5000
Aggregate
  Output: count(*)
  ->  Seq Scan on public.t
        Output: id, v' \
    "$(in_chroot "$root" su postgres -s /bin/bash -c 'bash /tmp/server.sh')"
