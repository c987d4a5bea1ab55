-- Tables for the examples in docs/: orders of customers, as in a typical shop.
CREATE EXTENSION gpujoin;
CREATE TABLE customers (id int PRIMARY KEY, region int NOT NULL, name text NOT NULL);
INSERT INTO customers SELECT id, id % 200, 'customer ' || id FROM generate_series(1, 20000) id;
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int NOT NULL REFERENCES customers,
    status smallint NOT NULL, created_at timestamptz NOT NULL, amount int NOT NULL, note text);
INSERT INTO orders
    SELECT id, 1 + (id * 7919::bigint) % 20000, id / 7 % 5, '2026-01-01'::timestamptz + id * interval '1 minute',
        id % 1000, 'note ' || id
    FROM generate_series(1, 300000) id;
VACUUM (ANALYZE) customers, orders;
