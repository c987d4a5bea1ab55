#!/usr/bin/env bash
# test/clients/clients.sh [CLIENT...]: real traffic of drivers and ORMs on a throw-away server
# (test/setup.sh). Each client queries in its own way the rows with one of 10,000 ids, parents
# with their children, and the children of a selection of parents; then the rows with one of 10,000
# uuids, of 10,000 text ids, and of 1,000 pairs of two columns.
#
# A step of a client runs twice at once, with gpujoin and with gpujoin.enabled = off. It passes if
# both answers equal that of plain SQL and auto_explain's log shows our node in the first run and no
# node of ours in the second. "Sent" is the statement that the client generated. The step "index"
# creates an index by the client's own means, and passes if the index has the expected definition.
#
# A client whose packages are not available is skipped, with the reason. npm's packages are kept for
# later runs, see kept_modules; delete the folder at any time. CHECK_DEVICE is gpujoin.device
# (auto). The last line is "N passed, N failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$project/test/total.sh"

all_clients="psycopg2 sqlalchemy django asyncpg node-postgres postgres pg-promise slonik knex
    objection kysely drizzle prisma mikro-orm sequelize typeorm postgraphile payload strapi zero
    malloy pg-boss loopback remult waterline activerecord sequel jdbc peewee pandas dbi pdo
    doctrine dbplyr libpqxx pgx tokio-postgres ogr"

# ---------------------------------------------------------------------------------------------
# The clients: their packages, the way to start them, their steps
# ---------------------------------------------------------------------------------------------

# The distribution's modules are for the distribution's Python.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

has_client() {
    case $1 in
        psycopg2 | asyncpg) "$python" -c "import $1" ;;
        sqlalchemy | django) "$python" -c "import $1, psycopg2" ;;
        peewee) "$python" -c "import peewee, psycopg2" ;;
        pandas) "$python" -c "import pandas, sqlalchemy, psycopg2" ;;
        activerecord) ruby -e 'require "active_record"; require "pg"' ;;
        sequel) ruby -e 'require "sequel"; require "pg"' ;;
        dbi) perl -MDBD::Pg -e 1 ;;
        pdo) php -r 'exit((int) !extension_loaded("pdo_pgsql"));' ;;
        doctrine) has_client pdo && [ -e /usr/share/php/Doctrine/DBAL/autoload.php ] ;;
        dbplyr) Rscript -e 'library(dbplyr); library(RPostgreSQL)' ;;
        libpqxx) command -v g++ && [ -e /usr/include/pqxx/pqxx ] ;;
        pgx) command -v go && [ -d "$go_packages/src/github.com/jackc/pgx/v4" ] ;;
        tokio-postgres) command -v cargo && compgen -G "$crates/tokio-postgres-*" ;;
        ogr) ogrinfo --formats | grep -q PostgreSQL ;;
        jdbc) [ -e "$jdbc_jar" ] && command -v javac ;;
        *) command -v node && command -v npm ;;
    esac >/dev/null 2>&1
}
jdbc_jar=/usr/share/java/postgresql.jar
go_packages=/usr/share/gocode
crates=/usr/share/cargo/registry

packages_of() {
    case $1 in
        sqlalchemy | django | peewee) echo "python3-$1 python3-psycopg2" ;;
        psycopg2 | asyncpg) echo "python3-$1" ;;
        pandas) echo "python3-pandas python3-sqlalchemy python3-psycopg2" ;;
        activerecord) echo "ruby ruby-activerecord ruby-pg" ;;
        sequel) echo "ruby ruby-sequel ruby-pg" ;;
        jdbc) echo "libpostgresql-jdbc-java default-jdk-headless" ;;
        dbi) echo "libdbd-pg-perl" ;;
        pdo) echo "php-cli php-pgsql" ;;
        doctrine) echo "php-cli php-pgsql php-doctrine-dbal" ;;
        dbplyr) echo "r-base-core r-cran-dbplyr r-cran-rpostgresql" ;;
        libpqxx) echo "g++ libpqxx-dev" ;;
        pgx) echo "golang-go golang-github-jackc-pgx-v4-dev" ;;
        tokio-postgres) echo "cargo librust-tokio-postgres-dev" ;;
        ogr) echo "gdal-bin" ;;
        *) echo "nodejs npm" ;;
    esac
}

# A client's modules in npm, with the versions in package.json.
npm_module_of() {
    case $1 in
        node-postgres) echo pg ;;
        drizzle) echo drizzle-orm ;;
        mikro-orm) echo @mikro-orm/postgresql ;;
        payload) echo @payloadcms/db-postgres ;;
        strapi) echo @strapi/database ;;
        zero) echo @rocicorp/zero ;;
        malloy) echo @malloydata/malloy ;;
        loopback) echo loopback-connector-postgresql ;;
        postgraphile | pg-boss | knex | sequelize | typeorm | postgres | pg-promise | slonik | \
            objection | kysely | prisma | remult | waterline) echo "$1" ;;
    esac
}

# Clients of which there is a program first
build_client() {
    case $1 in
        libpqxx) g++ -std=c++17 -o "$work/with_libpqxx" test/clients/with_libpqxx.cpp -lpqxx -lpq ;;
        pgx) GOPATH=$go_packages GO111MODULE=off GOCACHE=$work/go \
            go build -o "$work/with_pgx" test/clients/with_pgx.go ;;
        tokio-postgres) CARGO_HOME=$work/cargo CARGO_TARGET_DIR=$work/cargo \
            CARGO_PROFILE_DEV_DEBUG=false cargo build --offline \
            --config 'source.crates-io.replace-with = "distribution"' \
            --config "source.distribution.directory = \"$crates\"" \
            --manifest-path test/clients/Cargo.toml ;;
    esac >"$log/build-$1.log" 2>&1
}

start_client() {
    case $1 in
        psycopg2 | sqlalchemy | django | asyncpg | peewee | pandas)
            "$python" "test/clients/with_$1.py" "$2" ;;
        activerecord | sequel) ruby "test/clients/with_$1.rb" "$2" ;;
        dbi) perl test/clients/with_dbi.pl "$2" ;;
        pdo | doctrine) php "test/clients/with_$1.php" "$2" ;;
        dbplyr) Rscript test/clients/with_dbplyr.R "$2" ;;
        libpqxx | pgx) "$work/with_$1" "$2" ;;
        tokio-postgres) "$work/cargo/debug/with_tokio-postgres" "$2" ;;
        ogr) bash test/clients/with_ogr.sh "$2" ;;
        jdbc) java -cp "$jdbc_jar" test/clients/WithJdbc.java "$2" ;;
        *) NODE_PATH=$work/npm/node_modules PRISMA_CLIENT=$work/npm/prisma-client \
            node "test/clients/with_$1.js" "$2" ;;
    esac
}

# Steps of a client as NAME:ANSWER:NODE:PLANS; PLANS is the number of plans that must have the
# node. A prepared statement gets five custom plans, then a generic one; with a btree on the
# column (repeat_id) the latter may be PostgreSQL's own. Clients that send pairs as two arrays join
# with them.
steps_of() {
    own_steps_of "$1"
    case $1 in
        pg-boss | malloy) ;;
        zero) echo uuid:accounts:GpuScan:1 code:accounts:GpuScan:1 pair:some_pairs:GpuScan:1 ;;
        postgraphile)
            echo uuid:accounts:GpuJoin:1 code:accounts:GpuJoin:1 pair:pairs:GpuJoin:1 ;;
        asyncpg | node-postgres | postgres | slonik | pgx | tokio-postgres)
            echo uuid:accounts:GpuScan:1 code:accounts:GpuScan:1 pair:pairs:GpuJoin:1 ;;
        *) echo uuid:accounts:GpuScan:1 code:accounts:GpuScan:1 pair:pairs:GpuScan:1 ;;
    esac
}

own_steps_of() {
    case $1 in
        psycopg2) echo in:ids:GpuScan:1 any:ids:GpuScan:1 text:ids:GpuScan:1 \
            unnest:ids:GpuJoin:1 temp:ids:GpuJoin:1 ;;
        sqlalchemy) echo in:ids:GpuScan:1 selectin:children:GpuScan:2 \
            subquery:children:GpuJoin:1 joined:children:GpuJoin:1 index ;;
        django) echo in:ids:GpuScan:1 prefetch:children:GpuScan:1 subquery:children:GpuJoin:1 \
            index ;;
        asyncpg | node-postgres) echo any:ids:GpuScan:1 repeat:children:GpuScan:8 \
            repeat_id:ids:GpuScan:5 unnest:ids:GpuJoin:1 ;;
        postgres) echo in:ids:GpuScan:1 any:ids:GpuScan:1 repeat:children:GpuScan:8 ;;
        pg-promise | slonik) echo in:ids:GpuScan:1 any:ids:GpuScan:1 ;;
        objection) echo in:ids:GpuScan:1 graph:children:GpuScan:1 joined:children:GpuJoin:1 ;;
        kysely) echo in:ids:GpuScan:1 any:ids:GpuScan:1 json:few:GpuScan:1 ;;
        drizzle) echo in:ids:GpuScan:1 prepared:ids:GpuScan:5 relational:few:GpuScan:1 ;;
        prisma) echo in:ids:GpuScan:1 any:ids:GpuScan:1 query:children:GpuScan:1 \
            join:few:GpuScan:1 counts:counts:GpuAgg:1 count:count:GpuAgg:1 ;;
        mikro-orm) echo in:ids:GpuScan:1 select:children:GpuScan:1 joined:children:GpuJoin:1 ;;
        knex) echo in:ids:GpuScan:1 eager:children:GpuScan:1 subquery:children:GpuJoin:1 ;;
        sequelize) echo in:ids:GpuScan:1 separate:children:GpuScan:1 include:children:GpuJoin:1 ;;
        postgraphile) echo get:ids:GpuJoin:8 children:few:GpuScan:1 ;;
        payload) echo in:ids:GpuScan:1 join:few:GpuScan:2 filter:children:GpuJoin:1 \
            count:count:GpuAgg:1 relation:number:GpuAgg:1 ;;
        strapi) echo in:ids:GpuScan:1 populate:children:GpuJoin:1 filter:children:GpuJoin:1 ;;
        zero) echo in:some:GpuScan:1 related:few:GpuScan:1 ;;
        malloy) echo in:ids:GpuScan:1 counts:counts:GpuJoin:1 ;;
        loopback) echo in:ids:GpuScan:1 include:children:GpuScan:4 ;;
        remult) echo in:ids:GpuScan:1 include:children:GpuScan:10 ne:others:GpuAgg:1 ;;
        waterline) echo in:ids:GpuScan:1 populate:children:GpuScan:1 ;;
        pg-boss) echo complete:accounts:GpuScan:1 ;;
        typeorm) echo in:ids:GpuScan:1 query:few:GpuScan:1 join:children:GpuJoin:1 ;;
        activerecord) echo in:ids:GpuScan:1 preload:children:GpuScan:1 \
            eager:children:GpuJoin:1 subquery:children:GpuJoin:1 index ;;
        sequel) echo in:ids:GpuScan:1 subquery:children:GpuJoin:1 eager:children:GpuScan:1 \
            graph:children:GpuJoin:1 ;;
        peewee) echo in:ids:GpuScan:1 prefetch:children:GpuJoin:1 ;;
        pandas) echo in:ids:GpuScan:1 any:ids:GpuScan:1 frame:ids:GpuJoin:1 ;;
        dbplyr) echo in:ids:GpuScan:1 double:ids:GpuScan:1 semi:children:GpuJoin:1 ;;
        dbi) echo in:ids:GpuScan:1 any:ids:GpuScan:1 repeat:children:GpuScan:8 ;;
        pdo) echo in:ids:GpuScan:1 any:ids:GpuScan:1 emulated:ids:GpuScan:1 \
            repeat:children:GpuScan:8 ;;
        doctrine | ogr) echo in:ids:GpuScan:1 ;;
        libpqxx | pgx | tokio-postgres) echo any:ids:GpuScan:1 repeat:children:GpuScan:8 ;;
        jdbc) echo in:ids:GpuScan:1 any:ids:GpuScan:1 repeat:children:GpuScan:15 \
            repeat_id:ids:GpuScan:5 ;;
    esac
}

# ---------------------------------------------------------------------------------------------
# Outside
# ---------------------------------------------------------------------------------------------

# The clients' packages, as far as available
prepare() {
    local client module missing=''
    for client in $clients; do
        has_client "$client" || missing+=" $(packages_of "$client")"
    done
    # All at once, which fails if there is no package of one of the names.
    # shellcheck disable=SC2086  # a list of names
    [ -z "$missing" ] || wish_for $missing
    for client in $clients; do
        # shellcheck disable=SC2046  # a list of names
        [ -z "$missing" ] || has_client "$client" || wish_for $(packages_of "$client")
    done
    mkdir "$work/npm"
    for client in $clients; do
        module=$(npm_module_of "$client")
        [ -n "$module" ] && command -v npm >/dev/null || continue
        get_npm_modules
        make_prisma_client
        break
    done
}

# npm's packages, a folder for each version of package.json: to install them takes longer than all
# steps. Root's home cannot be read by the user of the inside half.
kept_modules() {
    local cache=${XDG_CACHE_HOME:-${HOME:-/}/.cache}
    [ "$(id -u)" != 0 ] || cache=/var/cache
    echo "$cache/gpujoin-clients/$(sha256sum test/clients/package.json | cut -c 1-16)"
}

get_npm_modules() {
    local kept
    kept=$(kept_modules)
    if [ ! -d "$kept/node_modules" ]; then
        say "npm's packages"
        cp test/clients/package.json "$work/npm/"
        (umask 022 && cd "$work/npm" && timeout 500 npm install --prefer-offline --no-audit \
            --no-fund --ignore-scripts --legacy-peer-deps) >"$work/log/npm.log" 2>&1 || {
            note "npm failed: see npm.log"
            return 0
        }
        (umask 022 && mkdir -p "$kept" && mv "$work/npm/node_modules" "$kept/new.$$" &&
            mv -T "$kept/new.$$" "$kept/node_modules") || die "$kept cannot be written"
    fi
    ln -s "$kept/node_modules" "$work/npm/node_modules"
}

# Prisma generates its client from a schema. It needs no program of its own for that, but looks for
# one, which it would download.
make_prisma_client() {
    [[ " $clients " == *" prisma "* ]] || return 0
    cp test/clients/schema.prisma "$work/npm/"
    (cd "$work/npm" && PRISMA_SCHEMA_ENGINE_BINARY=/bin/true CHECKPOINT_DISABLE=1 \
        timeout 100 node_modules/.bin/prisma generate --schema schema.prisma) \
        >>"$work/log/npm.log" 2>&1 || note "prisma generate failed: see npm.log"
}

clients=$(echo ${*:-$all_clients})
if ! inside; then
    for client in $clients; do
        [[ " $(echo $all_clients) " == *" $client "* ]] ||
            die "no client \"$client\"; there are:" $all_clients
    done
    cd "$project"
    run_inside clients test/clients/clients.sh "$@"
fi

# ---------------------------------------------------------------------------------------------
# The server
# ---------------------------------------------------------------------------------------------

sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# The JDBC driver does not support Unix sockets. Other users of this machine must not get in by
# TCP.
start_clients_server() {
    local tries
    PGPASSWORD=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export PGPASSWORD PGPORT
    printf '%s\n' 'local all all trust' \
        'host clients gpujoin_on,stock 127.0.0.1/32 scram-sha-256' >"$work/hba.conf"
    for tries in 1 2 3; do
        PGPORT=$((20000 + RANDOM % 10000))
        start_server clients <<CONF && return 0
listen_addresses = '127.0.0.1'
port = $PGPORT
hba_file = '$work/hba.conf'
fsync = off
autovacuum = off
jit = off
shared_preload_libraries = 'gpujoin'
gpujoin.device = '${CHECK_DEVICE:-auto}'
log_line_prefix = 'role=%u '
session_preload_libraries = 'auto_explain'
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_timing = off
auto_explain.log_nested_statements = off
CONF
    done
    return 1
}

# 500,000 orders of 20,000 customers, 1,000 of them in each region. The foreign key has only
# gpujoin's index; the primary key has its own, and gpujoin's as well. Strapi has a table for the
# links between them, and Payload wants a column "id".
make_data() {
    local children
    createdb --maintenance-db=postgres clients
    export PGDATABASE=clients
    sql >/dev/null <<'SQL'
SET auto_explain.log_min_duration = -1;
CREATE EXTENSION gpujoin;
CREATE TABLE customers (id int PRIMARY KEY, region int NOT NULL);
INSERT INTO customers SELECT id, id % 20 FROM generate_series(1, 20000) id;
CREATE TABLE orders (id bigint, customer_id int NOT NULL, amount int NOT NULL);
INSERT INTO orders SELECT id, 1 + abs(hashint8(id)) % 20000, id % 1000
    FROM generate_series(1, 500000) id ORDER BY hashint8(id);
ALTER TABLE orders ADD PRIMARY KEY (id), ADD FOREIGN KEY (customer_id) REFERENCES customers;
CREATE INDEX ON orders USING gpujoin (id);
CREATE INDEX ON orders USING gpujoin (customer_id);
CREATE TABLE orders_customer_lnk AS
    SELECT id::int, id AS order_id, customer_id, 1 AS order_ord FROM orders;
CREATE INDEX ON orders_customer_lnk (order_id);
CREATE INDEX ON orders_customer_lnk (customer_id);
CREATE INDEX ON orders_customer_lnk USING gpujoin (customer_id);
CREATE TABLE ids AS SELECT 50 * n AS id FROM generate_series(1, 10000) n;
CREATE TABLE accounts (uid uuid, code text NOT NULL, tenant_id int NOT NULL, number int NOT NULL,
    amount int NOT NULL, id int GENERATED ALWAYS AS (number) STORED);
INSERT INTO accounts SELECT md5('uid' || n)::uuid, 'acc_' || left(md5('code' || n), 20), n % 50, n,
        n % 1000
    FROM generate_series(1, 500000) n ORDER BY hashint4(n);
ALTER TABLE accounts ADD PRIMARY KEY (uid), ADD UNIQUE (code), ADD UNIQUE (tenant_id, number);
CREATE INDEX ON accounts USING gpujoin (uid);
CREATE INDEX ON accounts USING gpujoin (code);
CREATE INDEX ON accounts USING gpujoin (number) INCLUDE (tenant_id);
VACUUM ANALYZE;
CREATE ROLE gpujoin_on LOGIN;
CREATE ROLE stock LOGIN;
CREATE ROLE owner LOGIN;
GRANT CREATE ON SCHEMA public TO owner;
ALTER TABLE orders OWNER TO owner;
GRANT CREATE ON DATABASE clients TO gpujoin_on, stock;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO gpujoin_on, stock;
ALTER ROLE stock SET gpujoin.enabled = off;
SQL
    sql -c "ALTER ROLE gpujoin_on PASSWORD '$PGPASSWORD'" \
        -c "ALTER ROLE stock PASSWORD '$PGPASSWORD'"
    export IDS=$work/ids CUSTOMERS=$work/customers
    export UIDS=$work/uids CODES=$work/codes PAIRS=$work/pairs
    sql -c 'SELECT id FROM ids ORDER BY hashint4(id)' >"$IDS"
    sql -c 'SELECT id FROM customers WHERE region = 7' >"$CUSTOMERS"
    sql -c 'SELECT o.* FROM orders o JOIN ids USING (id)' | sort >"$log/answer-ids"
    sql -c 'SELECT o.* FROM orders o JOIN ids USING (id) WHERE id <= 25000' | sort \
        >"$log/answer-some"
    children='SELECT c.id, o.id, o.amount FROM customers c JOIN orders o ON o.customer_id = c.id
        WHERE c.region = 7'
    sql -c "$children" | sort >"$log/answer-children"
    wc -l <"$log/answer-children" >"$log/answer-number"
    sql -c 'SELECT uid FROM accounts WHERE number % 50 = 0' >"$UIDS"
    sql -c 'SELECT code FROM accounts WHERE number % 50 = 0' >"$CODES"
    sql -F ' ' -c 'SELECT tenant_id, number FROM accounts WHERE number % 499 = 7' >"$PAIRS"
    sql -c 'SELECT number, amount FROM accounts WHERE number % 50 = 0' | sort \
        >"$log/answer-accounts"
    sql -c 'SELECT number, amount FROM accounts WHERE number % 499 = 7' | sort \
        >"$log/answer-pairs"
    sql -c 'SELECT number, amount FROM accounts WHERE number % 499 = 7 AND number <= 50000' |
        sort >"$log/answer-some_pairs"
    sql -c 'SELECT c.id, count(o.id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id
        WHERE c.region = 7 GROUP BY c.id' | sort >"$log/answer-counts"
    wc -l <"$log/answer-ids" >"$log/answer-count"
    sql -c 'SELECT count(*) FROM orders JOIN customers c ON c.id = customer_id WHERE region <> 7' \
        >"$log/answer-others"
    # For clients that assign children to parents by comparing all pairs, and for statements with
    # which PostgreSQL alone reads the whole table for each parent.
    sql -c "$children AND c.id <= 500" | sort >"$log/answer-few"
}

# ---------------------------------------------------------------------------------------------
# A step
# ---------------------------------------------------------------------------------------------

passed=0
failed=0

result() { # ok|"not ok" TEXT
    if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    echo "$passed $failed" >"$log/totals"
    note "$1 - $2"
}

# run_step CLIENT STEP ROLE...: for each role at once, stores the sorted answer, the role's part of
# the server's log, and the client's exit status.
run_step() {
    local client=$1 step=$2 role from
    shift 2
    from=$(stat -c %s "$log/server-clients.log")
    for role in "$@"; do
        run_as "$role" "$log/$client-$step-$role" "$client" "$step" &
    done
    wait
    for role in "$@"; do
        tail -c "+$((from + 1))" "$log/server-clients.log" |
            awk -v role="role=$role" '/^role=/ {is_ours = $1 == role} is_ours' \
                >"$log/$client-$step-$role.log"
    done
}

run_as() { # ROLE FILE CLIENT STEP
    local role=$1 file=$2 status=0
    PGUSER=$role timeout --foreground -k 10 120 bash -c "$(declare -f start_client)
        python=$python jdbc_jar=$jdbc_jar work=$work; start_client $3 $4" \
        >"$file.out" 2>"$file.err" || status=$?
    sort -o "$file.out" "$file.out"
    echo "$status" >"$file.status"
}

# has_failed CLIENT STEP ROLE: shows the end of its messages if so.
has_failed() {
    local file=$log/$1-$2-$3
    [ "$(cat "$file.status")" != 0 ] || return 1
    result "not ok" "$1, $2: the client failed as $3"
    tail -n 5 "$file.err" | cut -c 1-200 | sed 's/^/      | /'
}

# plans_with NODE FILE: the number of logged plans with a custom scan of this kind.
plans_with() {
    awk -v node="Custom Scan ($1" '
        /^role=/ {hits += found; found = 0}
        index($0, node) {found = 1}
        END {print hits + found}' "$2"
}

# server_ms FILE: the times of the logged statements.
server_ms() {
    sed -nE 's/^role=.*duration: ([0-9.]+) ms +plan:.*/\1/p' "$1" |
        awk '{ms += $1} END {printf "%.0f", ms}'
}

# sent NODE FILE: the text of the last statement with such a plan, abridged.
sent() {
    awk -v node="Custom Scan ($1" '
        /^role=/ {text = ""; in_text = 0}
        /^\tQuery Text:/ {text = substr($0, 14); in_text = 1; next}
        in_text && /^\t[^ \t].*\(cost=/ {in_text = 0}
        in_text {text = text " " $0}
        index($0, node) {last = text}
        END {gsub(/[ \t\n]+/, " ", last); print last}' "$2" |
        sed -E 's/"//g; s/(SELECT|select) .* (FROM|from) /\1 ... \2 /;
            s/(, ?(\$?[0-9]+|'"'[0-9]+'"')(::[A-Za-z]+)?){20,}/, .../g;
            s/(,[0-9]+){20,}/,.../' | cut -c 1-150
}

check_step() {
    local client=$1 step=$2 answer=$3 node=$4 plans=$5 role found wrong=''
    run_step "$client" "$step" gpujoin_on stock
    for role in gpujoin_on stock; do
        ! has_failed "$client" "$step" "$role" || return 0
        cmp -s "$log/$client-$step-$role.out" "$log/answer-$answer" ||
            wrong+="; another answer as $role"
    done
    found=$(plans_with "$node" "$log/$client-$step-gpujoin_on.log")
    [ "$found" -ge "$plans" ] || wrong+="; $node in $found plans, not in $plans"
    grep -q 'role=stock .*plan:' "$log/$client-$step-stock.log" || wrong+="; no plan logged"
    [ "$(plans_with Gpu "$log/$client-$step-stock.log")" = 0 ] || wrong+="; used as stock"
    if [ -n "$wrong" ]; then
        result "not ok" "$client, $step: ${wrong#; }"
    else
        result ok "$client, $step: $found $node, $(wc -l <"$log/answer-$answer") rows, $(
            server_ms "$log/$client-$step-gpujoin_on.log") ms at the server, stock $(
            server_ms "$log/$client-$step-stock.log") ms"
        note "    sent: $(sent "$node" "$log/$client-$step-gpujoin_on.log")"
    fi
}

# Checks the index that a client creates, as the owner of the table
check_index() {
    local client=$1 columns='(customer_id)' found
    [ "$client" != sqlalchemy ] || columns='(customer_id) INCLUDE (amount)'
    run_step "$client" index owner
    ! has_failed "$client" index owner || return 0
    found=$(sql -c "SELECT indexdef FROM pg_indexes WHERE indexname = 'orders_customer'")
    sql -c 'DROP INDEX IF EXISTS orders_customer'
    if [ "${found#* USING }" = "gpujoin $columns" ]; then
        result ok "$client, index: $found"
    else
        result "not ok" "$client, index: \"$found\""
    fi
}

why_not() {
    local module
    module=$(npm_module_of "$1")
    if ! has_client "$1"; then
        echo "could not be had: $(packages_of "$1")"
    elif [ -n "$module" ] && [ ! -d "$work/npm/node_modules/$module" ]; then
        echo "npm could not install $module"
    fi
}

# ---------------------------------------------------------------------------------------------

echo "0 0" >"$log/totals"
build_and_install
say "starting a throw-away server"
start_clients_server
make_data
for client in $clients; do
    why=$(why_not "$client")
    if [ -n "$why" ]; then
        say "$client: skipped: $why"
        continue
    fi
    say "$client"
    if ! build_client "$client"; then
        result "not ok" "$client: its program could not be built: see build-$client.log"
        continue
    fi
    for step in $(steps_of "$client"); do
        IFS=: read -r name answer node plans <<<"$step"
        [ "$name" != index ] || { check_index "$client"; continue; }
        check_step "$client" "$name" "$answer" "$node" "$plans"
    done
done
stop_server clients
