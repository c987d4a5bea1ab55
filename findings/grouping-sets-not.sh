#!/usr/bin/env bash
# grouping-sets-not.sh: NOT of a grouped condition has the value of any row of the group.
#
# Seen with PostgreSQL 15.20 (2026-11-29).
#
# With GROUPING SETS, an expression that is not in the current set is NULL, and so is NOT of it. But
# the planner turns NOT (a > 3 AND NOT b) into a <= 3 OR b, and no longer recognizes the grouped
# expression. It computes the new one from one row of each group instead. So the answer depends on
# the order in which rows are read: two tables with the same rows give different ones, and neither
# is NULL. The condition itself, without NOT, is right in both.
#
# Consequence: such a column may differ between two plans of the same query, with gpujoin as with
# any other index; whoever compares plans must leave it out.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
start_server

sql -f - <<'SQL'
CREATE TABLE one (a int, b boolean, c int);
CREATE TABLE other (LIKE one);
INSERT INTO one VALUES (5, true, 1), (5, false, 1);
INSERT INTO other VALUES (5, false, 1), (5, true, 1);
SQL

for table in one other; do
    expect "table $table: the condition and NOT of it, in the group c = 1" \
        "$([ $table = one ] && echo 'NULL|t|2' || echo 'NULL|f|2')" \
        "$(sql -P null=NULL -c "SELECT x, y, n FROM (
            SELECT a > 3 AND NOT b AS x, NOT (a > 3 AND NOT b) AS y, c, count(*) AS n
            FROM $table GROUP BY GROUPING SETS ((a > 3 AND NOT b), (c))) q WHERE c = 1")"
done
