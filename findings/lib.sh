# lib.sh: sourced by the scripts of this folder. It makes a temporary folder, starts a stock server
# in it, unpacks packages there, and compares outputs with those seen before.
# shellcheck shell=bash
set -euo pipefail

temp=$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")
chmod 755 "$temp"
bin=${PG_BIN:-$(pg_config --bindir)}
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres
export PGPORT=${PGPORT:-$((20000 + $$ % 20000))}

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# PostgreSQL does not run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

leave() {
    [ ! -e "$temp/data/postmaster.pid" ] ||
        as_postgres "$bin/pg_ctl" -D "$temp/data" -m immediate stop >/dev/null || true
    rm -rf "$temp"
}
trap leave EXIT

start_server() {
    mkdir "$temp/data"
    [ "$(id -u)" != 0 ] || chown postgres "$temp/data"
    as_postgres "$bin/initdb" -D "$temp/data" -U postgres -A trust -N >/dev/null
    as_postgres "$bin/pg_ctl" -D "$temp/data" -l "$temp/data/log" -w \
        -o "-p $PGPORT -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off" \
        start >/dev/null || die "the server does not start"
}

sql() {
    "$bin/psql" -XqAt -v ON_ERROR_STOP=1 "$@"
}

# orders: a table with an index of an access method that no client knows, and one with INCLUDE
make_orders() {
    sql -f - <<'SQL'
CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric);
INSERT INTO orders SELECT i, i % 1000, i FROM generate_series(1, 10000) i;
CREATE EXTENSION bloom;
CREATE INDEX orders_customer ON orders USING bloom (customer);
CREATE INDEX orders_covering ON orders (customer) INCLUDE (amount);
VACUUM ANALYZE orders;
SQL
}

# npm_packages NAME@VERSION...
npm_packages() {
    (cd "$temp" && npm init -y >/dev/null &&
        npm install --prefer-offline --no-audit --no-fund --ignore-scripts --loglevel=error \
            "$@" >/dev/null) ||
        die "npm cannot install $*"
}

# debian_packages NAME=VERSION...: unpacked below $temp/root, not installed
debian_packages() {
    mkdir -p "$temp/debs" "$temp/root"
    chmod 777 "$temp/debs"
    (cd "$temp/debs" && apt-get -qq download "$@") || die "cannot download $*"
    local file
    for file in "$temp"/debs/*.deb; do dpkg -x "$file" "$temp/root"; done
}

# expect WHAT EXPECTED ACTUAL
expect() {
    if [ "$2" != "$3" ]; then
        diff <(echo "$2") <(echo "$3") || true
        die "$1: no longer as it was seen"
    fi
    echo "as seen: $1"
}
