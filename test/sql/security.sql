-- Whose rights do functions of an index run with when somebody else checks it?
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
-- says it is immutable, and calls one that is not
CREATE FUNCTION gj_schema.g() RETURNS void LANGUAGE sql VOLATILE AS
	$$ INSERT INTO gj_schema.log VALUES (current_user) $$;
CREATE OR REPLACE FUNCTION gj_schema.f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
	$$ BEGIN PERFORM gj_schema.g(); RETURN $1; END $$;
RESET ROLE;
SELECT gpujoin_check('gj_schema.gj_i', true);
SELECT DISTINCT who FROM gj_schema.log;

-- column privileges: the node asks for no more and no less than a scan
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
