#!/usr/bin/env bash
# packaging/check.sh [PART...]: builds the packages that users install, from the source archive of
# `make dist`, and installs them into clean systems; all parts by default.
#
#   dist    the source archive: PGXN's requirements, and that a build needs nothing else
#   deb     debian/: built, checked by lintian, installed into a distribution with only the
#           package's dependencies, where the quick start of README.md is run, removed;
#           autopkgtest
#   rpm     packaging/gpujoin.spec: built with Debian's PostgreSQL, checked by rpmlint
#   docker  packaging/Dockerfile: linted, and its steps run in a folder of their own
#
# Root only, on Debian or Ubuntu. Uncommitted changes of tracked files are included. The packages
# with the CUDA library are built, too, for one architecture, if the machine has a CUDA toolkit in
# CUDA_HOME, or else in /usr/local/cuda.
#
# Environment: PACKAGE_SUITES  distributions for deb; bookworm, which has PostgreSQL 15
#              GPUJOIN_CACHE   where these are kept; mirrors: see test/versions/chroots.sh
#
# Logs are in tmp_check/packages/. The last line is "N passed, N failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../test/setup.sh"
source "$project/test/versions/chroots.sh"
source "$project/packaging/docker.sh"

all_parts="dist deb rpm docker"
log=$project/tmp_check/packages
passed=0 failed=0

# step NAME COMMAND...: one test; the command's output is shown if it fails. A failed
# command in it, or die(), does not end the whole run.
step() {
    local name=$1 file since=$SECONDS status=0
    shift
    mkdir -p "$log"
    file=$log/$(tr -c 'a-z0-9\n' - <<<"${name,,}").log
    # A subshell that is part of a condition would continue after an error.
    set +e
    (set -e; "$@") >"$file" 2>&1
    status=$?
    set -e
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        note "ok: $name  ($((SECONDS - since)) s)"
    else
        failed=$((failed + 1))
        note "not ok: $name  ($((SECONDS - since)) s)"
        tail -n "${STEP_LINES:-40}" "$file" | sed 's/^/    | /'
    fi
    return "$status"
}

# ---------------------------------------------------------------------------------------------
# The file of sources
# ---------------------------------------------------------------------------------------------

# The working tree: the last commit with its uncommitted changes.
make_dist() {
    local tree
    # Run git as the tree's owner, who must own the objects that it writes; it requires a name.
    tree=$(setpriv --reuid "$(stat -c %u "$project")" --regid "$(stat -c %g "$project")" \
        --clear-groups git -c safe.directory='*' -c user.name=check -c user.email=check@localhost \
        -C "$project" stash create)
    DIST_TREE=${tree:-HEAD} bash "$project/packaging/dist.sh" "$run"
    (cd "$run" && unzip -q "$run/gpujoin-$version.zip")
}

dist_is_whole() {
    local file
    for file in META.json README.md LICENSE CHANGELOG.md Makefile gpujoin.control \
        sql/gpujoin--1.0.0.sql advisor/gpujoin_advisor.control debian/control; do
        [ -e "$source/$file" ] || { echo "no $file"; return 1; }
    done
    # The archive must have only the one folder, and no files that a build creates.
    [ "$(unzip -Z1 "$run/gpujoin-$version.zip" | cut -d/ -f1 | sort -u)" = "gpujoin-$version" ]
    ! unzip -Z1 "$run/gpujoin-$version.zip" | grep -E '\.(o|so|bc|d)$'
    cd "$source"
    [ -z "$(perl test/meta.pl)" ]
    ! command -v validate_pgxn_meta || validate_pgxn_meta
}

check_dist() {
    say "file of sources"
    step "dist: what PGXN and a build want" dist_is_whole || true
}

# ---------------------------------------------------------------------------------------------
# Debian packages
# ---------------------------------------------------------------------------------------------

# A folder with the build dependencies, which is kept; its copy of the sources is new.
prepare_builder() { # SUITE
    builder=$cache/packages-$1
    if [ ! -e "$builder" ]; then
        rm -rf "$builder.new"
        copy_base "$1" "$builder.new"
        mkdir -p "$builder.new/etc/postgresql-common"
        echo 'create_main_cluster = false' \
            >"$builder.new/etc/postgresql-common/createcluster.conf"
        install_in "$builder.new" build-essential debhelper fakeroot lintian autopkgtest unzip \
            postgresql-server-dev-all rpm rpmlint g++
        mkdir -p "$builder.new/usr/local/cuda"
        mv "$builder.new" "$builder"
    fi
    rm -rf "$builder/build"
    mkdir -p "$builder/build"
    cp -r "$source" "$builder/build/gpujoin-$version"
    chmod -R a+rX "$builder/build"
}

# The commands of CONTRIBUTING.md that build Debian packages, verbatim
documented_commands() {
    awk '/^## Packages/ {inside = 1; next} /^## / {inside = 0}
        inside && /^```/ {block = !block; next} inside && block' "$source/CONTRIBUTING.md"
}

# With -d, because this CUDA is not from a package. autopkgtest needs the source package as well.
build_deb() {
    local commands
    commands=$(documented_commands)
    grep -q '^pg_buildext updatecontrol$' <<<"$commands" || return 1
    grep -q '^dpkg-buildpackage ' <<<"$commands" || return 1
    [ -z "$cuda" ] ||
        commands=${commands/dpkg-buildpackage/dpkg-buildpackage -d -Ppkg.gpujoin.cuda}
    tar -C "$run" --exclude="gpujoin-$version/debian" -czf \
        "$builder/build/gpujoin_$version.orig.tar.gz" "gpujoin-$version"
    chown -R "$(id -u nobody)" "$builder/build"
    CHROOT_CUDA=$cuda in_chroot "$builder" \
        setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/build \
        GPUJOIN_CUDA_ARCHS=90 \
        sh -ec "cd /build/gpujoin-$version
            cp -r . ../for-autopkgtest
            $commands
            cd ../for-autopkgtest
            pg_buildext updatecontrol
            dpkg-buildpackage -us -uc -d -S" || return 1
    [ -z "$cuda" ] || dpkg-deb -c "$builder"/build/postgresql-*-gpujoin-cuda_*.deb |
        grep gpujoin_cuda.so
}

# This is no upload to Debian's archive, which requires a bug number.
lint_deb() {
    in_chroot "$builder" setpriv --reuid nobody --regid nogroup --clear-groups \
        sh -c 'cd /build && lintian --fail-on error,warning --display-info \
            --suppress-tags initial-upload-closes-no-bugs *.changes'
}

run_autopkgtest() {
    in_chroot "$builder" sh -c 'cd /build && autopkgtest *.deb *.dsc -- null'
}

# In a minimal distribution, as a user would: install, start, create, restart with the library
# preloaded, remove, and check that the server still starts.
# shellcheck disable=SC2016  # for the shell inside
try_deb() {
    local clean=$run/clean-$suite
    copy_base "$suite" "$clean"
    mkdir -p "$clean/packages/test"
    cp "$builder"/build/postgresql-*-gpujoin_*.deb "$clean/packages"
    cp "$source/README.md" "$clean/packages"
    cp "$source/test/quick_start.sh" "$clean/packages/test"
    chmod -R a+rX "$clean/packages"
    in_chroot "$clean" bash -euxc '
        apt-get update -qq
        apt-get install -y -qq /packages/*.deb >/dev/null
        major=$(ls /usr/lib/postgresql)
        [ -d "/etc/postgresql/$major/main" ]
        pg_ctlcluster "$major" main start
        as() { setpriv --reuid postgres --regid postgres --init-groups env HOME=/tmp "$@"; }
        as sh /packages/test/quick_start.sh
        as psql -Xc "ALTER SYSTEM SET shared_preload_libraries = gpujoin"
        pg_ctlcluster "$major" main restart
        as psql -Xc "SHOW gpujoin.device"
        as sh /packages/test/quick_start.sh
        as psql -Xc "CREATE EXTENSION gpujoin" -c "TABLE pg_stat_gpujoin" \
            -c "CREATE EXTENSION gpujoin_advisor" -c "DROP EXTENSION gpujoin CASCADE" \
            -c "ALTER SYSTEM RESET shared_preload_libraries"
        apt-get purge -y -qq "postgresql-$major-gpujoin" >/dev/null
        [ -z "$(find /usr /etc /var/lib/postgresql -name "*gpujoin*")" ]
        pg_ctlcluster "$major" main restart
        as psql -XAtc "SELECT count(*) FROM pg_available_extensions WHERE name = '"'gpujoin'"'" |
            grep -qx 0
        pg_ctlcluster "$major" main stop'
}

check_deb() {
    local suite
    for suite in ${PACKAGE_SUITES:-bookworm}; do
        say "Debian package for $suite"
        prepare_builder "$suite"
        step "deb $suite: build" build_deb || continue
        step "deb $suite: lintian" lint_deb || true
        step "deb $suite: quick start in a clean $suite" try_deb || true
        step "deb $suite: autopkgtest" run_autopkgtest || true
    done
}

# ---------------------------------------------------------------------------------------------
# RPM
# ---------------------------------------------------------------------------------------------

rpm_major() { in_chroot "$builder" sh -c 'ls /usr/lib/postgresql | tail -n 1'; }

# Debian's packages do not have the names that the spec requires.
build_rpm() {
    mkdir -p "$builder/build/rpm"
    cp "$run/gpujoin-$version.zip" "$builder/build/rpm"
    # shellcheck disable=SC2016  # for the shell inside
    CHROOT_CUDA=$cuda in_chroot "$builder" env GPUJOIN_CUDA_ARCHS=90 sh -ec '
        cd "/build/gpujoin-$0"
        rpmbuild -ba --nodeps ${2:+--with cuda} \
            --define "_topdir /build/rpm" --define "_sourcedir /build/rpm" \
            --define "pgmajorversion $1" --define "pginstdir /usr/lib/postgresql/$1" \
            --define "extensiondir /usr/share/postgresql/$1/extension" packaging/gpujoin.spec
        rpm -qlp /build/rpm/RPMS/*/*.rpm' "$version" "$(rpm_major)" "$cuda"
}

lint_rpm() {
    in_chroot "$builder" sh -ec 'cd "/build/gpujoin-$0"
        rpmlint -c packaging/rpmlint.toml packaging/gpujoin.spec \
            /build/rpm/RPMS/*/*.rpm /build/rpm/SRPMS/*.rpm' "$version"
}

check_rpm() {
    say "RPM"
    prepare_builder bookworm
    step "rpm: build" build_rpm || return 0
    step "rpm: rpmlint" lint_rpm || true
}

# ---------------------------------------------------------------------------------------------

for part in "$@"; do
    [[ " $all_parts " == *" $part "* ]] || die "no part \"$part\"; there are: $all_parts"
done
require_root_for_chroots
for program in git unzip; do
    command -v $program >/dev/null || wish_for $program
done
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -x "$cuda/bin/nvcc" ] || cuda=''
run=$(mktemp -d "${TMPDIR:-/tmp}/gpujoin-packages.XXXXXX")
trap '[ -n "${KEEP:-}" ] || rm -rf "$run"' EXIT
rm -rf "$log"
version=$(sed -nE "s/^default_version = '(.*)'/\1/p" "$project/gpujoin.control")
source=$run/gpujoin-$version
make_dist >/dev/null

for part in ${*:-$all_parts}; do
    "check_$part"
done
note "logs: $log"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
