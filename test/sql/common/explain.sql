\set ECHO none
-- EXPLAIN without version-dependent output: PostgreSQL 18 shows buffers, fractions of rows and
-- disabled nodes, 17 has other names for the values of InitPlans, and 19 for some subqueries, and
-- says what a node replaces
CREATE FUNCTION explain(options text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (BUFFERS OFF, %s) %s', options, query) LOOP
		CONTINUE WHEN line ~ '^ +(Disabled: true|Replaces: MinMaxAggregate)';
		line := regexp_replace(line, '(actual rows=\d+)\.00', '\1');
		line := regexp_replace(line, 'InitPlan (\d+) \(returns \$\d+\)', 'InitPlan \1');
		line := regexp_replace(line, 'InitPlan (array|minmax)_', 'InitPlan ', 'g');
		line := replace(line, 'unnamed_subquery', '"ANY_subquery"');
		RETURN NEXT regexp_replace(line, '\$0\y', '(InitPlan 1).col1');
	END LOOP;
END $$;
\set ECHO all
