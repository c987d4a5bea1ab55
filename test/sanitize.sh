#!/usr/bin/env bash
# test/sanitize.sh SOURCE FOLDER: regress, isolation and TAP on a PostgreSQL that is built with
# AddressSanitizer, UBSan and assertions, and so is the extension. As lines of TAP.
#
# SOURCE is the source of a PostgreSQL release, unpacked; FOLDER gets build, installation, servers
# and reports, and keeps them: a second run builds only what has changed. Not as root.
#
# A report of the sanitizers fails the test during which it comes, wherever it comes from. Leaks are
# not looked for: processes end without freeing what contexts hold.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,/^set/p' "$0" | sed '$d' >&2; exit 1; }
source_of_pg=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
project=$(cd "$(dirname "$0")/.." && pwd)
flags="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined"
reports=$folder/reports
number=0
failed=0

export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0:log_path=$reports/report"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/report"
export LC_ALL=C PGHOST=$folder/sock PGUSER=postgres PGDATABASE=postgres
mkdir -p "$reports" "$folder/build" "$folder/sock"
rm -f "$reports"/*

# report NAME COMMAND...: it fails, too, if the sanitizers have said something meanwhile.
report() {
    local name=$1 log=$folder/$((number + 1)).log status=0
    shift
    number=$((number + 1))
    "$@" >"$log" 2>&1 || status=$?
    if [ "$status" = 0 ] && ! compgen -G "$reports/*" >/dev/null; then
        echo "ok $number - $name"
        return
    fi
    failed=1
    echo "not ok $number - $name"
    tail -n 15 "$log" | sed 's/^/#   /'
    find "$reports" -type f -exec head -n 30 {} \; | sed 's/^/#   /'
    mkdir -p "$folder/told"
    find "$reports" -type f -exec mv {} "$folder/told/" \;
}

# Debian's source sets the folder of libraries to that of its packages, whatever the prefix is: an
# installation would write over the machine's own PostgreSQL.
build_postgres() {
    cd "$folder/build"
    [ -e config.status ] || "$source_of_pg/configure" -q --prefix="$folder/pg" --enable-debug \
        --enable-cassert --enable-tap-tests --without-readline --without-zlib CC=gcc CFLAGS="$flags"
    sed -i "s|^override pkglibdir := .*|override pkglibdir := $folder/pg/lib|" src/Makefile.global
    make -s -j"$(nproc)" -C src all && make -s -C src install
    [ "$("$folder/pg/bin/pg_config" --pkglibdir | grep -c "^$folder/")" = 1 ]
}

build_extension() {
    local make_options=(PG_CONFIG="$folder/pg/bin/pg_config" NVCC= with_llvm=no
        CC="gcc -fsanitize=address,undefined")
    rm -rf "$folder/src"
    mkdir "$folder/src"
    tar -C "$project" --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude=./tmp_check \
        -cf - . | tar -C "$folder/src" -xf -
    cd "$folder/src"
    make -s -j"$(nproc)" "${make_options[@]}" all install
    make -s -C test/module "${make_options[@]}" install
}

start() {
    rm -rf "$folder/data"
    "$folder/pg/bin/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --no-locale --no-sync
    {
        cat "$folder/src/test/regress.conf"
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$folder/sock'"
        echo "shared_preload_libraries = 'gpujoin'"
        echo "gpujoin.device = 'reference'"
    } >>"$folder/data/postgresql.conf"
    "$folder/pg/bin/pg_ctl" -D "$folder/data" -w -t 120 -l "$folder/server.log" start
}

stop() { "$folder/pg/bin/pg_ctl" -D "$folder/data" -w -m fast stop; }

# regress PROGRAM NAMES...
regress() {
    local program=$1
    shift
    cd "$folder/src"
    mkdir -p expected
    "$test_folder/$program" --inputdir=test --outputdir=. --bindir="$folder/pg/bin" \
        --host="$PGHOST" --user="$PGUSER" --load-extension=gpujoin --dbname=sanitized "$@"
}

tap() {
    cd "$folder/src"
    env -u PGHOST -u PGUSER -u PGDATABASE PGPORT=65432 PATH="$folder/pg/bin:$PATH" \
        TESTDIR="$folder/tap" TESTDATADIR="$folder/tap/data" TESTLOGDIR="$folder/tap/log" \
        PGCTLTIMEOUT=600 PG_REGRESS="$test_folder/regress/pg_regress" \
        top_builddir="$test_folder/../.." prove -I "$test_folder/perl" -I test/t "$1"
}

names() { find "$project/test/$1" -name "*.$2" -exec basename {} ".$2" \; | sort; }

report "PostgreSQL is built with sanitizers" build_postgres
report "so is the extension" build_extension
[ "$failed" = 0 ] || { echo "1..$number"; exit 1; }
test_folder=$(dirname "$("$folder/pg/bin/pg_config" --pgxs)")/../test
report "the server starts" start
for name in $(names sql sql); do
    report "regress $name" regress regress/pg_regress "$name"
done
for name in $(names specs spec); do
    report "isolation $name" regress isolation/pg_isolation_regress "$name"
done
report "the server ends" stop
for name in $(names t pl); do
    report "tap $name" tap "test/t/$name.pl"
done
echo "1..$number"
exit "$failed"
