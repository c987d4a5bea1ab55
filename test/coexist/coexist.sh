#!/usr/bin/env bash
# test/coexist/coexist.sh: gpujoin together with other extensions that have hooks in the planner
# or the executor, on throw-away servers (test/setup.sh).
#
#   alone     each of them with gpujoin, in both orders of shared_preload_libraries
#   together  all of them with gpujoin, in both orders
#   tools     what tools for indexes do with one of ours (tools.sh)
#   suite     PostgreSQL's own regression tests with all of them: without gpujoin, with it as the
#             last library, and as the first. The others change outputs themselves, so the
#             expected outputs do not matter: gpujoin must not cause any difference
#
# As root, packages of Debian or Ubuntu that are missing are installed. Extensions that this
# PostgreSQL does not have even so are reported as skipped; so is the suite without COEXIST_SOURCE,
# the folder of PostgreSQL's sources (of the same major version).
#
# COEXIST_PARTS="alone tools" runs only these parts. The last line is "N passed, N failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$project/test/counting.sh"
export COEXIST_SOURCE=${COEXIST_SOURCE:-}
export COEXIST_PARTS=${COEXIST_PARTS:-alone tools together suite}
if ! inside; then
    require_packages coexist
    for name in hypopg plprofiler pg-qualstats; do
        dpkg -s "postgresql-$major-$name" >/dev/null 2>&1 || wish_for "postgresql-$major-$name"
    done
    run_inside coexist test/coexist/coexist.sh
fi
source test/coexist/probes.sh
source test/coexist/tools.sh

neighbours="citus timescaledb pg_stat_statements auto_explain pg_hint_plan vector"
# pgvector has nothing to preload
declare -A preloaded=([vector]='')

libdir=$("$PG_CONFIG" --pkglibdir)
is_there() { [ -e "$libdir/$1.so" ]; }
has_sql() { [ -e "$("$PG_CONFIG" --sharedir)/extension/$1.control" ]; }

# sql DATABASE [PSQL ARGUMENT...]: quiet, plain output, stops at the first error
sql() {
    local database=$1
    shift
    psql -XqAt -v ON_ERROR_STOP=1 -d "$database" "$@"
}

list() { local IFS=,; echo "$*"; } # A B C -> A,B,C

# start LIBRARIES: a new server
start() {
    rm -rf "$work/server" "$log/server-server.log"
    start_server server <<CONF
shared_preload_libraries = '$1'
gpujoin.device = 'reference'
fsync = off
compute_query_id = regress
max_prepared_transactions = 10
auto_explain.log_min_duration = 0
citus.enable_statistics_collection = off
timescaledb.telemetry_level = off
CONF
}

# Citus does not call planner hooks installed before it, ours among them.
citus_is_late() { [[ ,$1, == *,citus,* && $1 != citus,* ]]; }

refused() {
    ! start "$1" >/dev/null 2>&1 &&
        grep -q 'citus must come before gpujoin' "$log/server-server.log"
}

# with LIBRARIES NEIGHBOUR...: start a server with these libraries and test each neighbor
with() {
    local libraries=$1 neighbour
    shift
    if citus_is_late "$libraries"; then
        check "$libraries: the server does not start" refused "$libraries"
        note "$(printf '%-70s refused: Citus must be first' "$libraries")"
        return
    fi
    start "$libraries"
    local before=$failed
    createdb probe
    for neighbour in "$@"; do
        ! has_sql "$neighbour" || sql probe -c "CREATE EXTENSION $neighbour" >/dev/null 2>&1
    done
    check "$libraries: gpujoin" probe_gpujoin
    for neighbour in "$@"; do check "$libraries: $neighbour" "probe_$neighbour"; done
    stop_server server
    check "$libraries: no crash" no_crash
    [ "$failed" != "$before" ] || note "$(printf '%-70s ok' "$libraries")"
}

no_crash() {
    ! grep -E 'TRAP:|PANIC:|terminated by signal|XX000' "$log/server-server.log"
}

# ---------------------------------------------------------------------------------------------
# PostgreSQL's own suite
# ---------------------------------------------------------------------------------------------

# The C functions that its tests call
build_regress_library() {
    mkdir -p "$work/regress"
    cp "$COEXIST_SOURCE/src/test/regress/regress.c" "$work/regress/"
    cat >"$work/regress/Makefile" <<'MAKE'
MODULES = regress
override with_llvm = no
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
MAKE
    run_make -C "$work/regress" >"$log/regress-build.log" 2>&1
}

# suite NAME LIBRARIES EXTENSION...
suite() {
    local name=$1 libraries=$2 inputs=$COEXIST_SOURCE/src/test/regress out=$log/suite-$1
    local extension extensions=()
    shift 2
    for extension in "$@"; do
        ! has_sql "$extension" || extensions+=(--load-extension="$extension")
    done
    start "$libraries"
    mkdir -p "$out"
    (
        cd "$out"
        "$(dirname "$("$PG_CONFIG" --pgxs)")/../test/regress/pg_regress" --inputdir="$inputs" \
            --outputdir=. --dlpath="$work/regress" --bindir="$(dirname "$PG_CONFIG")" \
            --host="$PGHOST" --user="$PGUSER" "${extensions[@]}" \
            --schedule="$inputs/parallel_schedule" >output 2>&1
    ) || true
    stop_server server
    check "suite $name: no crash" no_crash
}

tests_that_ended() { # prints NAME and ok or failed, from the output of pg_regress of any version
    case $2 in
        ok) grep -cE '^(test| ) +[a-z0-9_]+ .*\.\.\. ok|^ok ' "$log/suite-$1/output" ;;
        failed) grep -cE '^(test| ) +[a-z0-9_]+ .*\.\.\. FAILED|^not ok ' "$log/suite-$1/output" ;;
    esac || true
}

# The lines of a test's output, sorted, without numbers and widths of columns: those differ from
# run to run, as do the number of free workers, and Citus' messages on a function that depends on
# objects of a concurrent test. Lists of access methods, and of their operators (opr_sanity),
# include ours.
output_of() { # NAME TEST
    sed -E '/^ gpujoin +\|/d; /^ +[0-9]+ \| +1 \| =$/d; /Worker [0-9]+: /d; /^\([0-9]+ rows\)$/d;
        /has dependency on unsupported object/d; /will be created only locally$/d;
        s/-?[0-9]+/N/g; s/[ -]+/ /g' \
        "$log/suite-$1/results/$2.out" | sort
}

same_outputs() { # NAME NAME
    local file test status=0
    for file in "$log/suite-$1/results"/*.out; do
        test=$(basename "$file" .out)
        diff <(output_of "$1" "$test") <(output_of "$2" "$test") >"$log/$test.diff" 2>&1 || {
            note "differs with gpujoin: $test"
            status=1
        }
    done
    return $status
}

# run_suite LAST FIRST NEIGHBOUR...: with the libraries in both orders
run_suite() {
    local last=$1 first=$2 name
    shift 2
    build_regress_library
    suite without "${last%,gpujoin}" "$@"
    suite last "$last" "$@" gpujoin
    suite first "$first" "$@" gpujoin
    for name in without last first; do
        note "suite, gpujoin $name: $(tests_that_ended $name ok) as PostgreSQL expects," \
            "$(tests_that_ended $name failed) not"
        check "suite, gpujoin $name: has run" [ "$(tests_that_ended $name ok)" -gt 100 ]
    done
    for name in last first; do
        check "suite: no difference that comes with gpujoin $name" same_outputs without $name
    done
}

# ---------------------------------------------------------------------------------------------

preload_names() {
    local name
    for name in "$@"; do
        name=${preloaded[$name]-$name}
        [ -z "$name" ] || echo "$name"
    done
}

build_and_install
here=()
for name in $neighbours; do
    if is_there "$name"; then here+=("$name"); else
        note "$name skipped: this PostgreSQL does not have it"
    fi
done

alone() {
    local name
    for name in "${here[@]}"; do
        # shellcheck disable=SC2046  # a list of names
        with "$(list $(preload_names "$name") gpujoin)" "$name"
        [ -z "$(preload_names "$name")" ] || with "gpujoin,$name" "$name"
    done
}

# shellcheck disable=SC2046
all_last=$(list $(preload_names "${here[@]}") gpujoin)
others=()
for name in "${here[@]}"; do [ "$name" = citus ] || others=("$name" "${others[@]}"); done
first=gpujoin
! is_there citus || first=citus,gpujoin
# shellcheck disable=SC2046
all_first=$(list "$first" $(preload_names "${others[@]}"))

for part in $COEXIST_PARTS; do
    say "$part"
    case $part in
        alone) alone ;;
        tools) check_plprofiler; check_tools ;;
        together) with "$all_last" "${here[@]}"; with "$all_first" "${here[@]}" ;;
        suite) if [ -e "$COEXIST_SOURCE/src/test/regress/parallel_schedule" ]; then
                run_suite "$all_last" "$all_first" "${here[@]}"
            else
                note "skipped: COEXIST_SOURCE does not name PostgreSQL's sources"
            fi ;;
        *) die "no part \"$part\"; there are: alone tools together suite" ;;
    esac
done
[ "$failed" = 0 ]
