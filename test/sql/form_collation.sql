--
-- Keys of strings under several collations. Hashes depend on a nondeterministic collation; under
-- deterministic ones strings are equal if their bytes are.
--
CREATE SCHEMA form_collation;
SET search_path = form_collation, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

CREATE TABLE big (id int, t text COLLATE "C", u text COLLATE "POSIX", c char(12) COLLATE "C");
INSERT INTO big SELECT i, w, w, w FROM (SELECT i, CASE WHEN i % 2 = 0 THEN 'key ' ELSE 'KEY ' END || i % 300 AS w
	FROM generate_series(1, 6000) i) q;
CREATE INDEX big_t ON big USING gpujoin (t);
CREATE INDEX big_u ON big USING gpujoin (u COLLATE "C");
CREATE INDEX big_c ON big USING gpujoin (c);
ANALYZE big;
-- two deterministic collations
SELECT compare('SELECT * FROM big WHERE t IN (''key 2'', ''KEY 3'')');
SELECT compare('SELECT * FROM big WHERE t COLLATE "POSIX" IN (''key 2'', ''KEY 3'')');
SELECT compare('SELECT * FROM big WHERE t = ''key 2'' COLLATE "default" OR t = ''KEY 3''');
SELECT compare('SELECT * FROM big WHERE u IN (''key 2'', ''KEY 3'')');
SELECT compare('SELECT * FROM big WHERE c COLLATE "POSIX" IN (''key 2'', ''KEY 3'')');
SELECT compare('SELECT * FROM big WHERE c::text COLLATE "POSIX" IN (''key 2'', ''KEY 3'')');

-- A type whose own equality depends on the collation: only the index's will do
CREATE FUNCTION fold_eq(text, text) RETURNS bool IMMUTABLE STRICT LANGUAGE sql
	AS $$ SELECT lower($1) OPERATOR(pg_catalog.=) lower($2) $$;
CREATE FUNCTION fold_hash(text, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
	AS $$ SELECT hashtextextended(lower($1), $2) $$;
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = fold_eq, COMMUTATOR = ===, HASHES);
CREATE OPERATOR CLASS fold_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 ===, FUNCTION 2 fold_hash(text, int8), STORAGE int8;
CREATE INDEX big_fold ON big USING gpujoin (t fold_ops);
SELECT compare('SELECT * FROM big WHERE t === ANY (''{key 2,Key 3}'')');
SELECT compare('SELECT * FROM big WHERE t === ANY (''{key 2,Key 3}'' COLLATE "POSIX")');

-- A type that is binary compatible with text gets the class of text; without an operator = of its own, text's use it
SET client_min_messages = warning;
CREATE TYPE label;
CREATE FUNCTION label_in(cstring) RETURNS label IMMUTABLE STRICT LANGUAGE internal AS 'textin';
CREATE FUNCTION label_out(label) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'textout';
CREATE TYPE label (INPUT = label_in, OUTPUT = label_out, LIKE = text, COLLATABLE = true);
RESET client_min_messages;
CREATE CAST (label AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (text AS label) WITHOUT FUNCTION;
CREATE TABLE labels (id int, l label);
INSERT INTO labels SELECT id, t::label FROM big;
CREATE INDEX labels_text ON labels USING gpujoin (l);
ANALYZE labels;
SELECT compare('SELECT * FROM labels WHERE l = ANY (''{key 2,Key 3}''::label[])');
DROP INDEX labels_text;
-- ... which its own ones do not
CREATE FUNCTION label_eq(label, label) RETURNS bool IMMUTABLE STRICT LANGUAGE sql
	AS $$ SELECT lower($1) OPERATOR(pg_catalog.=) lower($2) $$;
CREATE FUNCTION label_hash(label, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
	AS $$ SELECT hashtextextended(lower($1), $2) $$;
CREATE OPERATOR = (LEFTARG = label, RIGHTARG = label, FUNCTION = label_eq, COMMUTATOR = =, HASHES);
CREATE INDEX labels_wrong ON labels USING gpujoin (l);
SELECT compare('SELECT * FROM labels WHERE l = ANY (''{key 2,Key 3}''::label[])');
DROP INDEX labels_wrong;
CREATE OPERATOR CLASS label_ops DEFAULT FOR TYPE label USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 label_hash(label, int8), STORAGE int8;
CREATE INDEX labels_right ON labels USING gpujoin (l);
SELECT compare('SELECT * FROM labels WHERE l = ANY (''{key 2,Key 3}''::label[])');

-- Nondeterministic collations, if the server has ICU
SELECT count(*) = 0 AS no_icu FROM pg_collation WHERE collprovider = 'i' \gset
\if :no_icu
\quit
\endif
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE folded (id int, t text COLLATE nocase, c char(12) COLLATE nocase, v varchar(20) COLLATE nocase);
INSERT INTO folded SELECT id, t, t, t FROM big;
INSERT INTO folded SELECT i, 'Ke', 'Ke', 'Ke' FROM generate_series(1, 10) i;
CREATE INDEX folded_t ON folded USING gpujoin (t);
CREATE INDEX folded_c ON folded USING gpujoin (c);
CREATE INDEX folded_v ON folded USING gpujoin (v COLLATE "C");
ANALYZE folded;
SELECT compare('SELECT * FROM folded WHERE t IN (''key 2'', ''Key 3'', ''kE'')');
SELECT compare('SELECT * FROM folded WHERE c IN (''key 2'', ''Key 3   '', ''kE  '')');
SELECT compare('SELECT * FROM folded WHERE t = ''KEY 17'' OR t = ''none''');
-- not for ids, whose equality is that of bytes
CREATE INDEX folded_ids ON folded USING gpujoin (t text_id_ops);
-- the index's collation is not the condition's
SELECT compare('SELECT * FROM folded WHERE t COLLATE "C" IN (''key 2'', ''Key 3'', ''kE'')');
SELECT compare('SELECT * FROM folded WHERE v IN (''key 2'', ''Key 3'', ''kE'')');
SELECT compare('SELECT * FROM folded WHERE v COLLATE "C" IN (''key 2'', ''Key 3'', ''Ke'')');
SELECT compare('SELECT * FROM big WHERE t COLLATE nocase IN (''key 2'', ''Key 3'')');
SELECT compare('SELECT * FROM folded WHERE t = ''key 2''::name COLLATE nocase');
-- casts to text compare bytes only under a deterministic collation
CREATE INDEX folded_id ON folded USING gpujoin (id);
SELECT compare('SELECT * FROM folded WHERE c::text IN (''key 2'', ''Key 3'', ''kE'')');
SELECT compare('SELECT * FROM folded WHERE c::text COLLATE "C" IN (''key 2'', ''Key 3'', ''Ke'')');
SELECT compare('SELECT * FROM big WHERE c::text COLLATE nocase IN (''key 2'', ''Key 3'')');
SELECT compare('SELECT * FROM folded WHERE id::text COLLATE nocase IN (''2'', ''3'')');
SELECT compare('SELECT * FROM folded WHERE id::text COLLATE "C" IN (''2'', ''3'')');
SELECT reason FROM gpujoin_explain_choice('SELECT * FROM folded WHERE id::text COLLATE nocase IN (''2'', ''3'')') WHERE index = 'folded_id'::regclass;
SELECT reason FROM gpujoin_explain_choice('SELECT * FROM folded WHERE v IN (''key 2'', ''Key 3'')') WHERE index = 'folded_v'::regclass;
-- joins
EXPLAIN (COSTS OFF) SELECT count(*) FROM folded f JOIN unnest('{KEY 2,kEy 3}'::text[]) v (t) ON f.t = v.t;
SELECT count(*) FROM folded f JOIN unnest('{KEY 2,kEy 3}'::text[]) v (t) ON f.t = v.t;
SELECT count(*) FROM folded f JOIN unnest('{KEY 2,kEy 3  }'::char(12)[]) v (c) ON f.c = v.c;
SELECT count(*) FROM folded f JOIN unnest('{KEY 2,kEy 3}'::text[]) v (t) ON f.v = v.t;
INSERT INTO folded VALUES (0, 'kEY 2', 'kEY 2', 'kEY 2');
UPDATE folded SET t = upper(t) WHERE t = 'key 4';
SELECT compare('SELECT * FROM folded WHERE t IN (''key 2'', ''Key 4'')');
SELECT gpujoin_check('folded_t', true) >= (SELECT count(*) FROM folded) AS sound;

SET client_min_messages = warning;
DROP SCHEMA form_collation CASCADE;
