#!/usr/bin/env bash
# pg-upgrade-column-marks.sh: pg_upgrade from a newer minor release to a major release of an earlier
# date fails for every cluster that has a table.
#
# Seen with 17.12 (17.12-0+deb13u1 of Debian trixie) to 19rc1 (19~rc1-1 of Debian experimental),
# 2026-11-29. From 15.20 to 18.6 it is so, too; 18.6 to 19rc1 works.
#
# 1. Since its release of November 2026, PostgreSQL 17 keeps a version of each column in
#    pg_attribute.attoptions, as pg_attver=N. ALTER TABLE ... RESET (pg_attver) says ALTER TABLE, and
#    leaves it.
# 2. Its own pg_dump leaves the option out. The pg_dump of 19rc1, which pg_upgrade runs, does not
#    know it as something special and writes ALTER TABLE ... SET (pg_attver=N).
# 3. The server of 19rc1 refuses that: unrecognized parameter "pg_attver".
#
# Consequence: it is so with gpujoin and without. Upgrade to a release of the same date or later.
#
# Root is needed, for debootstrap.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=findings/sid.sh
source "$(dirname "$0")/sid.sh"
echo "deb $(mirror_of trixie) trixie main" >"$root/etc/apt/sources.list.d/trixie.list"
install_in "$root" postgresql-17=17.12-0+deb13u1 postgresql-client-17=17.12-0+deb13u1 \
    postgresql-19=19~rc1-1 postgresql-client-19=19~rc1-1

cat >"$root/tmp/upgrade.sh" <<'SH'
old=/usr/lib/postgresql/17/bin new=/usr/lib/postgresql/19/bin
export PGHOST=/tmp PGUSER=postgres PGPORT=7717
cd /tmp
$old/initdb -D old -U postgres -A trust -N >/dev/null
$new/initdb -D new -U postgres -A trust -N --no-data-checksums >/dev/null
$old/pg_ctl -D old -w -l log -o "-c unix_socket_directories=/tmp -c listen_addresses=''" \
    start >/dev/null
$old/psql -Xqc 'CREATE TABLE t (a int)' -c 'ALTER TABLE t ALTER a RESET (pg_attver)'
for bin in $old $new; do
    echo "$bin: $($bin/pg_dump -s | grep -o 'ALTER a SET.*\|COLUMN a SET.*' | tr -d '0-9')"
done
$old/pg_ctl -D old -m fast stop >/dev/null
$new/pg_upgrade -b $old -B $new -d old -D new -p 7717 -P 7719 -s /tmp >/dev/null 2>&1
echo "pg_upgrade: $?"
grep -rhoE 'ERROR: +unrecognized.*' new/pg_upgrade_output.d --include='*_dump_*' | sort -u
SH
chmod 644 "$root/tmp/upgrade.sh"
expect "what the two versions of pg_dump say, and pg_upgrade's error" \
'/usr/lib/postgresql/17/bin: 
/usr/lib/postgresql/19/bin: COLUMN a SET (pg_attver=);
pg_upgrade: 1
ERROR:  unrecognized parameter "pg_attver"' \
    "$(in_chroot "$root" su postgres -s /bin/bash -c 'bash /tmp/upgrade.sh')"
