-- Tables of the no-regret rows that have a name (regret_rows.pl) and of the search
-- (regret_search.pl). Every distribution is uniform, so that the planner's estimates are right.

SET synchronous_commit = on;
SET maintenance_work_mem = '512MB';

-- events: twelve monthly partitions.
CREATE TABLE events (
    id int NOT NULL, user_id int NOT NULL, occurred_at timestamp NOT NULL, kind int NOT NULL,
    body text NOT NULL
) PARTITION BY RANGE (occurred_at);
SELECT format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%L) TO (%L)', m,
    timestamp '2026-01-01' + (m - 1) * interval '1 month',
    timestamp '2026-01-01' + m * interval '1 month')
FROM generate_series(1, 12) m \gexec
INSERT INTO events
SELECT i, i::bigint * 7919 % 100003, timestamp '2026-01-01' + i * interval '26 seconds' / 2,
    i % 10, md5(i::text)
FROM generate_series(1, 2400000) i;
CREATE INDEX ON events USING gpujoin (user_id) INCLUDE (occurred_at);
CREATE INDEX ON events (user_id);
VACUUM (FREEZE, ANALYZE) events;

-- products: rows of classes, for joins that return all columns.
CREATE TABLE classes AS
SELECT i AS class_id, 'class ' || i AS name, i % 100 AS section FROM generate_series(1, 4000) i;
CREATE TABLE products AS
SELECT i AS id, (i::bigint * 1000003 % 1000000)::int AS class_id, i % 1000 AS price,
    md5(i::text) AS title FROM generate_series(1, 2000000) i;
CREATE INDEX products_gpujoin ON products USING gpujoin (class_id) INCLUDE (price, id);
CREATE INDEX products_btree ON products (class_id);
VACUUM (FREEZE, ANALYZE) classes, products;

-- members: pairs of users and groups, each once.
CREATE TABLE members AS
SELECT DISTINCT (i::bigint * 7919 % 50021)::int AS user_id,
    (i::bigint * 104729 % 20011)::int AS group_id, i % 100 AS level
FROM generate_series(1, 1000000) i;
ALTER TABLE members ADD PRIMARY KEY (user_id, group_id);
CREATE INDEX members_gpujoin ON members USING gpujoin (group_id) INCLUDE (user_id);
VACUUM (FREEZE, ANALYZE) members;

-- items: an index of two runs with 210,000 dead entries and no delta.
CREATE TABLE items (id int, order_id int, qty int, note text) WITH (autovacuum_enabled = off);
INSERT INTO items
SELECT i, (i::bigint * 7919 % 70001)::int, i % 50, md5(i::text) FROM generate_series(1, 1400000) i;
CREATE INDEX items_gpujoin ON items USING gpujoin (order_id) INCLUDE (qty);
CREATE INDEX items_btree ON items (order_id);
UPDATE items SET qty = qty + 1 WHERE id % 20 < 3;
VACUUM (FREEZE, ANALYZE) items;

-- facts_*: the same rows sorted, in no order, half and wholly unsorted in the index, and in
-- partitions. k has 20,000 values, id and ts are unique, g has 100 groups.
CREATE TABLE fact (
    id int NOT NULL, k int NOT NULL, ts int NOT NULL, v int NOT NULL, w int NOT NULL,
    g int NOT NULL, pad text NOT NULL
);
CREATE VIEW fact_rows AS
SELECT i AS id, abs(hashint4(i) % 20000) AS k, (i::bigint * 104729 % 600011)::int AS ts,
    abs(hashint4(-i) % 1000) AS v, abs(hashint4(i + 1000000000) % 1000) AS w,
    abs(hashint4(i - 1000000000) % 100) AS g, md5(i::text) AS pad
FROM generate_series(1, :facts) i;

CREATE TABLE facts_sorted (LIKE fact);
CREATE TABLE facts_random (LIKE fact);
CREATE TABLE facts_delta (LIKE fact);
CREATE TABLE facts_unsorted (LIKE fact);
CREATE TABLE facts_parts (LIKE fact) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE facts_parts_%s PARTITION OF facts_parts FOR VALUES FROM (%s) TO (%s)',
    p, :facts * (p - 1) / 6 + 1, :facts * p / 6 + 1)
FROM generate_series(1, 6) p \gexec
INSERT INTO facts_sorted SELECT * FROM fact_rows ORDER BY k;
INSERT INTO facts_random SELECT * FROM fact_rows;
INSERT INTO facts_parts SELECT * FROM fact_rows;
INSERT INTO facts_delta SELECT * FROM fact_rows WHERE id > :facts * :delta;
-- The indexes of one relation, by name and table, so that each can be hidden.
SELECT format('CREATE INDEX %1$s_plain ON %1$s USING gpujoin (k)', t),
    format('CREATE INDEX %1$s_include ON %1$s USING gpujoin (k) INCLUDE (ts, v)', t),
    format('CREATE INDEX %1$s_unique ON %1$s USING gpujoin (id)', t),
    format('CREATE INDEX %1$s_btree ON %1$s (k)', t),
    format('CREATE UNIQUE INDEX %1$s_pkey ON %1$s (id)', t)
FROM unnest('{facts_sorted, facts_random, facts_delta, facts_unsorted, facts_parts}'::text[]) t
\gexec
INSERT INTO facts_delta SELECT * FROM fact_rows WHERE id <= :facts * :delta;
INSERT INTO facts_unsorted SELECT * FROM fact_rows;
VACUUM (FREEZE, ANALYZE) facts_sorted, facts_random, facts_parts;
-- VACUUM would sort the rows of an index.
VACUUM (FREEZE, ANALYZE, INDEX_CLEANUP off) facts_delta, facts_unsorted;

-- keyset: keys of small tables, of which "place <= n" takes n.
CREATE TABLE keyset AS
SELECT i AS place, (i * 7919 % 20000) AS k, (i::bigint * 7919 % :facts + 1)::int AS id
FROM generate_series(1, 20000) i;
VACUUM (FREEZE, ANALYZE) keyset;
CHECKPOINT;
