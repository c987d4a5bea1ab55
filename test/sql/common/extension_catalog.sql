-- pg_temp.extension_catalog(extension): everything that the catalogs contain about an extension,
-- one line a fact, with names instead of OIDs. Two databases can thus be compared: one in which the
-- extension was created, and one in which an update brought it to the same version.
--
-- It takes the extension's members, objects that depend on them as their parts (rules, columns'
-- defaults, indexes, members of operator families), and for each of these the rows of all catalogs
-- that describe it: each column of such a row is a fact. The server itself reports which columns
-- are references, and to what, so this code depends on nothing in the extension. It omits facts
-- about where or when an object was made, such as the stamp that new minor versions put on columns,
-- and replaces trees of nodes by their source text.

-- Return privileges sorted, or the owner's default privileges if none were ever granted
CREATE FUNCTION pg_temp.sorted_privileges(acl aclitem[], "default" aclitem[]) RETURNS text
	LANGUAGE sql AS $$
SELECT string_agg(a::text, ' ' ORDER BY a::text COLLATE "C") FROM unnest(coalesce(acl, "default")) a
$$;

-- Return the source text of an object
CREATE FUNCTION pg_temp.written_as(class regclass, object oid) RETURNS text
	LANGUAGE plpgsql AS $$
BEGIN
	CASE class::text
		WHEN 'pg_class' THEN RETURN (
			SELECT concat_ws('; ',
				CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(object) END,
				CASE WHEN relkind IN ('i', 'I') THEN pg_get_indexdef(object) END,
				'privileges ' || pg_temp.sorted_privileges(relacl,
					acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)))
			FROM pg_class WHERE oid = object);
		WHEN 'pg_proc' THEN RETURN (
			SELECT concat_ws('; ', pg_get_function_arguments(object),
				pg_get_function_result(object), pg_get_function_sqlbody(object),
				'privileges ' || pg_temp.sorted_privileges(proacl, acldefault('f', proowner)))
			FROM pg_proc WHERE oid = object);
		WHEN 'pg_type' THEN RETURN (
			SELECT 'privileges ' || pg_temp.sorted_privileges(typacl, acldefault('T', typowner))
			FROM pg_type WHERE oid = object);
		WHEN 'pg_rewrite' THEN RETURN pg_get_ruledef(object);
		WHEN 'pg_trigger' THEN RETURN pg_get_triggerdef(object);
		WHEN 'pg_constraint' THEN RETURN pg_get_constraintdef(object);
		WHEN 'pg_statistic_ext' THEN RETURN pg_get_statisticsobjdef(object);
		WHEN 'pg_attrdef' THEN RETURN (
			SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE oid = object);
		WHEN 'pg_policy' THEN RETURN (
			SELECT concat_ws('; ', pg_get_expr(polqual, polrelid),
				pg_get_expr(polwithcheck, polrelid))
			FROM pg_policy WHERE oid = object);
		ELSE RETURN NULL;
	END CASE;
END $$;

-- Remove the parts of a text that differ between databases: OIDs in the names of TOAST tables, and
-- stamps of columns
CREATE FUNCTION pg_temp.without_marks(said text) RETURNS text
	LANGUAGE sql AS $$
SELECT regexp_replace(said, '(pg_toast_|pg_attver=)[0-9]+', '\1', 'g')
$$;

-- Return an object's name, the same in each database
CREATE FUNCTION pg_temp.name_of(class regclass, object oid, part int DEFAULT 0) RETURNS text
	LANGUAGE sql AS $$
SELECT CASE WHEN object = 0 THEN '-' ELSE pg_temp.without_marks(type || ' ' || identity) END
FROM pg_identify_object(class, object, part)
$$;

-- Columns of the catalogs that refer to an object, with its class
CREATE TEMP TABLE catalog_reference AS
SELECT fktable, fkcols[1] AS fkcol, pktable, is_array FROM pg_get_catalog_foreign_keys()
WHERE cardinality(fkcols) = 1 AND pkcols = ARRAY['oid'];

-- Return a catalog's row, given as JSON, as facts
CREATE FUNCTION pg_temp.facts_of_row(catalog regclass, catalog_row jsonb)
	RETURNS TABLE (column_name text, fact text) LANGUAGE sql AS $$
SELECT v.key,
	CASE WHEN f.pktable IS NULL THEN pg_temp.without_marks(v.value #>> '{}')
		WHEN jsonb_typeof(v.value) = 'array' THEN (
			SELECT string_agg(pg_temp.name_of(f.pktable, e::oid), ', ' ORDER BY place)
			FROM jsonb_array_elements_text(v.value) WITH ORDINALITY AS each (e, place))
		WHEN f.is_array THEN (
			SELECT string_agg(pg_temp.name_of(f.pktable, e::oid), ', ' ORDER BY place)
			FROM regexp_split_to_table(v.value #>> '{}', ' ') WITH ORDINALITY AS each (e, place)
			WHERE e <> '')
		ELSE pg_temp.name_of(f.pktable, (v.value #>> '{}')::oid) END
FROM jsonb_each(catalog_row) AS v
	JOIN pg_attribute a ON a.attrelid = catalog AND a.attname = v.key
	LEFT JOIN pg_temp.catalog_reference f ON f.fktable = catalog AND f.fkcol = v.key
WHERE a.atttypid NOT IN ('pg_node_tree'::regtype, 'aclitem[]'::regtype)
	AND v.value <> 'null' AND v.key <> ALL (ARRAY['oid', 'relfilenode', 'relpages', 'reltuples',
		'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid', 'attcacheoff', 'attnum',
		'attrelid', 'objoid', 'objid'])
$$;

-- Return an expression for the row r of a catalog as JSON. The text of a regproc is ambiguous if
-- several functions have the same name.
CREATE FUNCTION pg_temp.in_json(catalog regclass) RETURNS text LANGUAGE sql AS $$
SELECT format('to_jsonb(r) || jsonb_build_object(%s)',
	string_agg(format('%L, r.%I::oid', attname, attname), ', '))
FROM pg_attribute
WHERE attrelid = catalog AND attnum > 0 AND atttypid = 'regproc'::regtype
$$;

CREATE FUNCTION pg_temp.extension_catalog(extension name) RETURNS SETOF text
	LANGUAGE plpgsql SET search_path = pg_catalog SET client_min_messages = warning AS $$
DECLARE
	part record;
	described record;
	key_column name;
BEGIN
	CREATE TEMP TABLE IF NOT EXISTS extension_part (class oid, object oid, name text);
	TRUNCATE extension_part;
	WITH RECURSIVE parts (class, object) AS (
		SELECT 'pg_extension'::regclass::oid, oid FROM pg_extension WHERE extname = extension
		UNION
		SELECT d.classid, d.objid FROM parts p JOIN pg_depend d
			ON d.refclassid = p.class AND d.refobjid = p.object AND d.deptype IN ('e', 'i', 'a')
	)
	INSERT INTO extension_part SELECT class, object, pg_temp.name_of(class, object) FROM parts;

	FOR part IN SELECT * FROM extension_part LOOP
		RETURN NEXT part.name;
		RETURN NEXT part.name || ' is written as ' ||
			pg_temp.without_marks(pg_temp.written_as(part.class, part.object));
		-- Its own row, and rows of catalogs that describe objects of this class further
		FOR described IN
			SELECT part.class::regclass AS catalog, 'oid' AS key_column
			UNION ALL
			SELECT more.catalog, more.key_column
			FROM (VALUES ('pg_index'::regclass, 'pg_class'::regclass, 'indexrelid'),
				('pg_sequence', 'pg_class', 'seqrelid'), ('pg_inherits', 'pg_class', 'inhrelid'),
				('pg_partitioned_table', 'pg_class', 'partrelid'),
				('pg_aggregate', 'pg_proc', 'aggfnoid'), ('pg_range', 'pg_type', 'rngtypid'),
				('pg_enum', 'pg_type', 'enumtypid')) AS more (catalog, class, key_column)
			WHERE class = part.class LOOP
			RETURN QUERY EXECUTE format(
				'SELECT %L || '': %s.'' || column_name || '' = '' || fact
				FROM %s AS r, pg_temp.facts_of_row(%L, %s) WHERE r.%I = %L',
				part.name, described.catalog, described.catalog, described.catalog,
				pg_temp.in_json(described.catalog), described.key_column, part.object);
		END LOOP;
		IF part.class = 'pg_class'::regclass THEN
			-- Numbered by rank: a dropped column leaves its number unused
			RETURN QUERY SELECT format('%s: column %s: %s = %s', part.name, r.rank,
					f.column_name, f.fact)
				FROM (SELECT row_number() OVER (ORDER BY attnum) AS rank, to_jsonb(a) AS facts
					FROM pg_attribute a
					WHERE attrelid = part.object AND attnum > 0 AND NOT attisdropped) r,
					pg_temp.facts_of_row('pg_attribute', r.facts) f;
			RETURN QUERY SELECT format('%s: column %s: privileges %s', part.name, attname,
					pg_temp.sorted_privileges(attacl, NULL))
				FROM pg_attribute WHERE attrelid = part.object AND attacl IS NOT NULL;
		END IF;
		-- Facts that catalogs have about objects of all classes
		RETURN QUERY SELECT format('%s: part %s: comment %s', part.name, objsubid, description)
			FROM pg_description WHERE classoid = part.class AND objoid = part.object;
		RETURN QUERY SELECT format('%s: part %s: label %s %s', part.name, objsubid, provider, label)
			FROM pg_seclabel WHERE classoid = part.class AND objoid = part.object;
		RETURN QUERY SELECT format('%s: part %s: initial privileges %s %s', part.name, objsubid,
				privtype, pg_temp.sorted_privileges(initprivs, NULL))
			FROM pg_init_privs WHERE classoid = part.class AND objoid = part.object;
		RETURN QUERY SELECT format('%s: part %s: depends (%s) on %s', part.name, objsubid, deptype,
				pg_temp.name_of(refclassid, refobjid, refobjsubid))
			FROM pg_depend WHERE classid = part.class AND objid = part.object;
		RETURN QUERY SELECT format('%s: part %s: depends (%s) on %s', part.name, objsubid, deptype,
				pg_temp.name_of(refclassid, refobjid))
			FROM pg_shdepend WHERE classid = part.class AND objid = part.object
				AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database());
	END LOOP;
END $$;
