# prisma.sh: sourced by the scripts about Prisma, after lib.sh. It makes customers with orders,
# installs Prisma and generates its client.
# shellcheck shell=bash

# 2,000 customers and their 100,000 orders, of 1,000 different amounts
make_customers() {
    sql -f - <<'SQL'
CREATE TABLE customers (id int PRIMARY KEY, region int NOT NULL);
INSERT INTO customers SELECT i, i % 20 FROM generate_series(1, 2000) i;
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customers,
    amount int NOT NULL);
INSERT INTO orders SELECT i, 1 + i % 2000, i % 1000 FROM generate_series(1, 100000) i;
CREATE INDEX ON orders (customer);
ANALYZE customers, orders;
SQL
}

# Prisma needs no program of its own to generate its client, but looks for one.
make_client() {
    npm_packages @prisma/client@7.10.0 @prisma/adapter-pg@7.10.0 prisma@7.10.0 pg@8.23.1
    # shellcheck disable=SC2154  # of lib.sh
    cat >"$temp/schema.prisma" <<'SCHEMA'
generator client {
  provider        = "prisma-client-js"
  previewFeatures = ["relationJoins"]
  output          = "./client"
}
datasource db {
  provider = "postgresql"
}
model Customer {
  id     Int     @id
  region Int
  orders Order[]
  @@map("customers")
}
model Order {
  id         Int      @id
  customerId Int      @map("customer")
  amount     Int
  customer   Customer @relation(fields: [customerId], references: [id])
  @@map("orders")
}
SCHEMA
    (cd "$temp" && PRISMA_SCHEMA_ENGINE_BINARY=/bin/true CHECKPOINT_DISABLE=1 \
        node_modules/.bin/prisma generate --schema schema.prisma >generate.log 2>&1) ||
        die "prisma generate fails"
}

# run_client: runs the body of a function, the standard input, which has db, ids, and a list "sent"
# of the statements; those are abridged
run_client() {
    {
        cat <<'JS'
const { PrismaPg } = require('@prisma/adapter-pg');
const { PrismaClient } = require('./client');
const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
const db = new PrismaClient({ adapter: new PrismaPg({ host, port: Number(port), user, database }),
    log: [{ emit: 'event', level: 'query' }] });
const ids = Array.from({ length: 40000 }, (_, i) => i + 1);
const sent = [];
db.$on('query', ({ query }) => sent.push(query.replace(/^SELECT .*? FROM/, 'SELECT ... FROM')
    .replace(/(\$\d+,)+/g, '$...,')));
(async () => {
JS
        cat
        # shellcheck disable=SC2016  # JavaScript
        echo '})().finally(() => db.$disconnect());'
    } >"$temp/program.js"
    (cd "$temp" && node program.js) || die "the client fails"
}
