-- Functions of an index run with its owner's rights when another user checks the index.
CREATE ROLE gj_owner;
CREATE SCHEMA gj_schema AUTHORIZATION gj_owner;
SET ROLE gj_owner;
CREATE TABLE gj_schema.log (who name);
GRANT ALL ON gj_schema.log TO public;
CREATE TABLE gj_schema.t (id int);
INSERT INTO gj_schema.t VALUES (1), (2);
CREATE FUNCTION gj_schema.f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
	$$ BEGIN RETURN $1; END $$;
CREATE INDEX gj_i ON gj_schema.t USING gpujoin (gj_schema.f(id));
-- declared immutable, but calls one that is not
CREATE FUNCTION gj_schema.g() RETURNS void LANGUAGE sql VOLATILE AS
	$$ INSERT INTO gj_schema.log VALUES (current_user) $$;
CREATE OR REPLACE FUNCTION gj_schema.f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
	$$ BEGIN PERFORM gj_schema.g(); RETURN $1; END $$;
RESET ROLE;
SELECT gpujoin_check('gj_schema.gj_i', true);
SELECT DISTINCT who FROM gj_schema.log;

-- column privileges: the node requires exactly those that a scan requires
CREATE TABLE gj_schema.big (id int, k int, secret text);
INSERT INTO gj_schema.big SELECT i, i % 100, 'x' FROM generate_series(1, 1000) i;
CREATE INDEX ON gj_schema.big USING gpujoin (k);
GRANT SELECT (id, k) ON gj_schema.big TO gj_owner;
SET gpujoin.force = on;
SET ROLE gj_owner;
SELECT count(id) FROM gj_schema.big WHERE k IN (1, 2);
SELECT count(secret) FROM gj_schema.big WHERE k IN (1, 2);
SELECT count(id) FROM gj_schema.big JOIN (VALUES (1), (2)) s (v) ON k = v;
SELECT count(secret) FROM gj_schema.big JOIN (VALUES (1), (2)) s (v) ON k = v;
RESET ROLE;
REVOKE SELECT (k) ON gj_schema.big FROM gj_owner;
SET ROLE gj_owner;
SELECT count(id) FROM gj_schema.big WHERE k IN (1, 2);
SELECT count(id) FROM gj_schema.big JOIN (VALUES (1), (2)) s (v) ON k = v;
RESET ROLE;
RESET gpujoin.force;
DROP SCHEMA gj_schema CASCADE;
DROP ROLE gj_owner;

-- WHERE CURRENT OF finds its row with a TID scan, also if a policy uses the key
CREATE ROLE gj_owner;
CREATE SCHEMA gj_schema;
CREATE TABLE gj_schema.t (id int, k int);
INSERT INTO gj_schema.t SELECT i, i % 100 FROM generate_series(1, 1000) i;
CREATE TABLE gj_schema.part (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE gj_schema.part_1 PARTITION OF gj_schema.part FOR VALUES FROM (0) TO (500);
CREATE TABLE gj_schema.part_2 PARTITION OF gj_schema.part FOR VALUES FROM (500) TO (2000);
INSERT INTO gj_schema.part TABLE gj_schema.t;
CREATE TABLE gj_schema.s (v int);
INSERT INTO gj_schema.s VALUES (1), (2), (3);
CREATE INDEX ON gj_schema.t USING gpujoin (k);
CREATE INDEX ON gj_schema.part USING gpujoin (k);
GRANT USAGE ON SCHEMA gj_schema TO gj_owner;
GRANT ALL ON gj_schema.t, gj_schema.part, gj_schema.s TO gj_owner;
ALTER TABLE gj_schema.t ENABLE ROW LEVEL SECURITY;
ALTER TABLE gj_schema.part ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON gj_schema.t USING (k IN (1, 2, 3));
CREATE POLICY few ON gj_schema.part USING (k IN (1, 2, 3));
SET gpujoin.force = on;
SET ROLE gj_owner;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM gj_schema.t WHERE id = 102;
DECLARE d CURSOR FOR SELECT * FROM gj_schema.part WHERE id + 0 = 702;
FETCH c;
FETCH d;
EXPLAIN (COSTS OFF) UPDATE gj_schema.t SET id = -1 WHERE CURRENT OF c;
SELECT relation, reason FROM gpujoin_explain_choice(
	'UPDATE gj_schema.t SET id = -1 WHERE CURRENT OF c');
UPDATE gj_schema.t SET id = -1 FROM gj_schema.s WHERE CURRENT OF c RETURNING *;
UPDATE gj_schema.part SET k = 3 WHERE CURRENT OF d RETURNING *;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM gj_schema.t WHERE k IN (1, 2);
FETCH c;
DELETE FROM gj_schema.t WHERE CURRENT OF c RETURNING *;
ROLLBACK;
RESET ROLE;
RESET gpujoin.force;
SET client_min_messages = warning;
DROP SCHEMA gj_schema CASCADE;
DROP ROLE gj_owner;
