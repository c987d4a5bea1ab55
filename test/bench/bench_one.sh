#!/usr/bin/env bash
# test/bench/bench_one.sh: an application with three sets of indexes, on a throw-away server
# (test/setup.sh): a btree, a btree and a gpujoin index, or a gpujoin index alone on each column
# that is looked up and not unique; then single statements, and look-ups beside insertions, with a
# btree or a gpujoin index alone. Prints a report in markdown; one.pl, one_statements.sql and
# one_beside.sh in test/bench measure.
#
#   ONE_ROWS    orders of the application, which have twice as many items, and rows of the table of
#               the single statements (1000000)
#   ONE_ROUNDS  measured rounds, in which the three take turns (7)
#   ONE_OUT     also write the report to this file
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

last_words() {
    if [ "$1" != 0 ]; then
        note "logs: $logs_kept_in"
    elif [ -n "${ONE_OUT:-}" ]; then
        cp "$logs_kept_in/one.md" "$ONE_OUT" && note "written to $ONE_OUT"
    fi
}

export ONE_ROWS=${ONE_ROWS:-1000000} ONE_ROUNDS=${ONE_ROUNDS:-7}
for value in "$ONE_ROWS" "$ONE_ROUNDS"; do
    [[ $value =~ ^[1-9][0-9]*$ ]] || die "not a whole number: \"$value\""
done
inside || run_inside one test/bench/bench_one.sh

build_and_install
say "starting a throw-away server"
printf '%s\n' "shared_preload_libraries = 'gpujoin'" "shared_buffers = '2GB'" \
    "max_wal_size = '8GB'" "checkpoint_timeout = '1h'" "autovacuum = off" "fsync = off" \
    "jit = off" "gpujoin.device = 'none'" | start_server one
createdb one
say "measuring $ONE_ROWS orders, $ONE_ROUNDS rounds"
PGDATABASE=one perl test/bench/one.pl "$ONE_ROWS" "$ONE_ROUNDS" "$work/one/postmaster.pid" \
    >"$log/one.md"
say "measuring single statements, $ONE_ROWS rows"
createdb statements
psql -Xq -d statements -v rows="$ONE_ROWS" -v rounds="$ONE_ROUNDS" \
    -f test/bench/one_statements.sql >"$log/statements.md"
say "measuring look-ups beside insertions"
createdb beside
PGDATABASE=beside bash test/bench/one_beside.sh $(((ONE_ROUNDS + 1) / 2)) >"$log/beside.md"
for part in statements beside; do
    printf '\n'
    cat "$log/$part.md"
done >>"$log/one.md"
stop_server one
cat "$log/one.md"
