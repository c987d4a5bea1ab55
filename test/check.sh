#!/usr/bin/env bash
# test/check.sh [SUITE...]: every test of the project, in throw-away servers (test/setup.sh).
#
#   lint       test/lint.sh                   one test a check
#   regress    test/sql/*.sql                 one test a file, run twice: without and with
#                                             shared_preload_libraries = 'gpujoin' and a device;
#                                             those of $once the second time only
#   isolation  test/specs/*.spec              one test a file
#   pgtap      test/pgtap/*.sql               one test an assertion
#   tap        test/t/*.pl                    one test an assertion (the top-level ones)
#   tap-short  those of them that take seconds; only where it is named
#   device     make check-device              one test an assertion, where cuda/ has that goal
#   model      test/model/*.c                 one test a case: each order of steps is tried
#   fuzz       test/fuzz/fuzz.sh              two tests a target: its corpus, and 6 seconds more
#   docs       README.md, docs/*.md           one test an example: each is run, outputs are compared
#
# The suites run side by side, and each TAP script by itself: most of them wait more than they
# compute. On a card, whose memory some tests check, they run one after another. A line is shown
# when a suite begins, and every half minute how many tests have ended; results are shown when a
# part of a suite has ended.
#
# With CHECK_LONG=1 (make check-long) tests run at full length.
#
# The preloaded server has the reference device, which runs everywhere; CHECK_DEVICE=cuda runs the
# same tests, with the same outputs, on a card.
#
# A file that dies without a failed assertion counts as one failure, so does a server that
# crashed. CHECK_PATIENCE=3 lets each program take three times as long as usual, on a busy
# machine. CHECK_ONCE=1 runs regress on the preloaded server only. Expected outputs of regress and
# isolation are in expected/. TESTS="name ..." runs only the files of these names; one that no
# suite has is an error. Logs, results and diffs are kept in tmp_check/. The last line is "N
# passed, N failed"; the exit status is 0 if some passed and none failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source "$project/test/total.sh"

all_suites="lint regress isolation pgtap tap device model fuzz docs"

# A selection that covers each promise: crash, standby, preloading, canceling, updates, the
# device's service and its mirrors. The other scripts repeat these many times, or at random.
short_tap="001_crash 002_standby 006_preload 007_cancel 008_parallel 009_standby_index_only
    010_parallel_index_only 012_fold 013_limits 043_update 021_service_cancel 023_service_open
    030_mirror_load 031_mirror_free 035_mirror_index_only 037_mirror_top"

# Regression tests that do the same on both servers, because no device answers and nothing is in
# shared memory, or that compare the device with the CPU.
once="selftest top_sort few_keys run_filters spilled_hits form_range fold fold_columns fold_words
    fold_format delta_filters cursor join_groups order_key rewrite device_reduce device_parts
    filter_device"

# The folder and suffix of a suite's tests that TESTS can name; nothing for the other suites.
test_files() {
    case $1 in
        regress | regress-*) echo "test/sql/$2.sql" ;;
        isolation) echo "test/specs/$2.spec" ;;
        pgtap) echo "test/pgtap/$2.sql" ;;
        tap | tap-short) echo "test/t/$2.pl" ;;
        docs) [ -e "$project/$2.md" ] && echo "$2.md" || echo "docs/$2.md" ;;
    esac
}

# A name that is in no suite is a typing error, and must not look like a passed test.
require_tests() {
    local name suite file found
    for name in ${TESTS:-}; do
        found=''
        for suite in "$@"; do
            file=$(test_files "$suite" "$name")
            [ -z "$file" ] || [ ! -e "$project/$file" ] || found=1
        done
        [ -n "$found" ] || die "no test \"$name\" in these suites: $*"
    done
}

# The library of clang's sanitizers is a separate package, named after the version.
wish_for_libfuzzer() {
    local clang version
    clang=$(command -v clang || compgen -c clang- | grep -xE 'clang-[0-9]+' |
        sort -V | tail -n 1) || true
    if [ -z "$clang" ]; then
        wish_for clang
        clang=$(command -v clang) || return 0
    fi
    version=$("$clang" -dumpversion | cut -d. -f1)
    [ -n "$("$clang" -print-runtime-dir 2>/dev/null | sed 's,$,/libclang_rt.fuzzer-*.a,' |
        xargs -r -I{} bash -c 'compgen -G "{}"')" ] || wish_for "libclang-rt-$version-dev"
}

# A file system that tests can fill, if root may mount one: test/t/046_disk_full.pl.
prepare() {
    mkdir "$work/small_disk"
    [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=32m tmpfs "$work/small_disk" 2>/dev/null ||
        rmdir "$work/small_disk"
}
give_back() { [ ! -d "$work/small_disk" ] || umount "$work/small_disk"; }

if ! inside; then
    for suite in "$@"; do
        [[ " $all_suites tap-short " == *" $suite "* ]] ||
            die "no suite \"$suite\"; there are: $all_suites tap-short"
    done
    # shellcheck disable=SC2086  # a list of names
    require_tests ${*:-$all_suites}
    [[ " ${*:-$all_suites} " != *" fuzz "* ]] || wish_for_libfuzzer
    run_inside check test/check.sh "$@"
fi

# ---------------------------------------------------------------------------------------------
# Counting
# ---------------------------------------------------------------------------------------------

total_passed=0
total_failed=0
totals=$log/totals

# Add a suite's result and show it; the totals are written at once, in case the run is cut short.
count() {
    local name=$1 passed=$2 failed=$3 since=$4 skipped=${5:-0} extra=''
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    echo "$total_passed $total_failed" >"$totals"
    [ "$skipped" = 0 ] || extra=", $skipped skipped"
    note "$(printf '%-34s %4d passed, %d failed%s  (%d s)' \
        "$name" "$passed" "$failed" "$extra" $((SECONDS - since)))"
}

# Count the lines of a TAP stream; skipped tests are counted apart.
count_tap() {
    local name=$1 file=$2 status=$3 since=$4 passed failed skipped
    skipped=$(grep -ciE '^ok [0-9-].*# skip' "$file" || true)
    passed=$(grep -E '^ok [0-9-]' "$file" | grep -vciE '# skip' || true)
    failed=$(grep -cE '^not ok ' "$file" || true)
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    # A whole file may be skipped; one that prints nothing at all is a failure.
    if [ "$passed$failed$skipped" = 000 ] && ! grep -qiE '1\.\.0|skipped' "$file"; then
        failed=1
    fi
    count "$name" "$passed" "$failed" "$since" "$skipped"
    [ "$failed" = 0 ] || show_failures "$file"
}

# The output of a TAP script's servers and sessions is in a separate log.
show_failures() {
    local regress_log
    grep -vE '^ok [0-9-]' "$1" | tail -n 60 | sed 's/^/    | /'
    for regress_log in "${1%.log}"/regress_log_*; do
        [ -e "$regress_log" ] || continue
        note "the end of ${regress_log#"$log"/}:"
        tail -n 40 "$regress_log" | cut -c1-2000 | sed 's/^/    | /'
    done
}

# Names of the files of a suite, without folder and suffix, filtered by TESTS.
names() {
    local suite=$1 file name
    for file in $(test_files "$suite" '*'); do
        [ -e "$file" ] || continue
        name=$(basename "$file" ".${file##*.}")
        [ -z "${TESTS:-}" ] || [[ " $TESTS " == *" $name "* ]] || continue
        [ "$suite" != regress-plain ] || [[ " "$(echo $once)" " != *" $name "* ]] || continue
        # shellcheck disable=SC2086  # a list of names
        [ "$suite" != tap-short ] || [[ " "$(echo $short_tap)" " == *" $name "* ]] || continue
        echo "$name"
    done
}

# A test that hangs is a failure, not a stop. In the foreground, to keep it in our process group.
# The limits allow for other suites beside this one.
limited() { # SECONDS COMMAND...
    local seconds=$(($1 * ${CHECK_PATIENCE:-1}))
    shift
    timeout --foreground -k 10 "$seconds" "$@"
}

# ---------------------------------------------------------------------------------------------
# Jobs: parts of suites that run side by side
# ---------------------------------------------------------------------------------------------

begun=0
ended=0
places=$((2 * jobs + 1))
[ "${CHECK_DEVICE:-reference}" = reference ] || places=1

# job NAME COMMAND...: run the command in a subshell as soon as there is a place. Its output and
# its totals are shown and added when it has ended. Its servers have a port of their own.
job() {
    local name=$1
    shift
    while ((begun - ended >= places)); do
        wait -n || [ $? != 127 ] || break
        count_ended_jobs
    done
    begun=$((begun + 1))
    (
        total_passed=0 total_failed=0 totals=$work/jobs/$name.totals
        export PGPORT=$((5432 + begun))
        echo "0 0" >"$totals"
        trap '[ $? = 0 ] || count "$name: the script failed" 0 1 "$SECONDS"
            mv "$totals" "$work/jobs/$name.ended"' EXIT
        "$@"
    ) >"$work/jobs/$name.out" 2>&1 &
}

count_ended_jobs() {
    local file passed failed
    for file in "$work"/jobs/*.ended; do
        [ -e "$file" ] || continue
        read -r passed failed <"$file"
        rm "$file"
        cat "${file%.ended}.out"
        total_passed=$((total_passed + passed))
        total_failed=$((total_failed + failed))
        echo "$total_passed $total_failed" >"$totals"
        ended=$((ended + 1))
    done
}

wait_for_jobs() {
    wait
    end_progress
    count_ended_jobs
    [ "$begun" = "$ended" ] || count "jobs without an end" 0 $((begun - ended)) "$SECONDS"
}

# ---------------------------------------------------------------------------------------------
# Progress
# ---------------------------------------------------------------------------------------------

# begins SUITE: a job's output is kept until it ends, so this leaves a line for show_progress().
begins() { echo "$1" >>"$work/begun"; }

# Print the number of tests that have ended, as the logs of all suites show it.
print_count() {
    { cat "$log"/{lint,fuzz,model,device,pgtap-*,tap-*,docs-*}.log \
        "$log"/{regress-*,isolation}/output 2>/dev/null || true; } | awk -v seconds="$SECONDS" '
        /# [sS][kK][iI][pP]/ {next}
        /^ok [0-9-]/ || /^(test| ) .* \.\.\. +ok/ {passed++}
        /^not ok / || /^(test| ) .* \.\.\. (failed|FAILED)/ {failed++}
        END {printf "    so far %d passed, %d failed  (%d s)\n", passed, failed, seconds}'
}

# Print each suite that begins, and a count every half minute, until it is killed.
show_progress() {
    local shown=0 next=$((SECONDS + 30)) names name
    while sleep 5; do
        mapfile -s "$shown" -t names <"$work/begun"
        for name in "${names[@]}"; do note "$name begins"; done
        shown=$((shown + ${#names[@]}))
        ((SECONDS < next)) || { print_count; next=$((SECONDS + 30)); }
    done
}

# A job that is waited for would never end, so this is none.
begin_progress() {
    : >"$work/begun"
    show_progress &
    progress=$!
    disown
}
end_progress() { kill "$progress" 2>/dev/null || true; }

# ---------------------------------------------------------------------------------------------
# Suites
# ---------------------------------------------------------------------------------------------

# Without a card only lint needs the CUDA library: for warnings.
suite_lint() {
    local since=$SECONDS status=0
    begins lint
    GPUJOIN_CUDA_FAST=1 run_make -k -j"$jobs" with_llvm=no COPT=-Werror all \
        >>"$log/warnings.log" 2>&1 || note "not clean: see lint"
    grep 'CUDA device library' "$log/warnings.log" | tail -n 1 | sed 's/^/    /'
    bash test/lint.sh "$log/warnings.log" >"$log/lint.log" 2>&1 || status=$?
    count_tap lint "$log/lint.log" "$status" "$since"
}

# Count the tests in a pg_regress program's output: up to version 15 "test NAME ... ok", from 16
# on TAP.
count_regress() {
    local name=$1 folder=$2 out=$2/output status=$3 since=$4 passed failed
    passed=$(grep -cE '^ok [0-9]+|^(test| ) .* \.\.\. ok' "$out" || true)
    failed=$(grep -cE '^not ok [0-9]+|^(test| ) .* \.\.\. (failed|FAILED)' "$out" || true)
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    count "$name" "$passed" "$failed" "$since"
    [ "$failed" = 0 ] && return
    if [ -s "$folder/regression.diffs" ]; then
        head -n 150 "$folder/regression.diffs" | sed 's/^/    | /'
    else
        tail -n 30 "$out" | sed 's/^/    | /'
    fi
}

# run_regress NAME PROGRAM TEST...: results, diffs and the output go to $log/NAME.
run_regress() {
    local name=$1 program=$2 since=$SECONDS status=0 test
    shift 2
    [ $# != 0 ] || return 0
    mkdir -p "$log/$name" expected
    ln -s "$PWD/expected" "$log/$name/expected"
    # Without an expected file the programs stop immediately; with an empty one they continue, and
    # the diff is the output.
    for test in "$@"; do [ -e "expected/$test.out" ] || : >"expected/$test.out"; done
    PGISOLATIONTIMEOUT=$((300 * ${CHECK_PATIENCE:-1})) \
        limited 1800 "$pgxs_dir/../test/$program" --inputdir=test --outputdir="$log/$name" \
        --bindir="$(dirname "$PG_CONFIG")" --host="$PGHOST" --user="$PGUSER" \
        --port="${PGPORT:-5432}" --load-extension=gpujoin --dbname="gpujoin_$RANDOM" "$@" \
        >"$log/$name/output" 2>&1 || status=$?
    rm "$log/$name/expected"
    count_regress "$name" "$log/$name" "$status" "$since"
}

suite_regress() {
    begins "regress-$1"
    # shellcheck disable=SC2046  # a list of names
    run_regress "regress-$1" regress/pg_regress $(names "regress-$1")
}

suite_isolation() {
    begins isolation
    # shellcheck disable=SC2046
    run_regress isolation isolation/pg_isolation_regress $(names isolation)
}

# Use one database per file, copied from one that has both extensions.
suite_pgtap() {
    local name since status
    [ -n "$(names pgtap)" ] || return 0
    begins pgtap
    createdb pgtap_template
    psql -qX -d pgtap_template -c 'CREATE EXTENSION pgtap' -c 'CREATE EXTENSION gpujoin'
    for name in $(names pgtap); do
        since=$SECONDS status=0
        createdb -T pgtap_template "pgtap_$name"
        limited 600 pg_prove --verbose --dbname "pgtap_$name" "test/pgtap/$name.sql" \
            >"$log/pgtap-$name.log" 2>&1 || status=$?
        count_tap "pgtap $name" "$log/pgtap-$name.log" "$status" "$since"
    done
}

# Make a data folder that the servers of TAP scripts copy: initdb takes a second for each of them.
# Its environment is that of PostgreSQL::Test::Utils. Plans of forced paths cost so much that all
# their expressions would be compiled.
prepare_tap() {
    local folder=$work/template
    mkdir -p "$folder/bin"
    echo 'jit = off' >"$folder/conf"
    env -u PGUSER -u LC_ALL -u LANGUAGE LC_MESSAGES=C \
        initdb -D "$folder/data" -A trust -N >"$log/initdb-tap.log" 2>&1
    cat >"$folder/bin/initdb" <<SCRIPT
#!/bin/sh
[ "\$*" = "-D \$2 -A trust -N" ] && exec cp -Rp "$folder/data" "\$2"
exec "$(dirname "$PG_CONFIG")/initdb" "\$@"
SCRIPT
    chmod +x "$folder/bin/initdb"
}

# PostgreSQL::Test::Cluster takes everything from the environment: TESTDIR up to version 15, the
# other two folders from 16 on.
suite_tap() { # NAME
    local name=$1 folder=$work/tap/$1 since=$SECONDS status=0 patience=${CHECK_PATIENCE:-1}
    [ -z "${CHECK_LONG:-}" ] || patience=$((9 * patience))
    mkdir -p "$folder"
    env -u PGHOST -u PGUSER -u PGDATABASE PGPORT=65432 TESTDIR="$folder" \
        PATH="$work/template/bin:$PATH" TEMP_CONFIG="$work/template/conf" \
        TESTDATADIR="$folder/tmp_check" TESTLOGDIR="$folder/tmp_check/log" PGCTLTIMEOUT=300 \
        PG_TEST_TIMEOUT_DEFAULT=$((180 * ${CHECK_PATIENCE:-1})) SMALL_DISK="$work/small_disk" \
        PG_REGRESS="$pgxs_dir/../test/regress/pg_regress" top_builddir="$pgxs_dir/.." \
        timeout --foreground -k 10 $((900 * patience)) \
        prove --verbose -I "$pgxs_dir/../test/perl" -I test/t "test/t/$name.pl" \
        >"$log/tap-$name.log" 2>&1 || status=$?
    stop_servers "$folder"
    cp -r "$folder/tmp_check/log" "$log/tap-$name" 2>/dev/null || true
    rm -rf "$folder"
    count_tap "tap $name" "$log/tap-$name.log" "$status" "$since"
}

suite_device() {
    local since=$SECONDS status=0
    begins device
    if ! run_make -n check-device >/dev/null 2>&1; then
        note "device                             skipped: cuda/ has no check-device"
        return 0
    fi
    [ -n "${CHECK_LONG:-}" ] || [ "${CHECK_DEVICE:-reference}" = cuda ] ||
        export GPUJOIN_TEST_QUICK=1
    limited 900 make --no-print-directory PG_CONFIG="$PG_CONFIG" check-device PROVE_FLAGS=-v \
        >"$log/device.log" 2>&1 || status=$?
    count_tap device "$log/device.log" "$status" "$since"
}

suite_model() {
    local since=$SECONDS status=0 source
    begins model
    for source in test/model/*.c; do
        "${CC:-cc}" -O2 -Wall -Wextra -Werror -o "$log/model" "$source" &&
            limited 900 "$log/model" || status=$?
    done >"$log/model.log" 2>&1
    count_tap model "$log/model.log" "$status" "$since"
}

# Keep inputs on which a target has failed with the logs.
suite_fuzz() {
    local since=$SECONDS status=0 seconds=6
    begins fuzz
    [ -z "${CHECK_LONG:-}" ] || seconds=300
    mkdir -p "$log/fuzz"
    FUZZ_OUT=$work/fuzz FUZZ_SECONDS=$seconds limited $((1200 + 3 * seconds)) \
        bash test/fuzz/fuzz.sh >"$log/fuzz.log" 2>&1 || status=$?
    find "$work/fuzz" -maxdepth 1 -type f \( -name '*.log' -o -name '*-*' \) \
        -exec cp {} "$log/fuzz/" \;
    count_tap fuzz "$log/fuzz.log" "$status" "$since"
}

# Compare the reference with the server's settings: default, range, context.
settings_told() {
    local row
    psql -XqAt -d mydb -f test/docs/settings.sql | while IFS= read -r row; do
        grep -qF -- "$row" docs/reference.md || printf 'not '
        echo "ok - docs/reference.md has $row"
    done
}

# README and the FAQ are tested without preloading, gpu.md with a device. Each document has its
# own database, copied from one with the tables that examples use; README creates them.
suite_docs() {
    local document name since status preload device
    begins docs
    start_server docs <test/regress.conf
    createdb docs_template
    psql -qX -d docs_template -f test/docs/setup.sql >"$log/docs-setup.log" 2>&1
    stop_server docs
    for document in README.md CONTRIBUTING.md SECURITY.md docs/*.md; do
        name=$(basename "$document" .md)
        [ -z "${TESTS:-}" ] || [[ " $TESTS " == *" $name "* ]] || continue
        since=$SECONDS status=0 preload=gpujoin device=none
        [[ $name != README && $name != faq ]] || preload=''
        [ "$name" != gpu ] || device=reference
        {
            cat test/regress.conf
            echo "shared_preload_libraries = '$preload'"
            echo "gpujoin.device = '$device'"
        } | start_server docs
        createdb -T "$([ "$name" = README ] && echo template1 || echo docs_template)" mydb
        PGDATABASE=mydb limited 600 perl test/docs/run.pl "$work/docs" "$document" \
            >"$log/docs-$name.log" 2>&1 || status=$?
        [ "$name" != reference ] || settings_told >>"$log/docs-$name.log" || status=$?
        dropdb --force mydb
        stop_server docs
        count_tap "docs $name" "$log/docs-$name.log" "$status" "$since"
    done
    look_for_crashes docs
}

# A crash counts even if a test did not notice it (because it reconnected, say).
look_for_crashes() {
    local since=$SECONDS file=$log/server-$1.log
    if grep -E 'TRAP:|PANIC:|terminated by signal|terminated by exception' "$file" \
        >"$log/crashes-$1"; then
        count "server $1: no crash" 0 1 "$since"
        sed 's/^/    | /' "$log/crashes-$1" | head -n 20
    else
        count "server $1: no crash" 1 0 "$since"
    fi
}

# ---------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------

# Tests stop the server at steps that src/base/step.h names, and crash it there.
export GPUJOIN_STEPS=1

wants() { [[ " $suites " == *" $1 "* ]]; }

without_preloading() {
    start_server plain <test/regress.conf
    suite_regress plain
    stop_server plain
    look_for_crashes plain
}

with_preloading() {
    {
        cat test/regress.conf
        echo "shared_preload_libraries = 'gpujoin'"
        echo "gpujoin.device = '${CHECK_DEVICE:-reference}'"
    } | start_server preloaded
    ! wants regress || suite_regress preloaded
    ! wants isolation || suite_isolation
    ! wants pgtap || suite_pgtap
    stop_server preloaded
    look_for_crashes preloaded
}

suites=${*:-$all_suites}
pgxs_dir=$(dirname "$("$PG_CONFIG" --pgxs)")
mkdir "$work/jobs"
echo "0 0" >"$totals"

# Build with warnings as errors first, to collect them in one list; lint counts them. If there are
# any, the tests still run, on a build that accepts them. The bitcode for inlining, which no test
# needs, would take as long as all the rest.
options=(with_llvm=no NVCC=)
[ "${CHECK_DEVICE:-reference}" != cuda ] || options=(with_llvm=no)
say "building with warnings as errors"
if run_make -k -j"$jobs" "${options[@]}" COPT=-Werror all cuda/build/device_test \
    cuda/build/helper_test >"$log/warnings.log" 2>&1; then
    build_and_install "${options[@]}" COPT=-Werror
else
    note "not clean: see lint"
    build_and_install "${options[@]}"
fi
run_make -k -C test/module COPT=-Werror all >>"$log/warnings.log" 2>&1 || note "not clean: see lint"
install_test_module

# An example of README runs make, which would disturb that of lint.
lint_and_docs() {
    ! wants lint || suite_lint
    ! wants docs || suite_docs
}

# The longest first, so that none of them remains alone at the end.
say "tests"
begin_progress
! wants regress && ! wants isolation && ! wants pgtap || job preloaded with_preloading
! wants regress || [ -n "${CHECK_ONCE:-}" ] || job plain without_preloading
! wants fuzz || job fuzz suite_fuzz
! wants device || job device suite_device
for suite in tap tap-short; do
    wants "$suite" || continue
    [ -d "$work/template" ] || prepare_tap
    begins "$suite"
    for name in $(names "$suite"); do
        job "tap-$name" suite_tap "$name"
    done
done
! wants model || job model suite_model
! wants lint && ! wants docs || job lint lint_and_docs
wait_for_jobs
note "the whole run took $((SECONDS / 60)) minutes and $((SECONDS % 60)) seconds"
