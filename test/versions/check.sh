#!/usr/bin/env bash
# test/versions/check.sh [VERSION...]: build and test with each version of PostgreSQL, all that
# are supported if none is named. A version installed on this machine is tested here; the others
# in a distribution that has them, in a separate folder (chroots.sh), which is created on first
# use, and kept. There test/check.sh installs missing packages, as on any machine.
#
# Environment: VERSION_SUITES  what to run (test/check.sh has the list)
#              TESTS           only the tests of these names
#              GPUJOIN_CACHE   where the folders are kept; mirrors: see chroots.sh
#
# Logs and results are in tmp_check/VERSION/. The last line is "N passed, N failed" of all of them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$project/test/versions/chroots.sh"

suites=${VERSION_SUITES:-lint regress isolation pgtap tap-short}
logs=$project/tmp_check
run=$(mktemp -d "${TMPDIR:-/tmp}/gpujoin-versions.XXXXXX")
trap 'rm -rf "$run"' EXIT
# This script takes long anyway, and runs unattended.
export CHECK_PATIENCE=${CHECK_PATIENCE:-3}

# Succeeds if this machine has this version, with the files to build an extension.
is_here() {
    pgbin=/usr/lib/postgresql/$1/bin
    [ -x "$pgbin/postgres" ] && [ -x "$pgbin/pg_config" ] && has_pgxs
}

# Installing packages must not start a server; only the tests start servers.
prepare_chroot() { # VERSION FOLDER
    local suite
    suite=$(suite_of_version "$1")
    [ ! -e "$2" ] || return 0
    copy_base "$suite" "$2.new"
    mkdir -p "$2.new/etc/postgresql-common" "$2.new/src"
    echo 'create_main_cluster = false' >"$2.new/etc/postgresql-common/createcluster.conf"
    mv "$2.new" "$2"
}

check_here() { # VERSION
    local status=0
    PG_CONFIG=/usr/lib/postgresql/$1/bin/pg_config \
        bash "$project/test/check.sh" "${suite_list[@]}" || status=$?
    cp -r "$project/tmp_check" "$run/$1" 2>/dev/null || true
    return "$status"
}

# shellcheck disable=SC2016  # for the shell inside
check_in_chroot() { # VERSION
    local version=$1 folder=$cache/postgresql-$1 status=0
    prepare_chroot "$version" "$folder"
    exec 8>"$folder.lock"
    flock 8    # one run a folder at a time
    rm -rf "$folder/src/gpujoin"
    mkdir -p "$folder/src/gpujoin"
    # shellcheck disable=SC2034  # for copy_sources_to
    work=$run
    copy_sources_to "$folder/src/gpujoin"
    in_chroot "$folder" env -u GPUJOIN_CACHE NVCC= TESTS="${TESTS:-}" \
        PG_CONFIG="/usr/lib/postgresql/$version/bin/pg_config" \
        bash -c 'cd /src/gpujoin && exec bash test/check.sh "$@" 8>&-' bash "${suite_list[@]}" ||
        status=$?
    cp -r "$folder/src/gpujoin/tmp_check" "$run/$version" 2>/dev/null || true
    exec 8>&-
    return "$status"
}

read -ra suite_list <<<"$suites"
# shellcheck disable=SC2206  # a list of numbers
versions=(${*:-$(tr ' ' '\n' <<<"$supported_majors" | sort -n)})
total_passed=0 total_failed=0 table=''
for version in "${versions[@]}"; do
    is_supported "$version" || die "PostgreSQL $version is not among $supported_majors"
    since=$SECONDS status=0 passed=0 failed=0
    if is_here "$version"; then
        say "PostgreSQL $version of this machine"
        check_here "$version" || status=$?
    else
        say "PostgreSQL $version in $(suite_of_version "$version")"
        require_root_for_chroots
        (check_in_chroot "$version") || status=$?
    fi
    [ ! -s "$run/$version/totals" ] || read -r passed failed <"$run/$version/totals"
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
    table+=$(printf 'PostgreSQL %s  %5d passed, %d failed  (%d s)' \
        "$version" "$passed" "$failed" $((SECONDS - since)))$'\n'
done
mkdir -p "$logs"
for version in "${versions[@]}"; do
    [ ! -e "$run/$version" ] || { rm -rf "${logs:?}/$version"; cp -r "$run/$version" "$logs/"; }
done
say "all versions"
printf '%s' "$table" | sed 's/^/    /'
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ "$total_passed" != 0 ]
