#!/usr/bin/env bash
# types-refused.sh: two packages of data types of Debian 12 cannot be created on Debian 12's own
# PostgreSQL any more.
#
# Seen with PostgreSQL 15.20 (15.20-0+deb12u1), postgresql-15-debversion 1.1.2-1+b1 and
# postgresql-15-pgsphere 1.1.1+2021-11-10-2+b1, 2026-11-30. The packages of Debian 13 for 17.12
# (1.2.0-2, 1.5.1-2+b2) can be created.
#
# debversion declares >= as the negator of < and of >, pg_sphere an operator as the commutator of
# two. An operator can be that of one only; the server refuses the second declaration, so that CREATE
# EXTENSION fails.
#
# Consequence: a dump of a database that has one of them cannot be restored there, with gpujoin or
# without. Upgrade to a release of PostgreSQL with newer packages.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
debian_packages postgresql-15=15.20-0+deb12u1 postgresql-client-15=15.20-0+deb12u1 \
    postgresql-15-debversion=1.1.2-1+b1 postgresql-15-pgsphere=1.1.1+2021-11-10-2+b1
bin=$temp/root/usr/lib/postgresql/15/bin
start_server
create() { sql -c "CREATE EXTENSION $1" 2>&1 || true; }
expect "debversion" 'ERROR:  negator operator >= is already the negator of operator <' \
    "$(create debversion)"
expect "pg_sphere" 'ERROR:  commutator operator @> is already the commutator of operator <@' \
    "$(create pg_sphere)"
