#!/usr/bin/env bash
# test/versions/upgrade.sh [OLD-NEW...]: test/t/017_upgrade.pl from one version of PostgreSQL to
# another, 15-17, 17-18 and 18-19 by default. Both are installed in the distribution that has the
# newer one, with the older one's packages from its own distribution: in a folder (chroots.sh),
# which is created on first use, and kept. This requires root.
#
# The last line is "N passed, N failed" of all of them; logs are in tmp_check/OLD-NEW/.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
source "$project/test/versions/chroots.sh"

logs=$project/tmp_check
run=$(mktemp -d "${TMPDIR:-/tmp}/gpujoin-upgrade.XXXXXX")
trap 'rm -rf "$run"' EXIT
export CHECK_PATIENCE=${CHECK_PATIENCE:-3}

prepare_chroot() { # OLD NEW FOLDER
    local version packages=(make gcc libc6-dev perl libipc-run-perl
        libtap-parser-sourcehandler-pgtap-perl "postgresql-$1-pgtap")
    [ ! -e "$3" ] || return 0
    rm -rf "$3.new"
    copy_base "$(suite_of_version "$2")" "$3.new"
    echo "deb $(mirror_of "$(suite_of_version "$1")") $(suite_of_version "$1") main" \
        >"$3.new/etc/apt/sources.list.d/older.list"
    mkdir -p "$3.new/etc/postgresql-common" "$3.new/src"
    echo 'create_main_cluster = false' >"$3.new/etc/postgresql-common/createcluster.conf"
    for version in "$1" "$2"; do
        packages+=("postgresql-$version" "postgresql-server-dev-$version")
    done
    install_in "$3.new" "${packages[@]}"
    mv "$3.new" "$3"
}

# shellcheck disable=SC2016  # for the shell inside
upgrade() { # OLD NEW
    local folder=$cache/upgrade-$1-$2 status=0
    prepare_chroot "$1" "$2" "$folder"
    exec 8>"$folder.lock"
    flock 8    # one run a folder at a time
    rm -rf "$folder/src/gpujoin"
    # shellcheck disable=SC2034  # for copy_sources_to
    work=$run
    copy_sources_to "$folder/src/gpujoin"
    in_chroot "$folder" env -u GPUJOIN_CACHE NVCC= CHECK_LONG=1 TESTS=017_upgrade \
        PG_CONFIG="/usr/lib/postgresql/$1/bin/pg_config" \
        UPGRADE_TO="/usr/lib/postgresql/$2/bin/pg_config" \
        bash -c 'cd /src/gpujoin && exec bash test/check.sh tap 8>&-' || status=$?
    rm -rf "${logs:?}/$1-$2"
    mkdir -p "$logs"
    cp -r "$folder/src/gpujoin/tmp_check" "$logs/$1-$2" 2>/dev/null || true
    exec 8>&-
    return "$status"
}

total_passed=0 total_failed=0
[ $# != 0 ] || set -- 15-17 17-18 18-19
for pair in "$@"; do
    old=${pair%-*} new=${pair#*-} status=0 passed=0 failed=0
    is_supported "$old" && is_supported "$new" || die "\"$pair\" is not two of $supported_majors"
    say "PostgreSQL $old to $new in $(suite_of_version "$new")"
    require_root_for_chroots
    (upgrade "$old" "$new") || status=$?
    [ ! -s "$logs/$pair/totals" ] || read -r passed failed <"$logs/$pair/totals"
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
done
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ "$total_passed" != 0 ]
