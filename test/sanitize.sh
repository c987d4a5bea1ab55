#!/usr/bin/env bash
# test/sanitize.sh [asan] [valgrind]: runs tests on a PostgreSQL built to detect memory errors.
#
#   asan      server and extension with AddressSanitizer, UBSan and assertions: regress,
#             isolation and TAP, all of them; also the tests of device and helper
#   valgrind  server and extension built for valgrind, each process running under it: some tests,
#             since everything takes forty times as long
#
# Without an argument both, in this order. The tests are run by test/check.sh. A report fails the
# run, wherever it comes from. Leaks are not checked: processes end without freeing their memory
# contexts.
#
# Environment: SANITIZE_SOURCE   source of a PostgreSQL release, unpacked; without it Debian's of
#                                the installed version is fetched
#              SANITIZE_FOLDER   where builds and reports are kept; a second run builds only what
#                                has changed
#              SANITIZE_SUITES, TESTS  only these
#              CHECK_PATIENCE    how many times longer than usual a test may take
#
# The last line is "N passed, N failed"; the reports themselves are in tmp_check/reports.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

kinds=${*:-asan valgrind}
folder=${SANITIZE_FOLDER:-${GPUJOIN_CACHE:-/var/cache/gpujoin}/sanitize}
[ "$(id -u)" = 0 ] || [ -n "${SANITIZE_FOLDER:-}" ] || folder=$HOME/.cache/gpujoin/sanitize

# Tests to run under valgrind: they use each way into the index and out of it once.
valgrind_tests="scan join fold aggregate top changes index_only form_text_array filter include"

# A test loads a library before the sanitizer's.
export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1"
ASAN_OPTIONS+=:verify_asan_link_order=0
export UBSAN_OPTIONS="print_stacktrace=1"

# ---------------------------------------------------------------------------------------------
# The server
# ---------------------------------------------------------------------------------------------

# PostgreSQL's released sources, without Debian's patches.
fetch_source() {
    choose_postgres
    [ -n "$major" ] || die "which PostgreSQL? name its source with SANITIZE_SOURCE="
    if ! compgen -G "$folder/source-$major/*/configure" >/dev/null; then
        say "fetching the source of PostgreSQL $major"
        mkdir -p "$folder/source-$major"
        (cd "$folder/source-$major" &&
            apt-get source -qq --download-only "postgresql-$major" >&2 &&
            tar -xf postgresql-*.orig.tar.*) ||
            die "apt-get source failed; name an unpacked source with SANITIZE_SOURCE="
    fi
    SANITIZE_SOURCE=$(dirname "$(compgen -G "$folder/source-$major/*/configure" | tail -n 1)")
}

# Debian's source always uses the library folder of its packages, whatever the prefix is:
# installing it would overwrite the machine's own PostgreSQL.
build_server() { # KIND CONFIGURE_ARGUMENT...
    local kind=$1 place=$folder/$1 part
    shift
    mkdir -p "$place/build"
    cd "$place/build"
    [ -e config.status ] || "$SANITIZE_SOURCE/configure" -q --prefix="$place/pg" --enable-debug \
        --enable-tap-tests --without-readline --without-zlib "$@"
    sed "s|^override pkglibdir := .*|override pkglibdir := $place/pg/lib|" src/Makefile.global \
        >Makefile.global
    cmp -s Makefile.global src/Makefile.global || cp Makefile.global src/
    for part in src contrib/pg_stat_statements contrib/pg_freespacemap; do
        make -s -j"$(nproc)" -C "$part" all
    done
    [[ $(src/bin/pg_config/pg_config --pkglibdir) == "$place"/* ]]
    for part in src contrib/pg_stat_statements contrib/pg_freespacemap; do
        make -s -C "$part" install
    done
    # pgTAP consists of SQL only
    cp -n "/usr/share/postgresql/$("$place/pg/bin/pg_config" --version | grep -oE '[0-9]+' |
        head -n 1)"/extension/pgtap* "$place/pg/share/postgresql/extension/" || true
}

build_asan() {
    build_server asan --enable-cassert CC="gcc -fsanitize=address,undefined" \
        CFLAGS="-O1 -g -fno-omit-frame-pointer"
}

# The server's code tells valgrind about its memory contexts. A script in place of the program
# starts its processes; programs that exit at once, or only create a data folder, need no
# checking.
build_valgrind() {
    command -v valgrind >/dev/null || wish_for valgrind
    build_server valgrind CC=gcc CFLAGS="-O1 -g -fno-omit-frame-pointer" CPPFLAGS=-DUSE_VALGRIND
    cd "$folder/valgrind/pg/bin"
    ! file -L postgres 2>/dev/null | grep -q ELF || mv postgres postgres.bin
    cat >postgres <<SCRIPT
#!/bin/sh
program=\$(dirname "\$0")/postgres.bin
case \$1 in
    -V | --version | --boot | --check | --single | -C) exec "\$program" "\$@" ;;
esac
exec valgrind --quiet --trace-children=yes --error-markers=BEGIN,END --num-callers=30 \\
    --suppressions='$SANITIZE_SOURCE/src/tools/valgrind.supp' \\
    --log-file='$folder/valgrind/reports/report.%p' "\$program" "\$@"
SCRIPT
    chmod 755 postgres
}

# ---------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------

total_passed=0 total_failed=0

# count NAME PASSED FAILED
count() {
    total_passed=$((total_passed + $2)) total_failed=$((total_failed + $3))
    note "$(printf '%-34s %4d passed, %d failed' "$1" "$2" "$3")"
}

# count_undefined KIND: UBSan does not write into a file of its own beside AddressSanitizer, but to
# the server's log.
count_undefined() {
    local lines
    lines=$(grep -rhaE '^[^ ]+: runtime error: ' "$project/tmp_check" | sort -u || true)
    [ -z "$lines" ] || sed 's/^/    | /' <<<"$lines"
    count "$1: undefined behavior in logs" $((${#lines} == 0)) \
        "$(grep -c . <<<"$lines" || true)"
}

# run KIND PATIENCE SUITE...
run() {
    local kind=$1 patience=$2 reports=$folder/$1/reports passed=0 failed=0 status=0 found
    shift 2
    rm -rf "$reports"
    mkdir -p "$reports"
    chmod 1777 "$reports"
    say "tests with $kind"
    ASAN_OPTIONS=$ASAN_OPTIONS:log_path=$reports/report NVCC='' \
        UBSAN_OPTIONS=$UBSAN_OPTIONS:log_path=$reports/report \
        CHECK_ONCE=1 CHECK_PATIENCE=${CHECK_PATIENCE:-$patience} \
        PG_CONFIG=$folder/$kind/pg/bin/pg_config \
        bash "$project/test/check.sh" "$@" || status=$?
    [ ! -s "$project/tmp_check/totals" ] || read -r passed failed <"$project/tmp_check/totals"
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    count "$kind: tests" "$passed" "$failed"
    # valgrind writes a file for each process
    found=$(find "$reports" -type f -size +0 | wc -l)
    count "$kind: processes with reports" $((found == 0)) "$found"
    find "$reports" -type f -size +0 | head -n 5 | xargs -r head -n 40 | sed 's/^/    | /'
    mkdir -p "$project/tmp_check"
    count_undefined "$kind"
    find "$reports" -type f -size 0 -delete
    [ "$found" = 0 ] || cp -r "$reports" "$project/tmp_check/"
}

mkdir -p "$folder"
[ -n "${SANITIZE_SOURCE:-}" ] || fetch_source
SANITIZE_SOURCE=$(cd "$SANITIZE_SOURCE" && pwd)
for kind in $kinds; do
    say "PostgreSQL for $kind"
    # in the background, because a command followed by "||" continues after errors
    build_"$kind" >"$folder/$kind.log" 2>&1 &
    wait $! || { tail -n 20 "$folder/$kind.log" >&2; die "the build failed: $folder/$kind.log"; }
    # shellcheck disable=SC2086  # lists of names
    case $kind in
        asan) run asan 9 ${SANITIZE_SUITES:-regress isolation tap device} ;;
        valgrind) TESTS=${TESTS:-$valgrind_tests} run valgrind 25 ${SANITIZE_SUITES:-regress} ;;
    esac
done
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ "$total_passed" != 0 ]
