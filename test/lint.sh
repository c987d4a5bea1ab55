#!/usr/bin/env bash
# test/lint.sh [WARNINGS_LOG]: the static checks, one line of TAP each. Run through `make lint`,
# which builds first, with warnings as errors, into WARNINGS_LOG.
set -euo pipefail
cd "$(dirname "$0")/.."
warnings_log=${1:-}
pg_config=${PG_CONFIG:-pg_config}
cc=${CC:-cc}
number=0
failures=0

# check NAME COMMAND...: passes if the command prints nothing; it prints what it finds wrong.
check() {
    local name=$1 findings status=0
    shift
    number=$((number + 1))
    findings=$("$@" 2>&1) || status=$?
    if [ -z "$findings" ] && [ "$status" = 0 ]; then
        echo "ok $number - $name"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $number - $name"
    printf '%s\n' "${findings:-exit status $status}" | head -n 30 | sed 's/^/#   /'
}

# Files of the project by suffix, in the folders that contain code.
sources() {
    local folder suffix
    for folder in src advisor cuda test packaging; do
        [ -d "$folder" ] || continue
        for suffix in "$@"; do
            find "$folder" -name "*.$suffix" -not -path '*/results/*'
        done
    done | sort
}

# grep that succeeds if nothing is found, since checks print findings.
finds() { grep "$@" || [ $? = 1 ]; }

# ---------------------------------------------------------------------------------------------

# With -k every file's warnings are in the log; a single one makes the build fail.
no_warnings() { [ -z "$warnings_log" ] || finds -E '(warning|error):|\*\*\*' "$warnings_log"; }

version_only_in_compat() {
    finds -rln PG_VERSION_NUM src advisor --include='*.[ch]' | finds -v compat.h
}

no_cuda_in_src() {
    finds -rnE '#include.*(cuda|cub/|thrust/|\.cuh)' src |
        finds -vE 'gpujoin_(device|reduction|shapes|protocol)\.h'
}

no_postgres_in_cuda() {
    [ ! -d cuda ] || finds -rnE '#include.*(postgres|c\.h"|fmgr\.h|pg_config)' cuda
}

# A header may need postgres.h before it, like PostgreSQL's own headers, but nothing else.
headers_alone() {
    local header flags
    flags="-I$("$pg_config" --includedir-server) -Isrc -I. $("$pg_config" --cppflags)"
    for header in src/*/*.h advisor/*.h; do
        # shellcheck disable=SC2086  # flags are words
        printf '#include "postgres.h"\n#include "%s"\n' "$header" |
            $cc $flags -Wall -Werror -fsyntax-only -x c - || echo "$header does not compile alone"
    done
}

# Files that use a set, a page, a device or a match must not see the planner's nodes.
doors_without_planner() {
    local layer flags
    flags="-I$("$pg_config" --includedir-server) -Isrc -I. $("$pg_config" --cppflags)"
    for layer in sets pages service mirror match; do
        # shellcheck disable=SC2086  # flags are words
        printf '#include "postgres.h"\n#include "%s/%s.h"\n' $layer $layer |
            $cc $flags -M -x c - | grep -q /pathnodes.h && echo "$layer.h includes pathnodes.h"
    done
    return 0
}

border_alone() {
    local header
    for header in cuda/border/gpujoin_*.h; do
        printf '#include "%s"\n' "$header" |
            $cc -std=c99 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only -x c -
        ! command -v c++ >/dev/null || printf '#include "%s"\n' "$header" |
            c++ -std=c++17 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only -x c++ -
    done
}

# Columns are counted with tabs of four.
line_length() {
    { sources c h cu cuh sh pl pm
      find Makefile src advisor cuda test -name README -o -name Makefile; } | xargs perl -ne '
        chomp;
        1 while s/\t/" " x (4 - length($`) % 4)/e;
        print "$ARGV:$.: ", length(), "\n" if length() > 100;
        close ARGV if eof'
}

# One mechanism, one file: in src/ and advisor/ that may take 1,250 lines, elsewhere 600.
file_length() {
    sources c h cu cuh sh pl pm | xargs awk '
        function tell() {
            if (n > (f ~ /^(src|advisor)\// ? 1250 : 600)) print f ": " n " lines"}
        FNR == 1 {tell(); f = FILENAME}
        {n = FNR}
        END {tell()}'
}

# make_house FOLDER: sources with one fault for each figure of test/house.pl, and their objects.
make_house() {
    local file
    mkdir -p "$1/src/low" "$1/src/high" "$1/test/module"
    echo '#include "part.h"' >"$1/src/low/low.h"
    touch "$1/src/high/high.h" "$1/src/high/hidden.h" "$1/src/high/used.c"
    echo '/* included once per type */' >"$1/src/high/template.h"
    cat >"$1/src/low/part.h" <<'CODE'
static const CustomExecMethods methods = {};
planner_hook_type prev_planner_hook = NULL;
prev_planner_hook = planner_hook; planner_hook = plan; /* other_hook = plan; */
planner_hook = prev_planner_hook; if (third_hook == plan) planner_hook = plan;
GJ_TABLE_HOOK(install, look)
DefineCustomIntVariable("gpujoin.a", &a); DefineCustomIntVariable("gpujoin.a", &a);
define_cost("gpujoin.b", &b);
ShmemInitStruct("table", 8, &found);
typedef enum GjPrivate
typedef enum GjMood
#define GJ_FORMAT_VERSION 5
#define GJ_OLDEST_FORMAT 4
CODE
    echo 'void GjTested(void) {}' >"$1/src/low/used.c"
    echo 'void GjTested(void); void test(void) { GjTested(); }' >"$1/test/module/test.c"
    echo 'void ExplainPropertyText(void); void tell(void) { ExplainPropertyText (); }' \
        >"$1/src/low/tell.c"
    for file in "$1"/src/*/*.c "$1"/test/module/*.c; do $cc -c -o "${file%c}o" "$file"; done
}

# Each figure must be found in sources that have the fault, and nothing else.
house_checked() {
    local folder
    folder=$(mktemp -d)
    make_house "$folder"
    perl test/house.pl --list --strict "$folder" | sed 's/, at most 0$//; s/  */ /g' | diff - <(
        printf '%s\n\t%s\n' 'plan node types 1' 'methods of src/low/part.h'
        printf '%s\n\t%s\n\t%s\n' 'hooks installed 2' 'GJ_TABLE_HOOK in src/low/part.h' \
            'planner_hook in src/low/part.h' 'settings 2' gpujoin.a gpujoin.b
        printf '%s\n\t%s\n' 'structs in shared memory 1' '"table" of src/low/part.h' \
            'lists in plans 1' 'GjPrivate of src/low/part.h'
        printf '%s\n\t%s\n\t%s\n' 'index formats 2' 'format 4' 'format 5'
        printf '%s\n' 'lines 16' 'lines of code 15'
        printf '%s\n\t%s\n\t%s\n' 'global functions 2' 'GjTested of src/low/used.c' \
            'tell of src/low/tell.c'
        printf '%s\n\t%s\n' 'used by no other file 1' 'tell of src/low/tell.c' \
            'used across folders 1' 'GjTested of src/low/used.c' \
            'private headers 1' src/high/hidden.h 'names with two meanings 1' \
            'used in high, low'
        printf '%s\n' 'static functions of one name 0'
        printf '%s\n\t%s\n' 'files with EXPLAIN 1' src/low/tell.c) || true
    [ "$(perl test/house.pl --check --strict "$folder" | grep -c 'at most')" = 14 ] ||
        echo "not all limits are checked"
    rm -rf "$folder"
}

# Each example must be found, in comments of each kind and in documents; a plain sentence must not.
english_checked() {
    local folder examples file
    folder=$(mktemp -d)
    perl test/english.pl --examples >"$folder/a.c"
    examples=$(wc -l <"$folder/a.c")
    sed 's,^/\* \(.*\) \*/,-- \1\n,' "$folder/a.c" >"$folder/a.sql"
    sed 's,^/\* \(.*\) \*/,# \1\n,' "$folder/a.c" | tee "$folder/a.sh" >"$folder/a.pl"
    sed 's,^/\* \(.*\) \*/,\1\n,' "$folder/a.c" >"$folder/a.md"
    for file in "$folder"/*; do
        perl test/english.pl "$file" | finds -vE "^$examples of "
        perl test/english.pl --check "$file" | grep -q 'at most' || echo "$file is accepted"
    done
    echo '/* Return the page that the caller has locked. */' >"$folder/a.c"
    perl test/english.pl --check "$folder/a.c"
    rm -rf "$folder"
}

# A mention must be found if its file is not there.
mentions_checked() {
    local folder
    folder=$(mktemp -d)
    mkdir -p "$folder/src/low"
    printf '/* see\n * there.c, low/there.c, no.c, high/there.c */\n' >"$folder/src/low/there.c"
    perl test/mentions.pl "$folder" | diff - <(
        printf 'src/low/there.c:2: %s does not exist\n' no.c high/there.c) || true
    rm -rf "$folder"
}

lines_aligned() { find src advisor -name '*.[ch]' -exec perl test/aligned.pl {} +; }

# Lines that a renamed function or type has left behind must be found, and no others.
aligned_checked() {
    local folder
    folder=$(mktemp -d)
    printf '%s\n' 'int a = f(1, /* x */' '\t\t  "(" +' '\t\t   2);' '#define b (' 'struct c' '{' \
        '\tint\t\td;' '\tTupleTableSlot *e;\t\t\t/* well placed */' '\tint\t\t\tg;\t\t/* not */' \
        '};' | sed 's/\\t/\t/g' >"$folder/a.c"
    perl test/aligned.pl "$folder/a.c" | sed 's,.*/a.c:,,' | diff - <(
        echo '3: begins in column 11, not 10'
        echo '7: name in column 12, not 16'
        echo '9: comment in column 24, not 32') || true
    rm -rf "$folder"
}

# A process that is stopped while it holds a spinlock blocks others, which wait in a loop.
no_work_under_spinlock() {
    local work='(^|[^A-Za-z_])(str[a-z]+|sn?printf|mem(cpy|move)|palloc0?|pfree|qsort|hash_search'
    work+='|ereport|elog|MemoryContext[A-Z][A-Za-z]*|LWLock[A-Z][A-Za-z]*)[(]'
    find src -name '*.c' -exec awk -v work="$work" '
        /SpinLockRelease[(]/ {held = 0}
        held && $0 ~ work {print FILENAME ":" FNR ": " $0}
        /SpinLockAcquire[(]/ {held = 1}' {} +
}

# The words are composed of parts so that this file does not match itself.
no_unfinished_marks() {
    local marks="\\b(TO""DO|FIX""ME|XX""X|HA""CK|st""ub(bed)?)\\b|^[[:space:]]*#[[:space:]]*if 0\\b"
    grep -rnIE "$marks" src advisor cuda sql test docs packaging debian Makefile ./*.md .ci \
        --exclude-dir=results 2>/dev/null || true
}

trailing_space() {
    sources c h cu cuh sh pl pm | xargs -r grep -nE '[[:space:]]+$' Makefile || [ $? = 123 ]
}

# A server that is used must not have a setting by which it crashes: nothing is left of a step
# without GPUJOIN_STEPS.
steps_are_nothing() {
    local flags source
    source='#include "postgres.h"
#include "base/step.h"
extern bool f(void); bool f(void) {GjStep("step"); return GjStepsAreShort();}'
    flags="-I$("$pg_config" --includedir-server) -Isrc -I. $("$pg_config" --cppflags)"
    # shellcheck disable=SC2086  # flags are words
    { $cc $flags -O1 -S -o - -x c - <<<"$source" && $cc $flags -S -o - src/base/step.c; } |
        finds -n gj_debug_step
    # shellcheck disable=SC2086
    $cc $flags -DGPUJOIN_STEPS -O1 -S -o - -x c - <<<"$source" | grep -q gj_debug_step ||
        echo "with GPUJOIN_STEPS there is no step"
}

# Everything undefined in the extension must come from PostgreSQL or the C library.
no_cuda_symbols() {
    [ -e gpujoin.so ] || { echo "gpujoin.so has not been built"; return; }
    nm -D -u gpujoin.so | finds -E '\b(cu[A-Z]|cuda|nvrtc|__cuda)'
}

# Exported names are in the global namespace of the server: allow only ours, with our prefix.
exports_prefixed() {
    [ -e gpujoin.so ] && [ -e advisor/gpujoin_advisor.so ] ||
        { echo "the libraries have not been built"; return; }
    nm -D --defined-only gpujoin.so advisor/gpujoin_advisor.so | awk 'NF > 2 {print $NF}' |
        finds -vE '^(Gj|gj|gpujoin|pg_finfo_gj|pg_finfo_gpujoin|Pg_magic_func|_PG_init|_PG_fini)'
}

# The advisor is not linked to gpujoin, whose version may be another one.
advisor_uses_border() {
    [ -e advisor/gpujoin_advisor.so ] || { echo "the library has not been built"; return; }
    nm -D -u advisor/gpujoin_advisor.so | finds -E '\b(Gj|gj|gpujoin)'
}

# The Makefile only takes files in src/ or in a folder of it.
objects_found() { find src -mindepth 3 -name '*.c'; }

shell_syntax() {
    local file
    for file in $(sources sh) .ci/run; do bash -n "$file"; done
}

perl_syntax() {
    local file include
    include=$(dirname "$("$pg_config" --pgxs)")/../test/perl
    perl -MIPC::Run -e1 2>/dev/null || return 0
    for file in $(sources pl pm); do
        perl -I "$include" -I test/t -c "$file" 2>&1 | finds -v 'syntax OK$'
    done
}

# Properties are the literals in title case; a colon ends a hand-formatted one.
explain_properties_told() {
    local name
    { find src -name 'explain*.c' -exec grep -ohE '"[A-Z][A-Za-z]+( [A-Za-z]+)*:?"' {} +
      find src -name '*.c' -exec cat {} + | tr '\n' ' ' |
          grep -oE 'ExplainProperty[A-Za-z]*\("[^"]+"'; } |
        sed -E 's/.*"([^":]+):?"/\1/' | sort -u |
        while IFS= read -r name; do
            grep -qF "\`$name\`" docs/reference.md ||
                echo "EXPLAIN shows $name, docs/reference.md does not tell it"
        done
}

# Functions, views and their columns, settings, index options, wait events. Objects are those of the
# last script that creates them, so the first version's must come first.
reference_is_whole() {
    perl test/docs/told.pl <(cat sql/gpujoin_advisor--*.sql) docs/advisor.md
    # shellcheck disable=SC2046  # a list of names
    perl test/docs/told.pl <(cat sql/gpujoin--1.0.0.sql sql/gpujoin--*--*.sql) \
        docs/reference.md,docs/advisor.md $(find src -name '*.[ch]')
}

document_links() { perl test/docs/links.pl ./*.md docs/*.md test/bench/results/*.md; }

pictures_drawn() { perl test/docs/pictures.pl --check; }

# A picture whose figure has changed must be found.
pictures_checked() {
    local folder
    folder=$(mktemp -d)
    mkdir -p "$folder/docs" "$folder/test/bench/results"
    cp docs/*.svg "$folder/docs"
    cp test/bench/results/*.md "$folder/test/bench/results"
    perl test/docs/pictures.pl --check "$folder"
    sed -i 's/| 1\.45 |/| 1.44 |/' "$folder"/test/bench/results/*peers.md
    perl test/docs/pictures.pl --check "$folder" | grep -q '^docs/gain.svg is not' ||
        echo "a figure that has changed is not found"
    rm -rf "$folder"
}

# The newest report of each kind is kept, and the index lists it.
reports_listed() {
    local file
    for file in test/bench/results/*; do
        file=${file##*/}
        [ "$file" = README.md ] || grep -qF "($file)" test/bench/results/README.md ||
            echo "test/bench/results/README.md does not list $file"
    done
}

document_length() {
    wc -l docs/*.md | awk '$2 != "total" && $1 > ($2 ~ /reference/ ? 470 : 400) {
        print $2 ": " $1 " lines"}'
}

meta_json() {
    perl test/meta.pl
    # It only checks the file in the current folder.
    ! command -v validate_pgxn_meta >/dev/null || validate_pgxn_meta | finds -v ' is OK$'
}

# A checker that accepts a bad file would be useless.
meta_json_checked() {
    local folder change
    folder=$(mktemp -d)
    for change in 's/"version": "1/"version": "v1/' 's/"name": "/"nom": "/' \
        's#"tags"#"resources": {"repository": {"type": ""}}, "tags"#' \
        's/"tags": \[[^]]*\]/"tags": []/' 's#"url": "http:#"url": "http#' 's/"15.0.0"/"fifteen"/' \
        's/"PostgreSQL": "http/"PostgreSQL": "/' 's/README.md/README.txt/' \
        's/"release_status": "[a-z]*"/"release_status": "good"/'; do
        sed "$change" META.json >"$folder/META.json"
        ! cmp -s META.json "$folder/META.json" || echo "$change changes nothing"
        [ -n "$(perl test/meta.pl "$folder/META.json" 2>&1)" ] || echo "not found: $change"
    done
    rm -rf "$folder"
}

# The version must be the same everywhere: print each occurrence, with its place, if they differ.
version_agrees() {
    local version
    version=$(sed -nE "s/^default_version = '(.*)'/\1/p" gpujoin.control)
    {
        echo "$version gpujoin.control"
        perl -MJSON::PP -e 'local $/; my $m = decode_json(<>);
            print "$m->{version} META.json\n";
            print "$_->{version} META.json, provides\n" for values %{$m->{provides}};
            print $_->{file} =~ s/^.*--(.*)\.sql$/$1/r, " META.json, file\n"
                for values %{$m->{provides}}' META.json
        sed -nE "s/^default_version = '(.*)'/\1 advisor\/gpujoin_advisor.control/p" \
            advisor/gpujoin_advisor.control
        sed -nE 's/^#define GJ_VERSION\t+"(.*)"/\1 src\/base\/settings.h/p' src/base/settings.h
        sed -nE 's/^## ([0-9][^ ]*).*/\1 CHANGELOG.md/p' CHANGELOG.md | head -n 1
        sed -nE '1s/^gpujoin \(([^)]*)-[^-]*\).*/\1 debian\/changelog/p' debian/changelog
        sed -nE 's/^Version: +(.*)/\1 packaging\/gpujoin.spec/p' packaging/gpujoin.spec
        sed -nE 's/^\* .* - (.*)-[^-]*$/\1 packaging\/gpujoin.spec, %changelog/p' \
            packaging/gpujoin.spec | head -n 1
    } | awk -v version="$version" '$1 != version {print $0 ", and gpujoin.control " version}
        END {if (NR != 12) print NR " places, where there should be 12"}'
}

control_file() {
    local version control
    for control in gpujoin.control advisor/gpujoin_advisor.control; do
        version=$(sed -nE "s/^default_version = '(.*)'/\\1/p" "$control")
        compgen -G "sql/$(basename "$control" .control)--*$version.sql" >/dev/null ||
            echo "no script in sql/ leads to default_version $version of $control"
    done
}

# Scripts of released versions never change, because existing installations have run them.
# Only the script of a version that CHANGELOG.md calls unreleased has no checksum.
released_scripts_kept() { # [FOLDER]
    local folder=${1:-sql} script unreleased
    unreleased=$(sed -nE 's/^## ([0-9][^ ]*) \(unreleased\)$/\1/p' CHANGELOG.md)
    (cd "$folder" && sha256sum --quiet -c released.sha256 2>&1) || true
    for script in "$folder"/gpujoin*--*.sql; do
        script=${script##*/}
        [ -n "$unreleased" ] && [[ $script == *--$unreleased.sql ]] ||
            grep -q " $script\$" "$folder/released.sha256" || echo "$script has no checksum"
    done
}

# Each way to change a released script must be found.
released_scripts_checked() {
    local folder script
    folder=$(mktemp -d)
    cp sql/* "$folder"
    released_scripts_kept "$folder"
    for script in $(sed 's/.* //' sql/released.sha256); do
        echo '-- more' >>"$folder/$script"
        [[ $(released_scripts_kept "$folder") == "$script: FAILED"* ]] || echo "not found: $script"
        cp "sql/$script" "$folder"
    done
    touch "$folder/gpujoin--0.9--1.0.0.sql"
    [[ $(released_scripts_kept "$folder") == *'0.9--1.0.0.sql has no checksum' ]] ||
        echo "not found: a new script of an old version"
    rm -rf "$folder"
}

# A version that is not released says so everywhere.
release_state_agrees() {
    local wanted='1 1 1'
    grep -q '^## [0-9][^ ]* (unreleased)$' CHANGELOG.md || wanted='0 0 0'
    [ "$(grep -c '^## [0-9][^ ]* (unreleased)$' CHANGELOG.md) $(
        grep -c '"release_status": "unstable"' META.json) $(
        head -n 1 debian/changelog | grep -c ') UNRELEASED;')" = "$wanted" ] ||
        echo "CHANGELOG.md, META.json and debian/changelog do not agree on what is released"
}

# Every object has a comment: compare the names after CREATE with those after COMMENT ON.
sql_comments() {
    local kinds='ACCESS METHOD|OPERATOR CLASS|OPERATOR FAMILY|FUNCTION|VIEW|TYPE'
    comm -23 <(cat sql/*.sql | tr '\n;' ' \n' |
        sed -nE "s/.*CREATE (OR REPLACE )?($kinds) +([a-z0-9_]+).*/\\2 \\3/p" | sort -u) \
        <(sed -nE "s/.*COMMENT ON ($kinds) +([a-z0-9_]+).*/\\1 \\2/p" sql/*.sql | sort -u) |
        sed 's/^/no COMMENT ON /'
}

# `make uninstall` must remove everything that `make install` installs. The reference device is
# for tests, and is installed and removed with them.
uninstall_is_whole() {
    local dest installed
    local -a make=(env -u MAKEFLAGS GPUJOIN_CUDA_FAST=1 make -s PG_CONFIG="$pg_config" with_llvm=no)
    dest=$(mktemp -d)
    "${make[@]}" install DESTDIR="$dest" >/dev/null
    installed=$(find "$dest" -type f | wc -l)
    [ "$installed" -ge 4 ] || echo "only $installed files were installed"
    find "$dest" -name 'gpujoin_reference*' -printf 'make install has installed %f\n'
    "${make[@]}" install-reference DESTDIR="$dest" >/dev/null
    [ -n "$(find "$dest" -name gpujoin_reference.so)" ] || echo "install-reference did nothing"
    "${make[@]}" uninstall-reference DESTDIR="$dest" >/dev/null
    "${make[@]}" uninstall DESTDIR="$dest" >/dev/null
    find "$dest" ! -type d -printf 'left by make uninstall: %P\n'
    rm -rf "$dest"
}

# Each goal of a script must be in the list that `make help` prints.
help_is_whole() {
    local goal list
    list=$(env -u MAKEFLAGS make -s help)
    for goal in $(sed -n '/^SCRIPT_GOALS/,/[^\\]$/p' Makefile | sed 's/.*=//; s/\\$//'); do
        grep -qE "^ *make $goal( |\$)" <<<"$list" || echo "make help does not list $goal"
    done
}

# Given the name of a test that does not exist, `make check` must not report success.
unknown_test_named() {
    local said status=0
    said=$(env -u GPUJOIN_WORK TESTS=no_such_test timeout 60 bash test/check.sh isolation 2>&1) ||
        status=$?
    [ "$status" != 0 ] || echo "exit status 0"
    [[ $said == *'no test "no_such_test"'* ]] || printf '%s\n' "$said"
}

check "no compiler warnings" no_warnings
check "PG_VERSION_NUM only in src/base/compat.h" version_only_in_compat
check "no CUDA header in src/" no_cuda_in_src
check "no PostgreSQL header in cuda/" no_postgres_in_cuda
check "headers of src/ compile alone after postgres.h" headers_alone
check "doors below the planner do not show its nodes" doors_without_planner
check "folders use only what is below them, by its door, and in no circle" perl test/layers.pl
check "headers that cuda/ and src/ share compile alone as C99 and C++17" border_alone
check "lines of at most 100 columns" line_length
check "files of at most 600 lines, 1,250 in src/ and advisor/" file_length
check "src/ is divided as test/house.pl requires" perl test/house.pl --check
check "a house with faults is found out" house_checked
check "plain English in src/ and advisor/" perl test/english.pl --check src advisor
check "plain English elsewhere" perl test/english.pl --check cuda docs test sql README.md \
    CONTRIBUTING.md CHANGELOG.md SECURITY.md
check "sentences that are hard to read are found out" english_checked
check "comments name files that exist" perl test/mentions.pl
check "a mention of another file is found out" mentions_checked
check "lines that continue an expression are aligned" lines_aligned
check "a line that is not aligned is found out" aligned_checked
check "no copying, allocating or reporting under a spinlock" no_work_under_spinlock
check "no unfinished marks" no_unfinished_marks
check "no trailing white space" trailing_space
check "a build that is not for tests has no steps to crash at" steps_are_nothing
check "gpujoin.so needs no CUDA" no_cuda_symbols
check "the libraries export only names with our prefix" exports_prefixed
check "the advisor uses gpujoin by their border only" advisor_uses_border
check "no source file where the Makefile does not look" objects_found
check "shell scripts parse" shell_syntax
check "Perl scripts compile" perl_syntax
check "docs/reference.md has every property that EXPLAIN shows" explain_properties_told
check "docs/reference.md has every function, view, column, setting and option" reference_is_whole
check "links in documents lead somewhere" document_links
check "the index of reports is complete" reports_listed
check "pictures are as the script draws them" pictures_drawn
check "a picture of old figures is found out" pictures_checked
check "documents of at most 400 lines, the reference 470" document_length
check "META.json is valid" meta_json
check "a META.json that is not valid is found out" meta_json_checked
check "the version is the same everywhere" version_agrees
check "control file and install script agree" control_file
check "scripts of released versions are not changed" released_scripts_kept
check "a changed script of a released version is found out" released_scripts_checked
check "a version is released everywhere or nowhere" release_state_agrees
check "every SQL object has a comment" sql_comments
check "make help lists all goals" help_is_whole
check "make uninstall removes what make install has installed" uninstall_is_whole
check "make check names a test that does not exist" unknown_test_named

echo "1..$number"
[ "$failures" = 0 ]
