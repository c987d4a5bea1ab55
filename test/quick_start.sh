#!/bin/sh
# test/quick_start.sh [README]: run the SQL of README.md's quick start with psql, which takes the
# connection from the environment, in a separate database. It must end without an error, and one
# of the displayed plans must have a node of gpujoin.
set -eu
readme=${1:-$(dirname "$0")/../README.md}
database=quick_start_$$
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

{
	echo 'CREATE EXTENSION IF NOT EXISTS gpujoin;'
	awk '/^## / {inside = /^## Quick start/}
		/^```/ {if (sql) {sql = 0; next} if (inside && /^```sql/) {sql = 1; next}}
		sql' "$readme"
} >"$folder/quick_start.sql"
grep -q 'USING gpujoin' "$folder/quick_start.sql" || {
	echo "$readme has no quick start" >&2
	exit 1
}
psql -qX -d "${PGDATABASE:-postgres}" -c "CREATE DATABASE $database"
status=0
psql -X -v ON_ERROR_STOP=1 -d "$database" -a -f - <"$folder/quick_start.sql" \
	>"$folder/output" 2>&1 || status=$?
psql -qX -d "${PGDATABASE:-postgres}" -c "DROP DATABASE $database"
cat "$folder/output"
[ "$status" = 0 ]
grep -q 'Custom Scan (Gpu' "$folder/output" || {
	echo "no plan with a node of gpujoin" >&2
	exit 1
}
