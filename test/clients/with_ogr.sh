#!/usr/bin/env bash
# GDAL's ogr2ogr: a statement, executed twice, for its columns and for its rows, by cursors.
set -eo pipefail

text_list() { sed "s/.*/'&'/" "$1" | paste -sd, -; }
number_list() { paste -sd, "$1"; }
pair_list() { sed 's/\(.*\) \(.*\)/(\1,\2)/' "$1" | paste -sd, -; }

statement=$(mktemp)
trap 'rm "$statement"' EXIT

# The output has a line of names, and quotes texts.
rows() {
    echo "SELECT $1" >"$statement"
    ogr2ogr -f CSV -lco SEPARATOR=SEMICOLON /vsistdout/ PG:dbname=clients -sql "@$statement" |
        tail -n +2 | tr -d '"' | tr ';' '|'
}
accounts_where() { rows "number, amount FROM accounts WHERE $1"; }

case $1 in
    in) rows "id, customer_id, amount FROM orders WHERE id IN ($(number_list "$IDS"))" ;;
    uuid) accounts_where "uid IN ($(text_list "$UIDS"))" ;;
    code) accounts_where "code IN ($(text_list "$CODES"))" ;;
    pair) accounts_where "(tenant_id, number) IN ($(pair_list "$PAIRS"))" ;;
esac
