#!/usr/bin/env bash
# test/long.sh [SUITE...]: the tests that take too long for every day, part by part. Each part is
# also a command of its own.
#
#   check     test/check.sh at full length; if suites are named, only these, and no other part
#   upgrade   make check-upgrade   (as root)
#   sanitize  make check-sanitize
#   coexist   make check-coexist
#   cluster   make check-cluster
#   soak      make soak
#
# LONG_PARTS="check soak" runs only these. Logs are in tmp_check/PART/. The last line is
# "N passed, N failed" of all of them.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd -P)
logs=$project/tmp_check
run=$(mktemp -d "${TMPDIR:-/tmp}/gpujoin-long.XXXXXX")
trap 'rm -rf "$run"' EXIT

parts=${LONG_PARTS:-check}
[ $# != 0 ] || parts=${LONG_PARTS:-check upgrade sanitize coexist cluster soak}

part() { # NAME SUITE...
    local name=$1
    shift
    case $name in
        check) CHECK_LONG=1 bash "$project/test/check.sh" "$@" ;;
        upgrade) bash "$project/test/versions/upgrade.sh" ;;
        sanitize) bash "$project/test/sanitize.sh" ;;
        coexist) bash "$project/test/coexist/coexist.sh" ;;
        cluster) bash "$project/test/cluster/cluster.sh" ;;
        soak) bash "$project/test/soak/soak.sh" ;;
        *) echo "error: there is no part \"$name\"" >&2; return 1 ;;
    esac
}

total_passed=0 total_failed=0 table=''
for name in $parts; do
    since=$SECONDS status=0 passed=0 failed=0
    echo "==> $name"
    if [ "$name" = upgrade ] && [ "$(id -u)" != 0 ]; then
        table+="$(printf '%-10s skipped: only root can do this' "$name")"$'\n'
        continue
    fi
    part "$name" "$@" 2>&1 | tee "$run/output" || status=$?
    read -r passed failed < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' \
        "$run/output") || true
    passed=${passed:-0} failed=${failed:-0}
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
    table+=$(printf '%-10s %5d passed, %d failed  (%d s)' \
        "$name" "$passed" "$failed" $((SECONDS - since)))$'\n'
    ! cp -r "$logs" "$run/$name" 2>/dev/null || rm -rf "$logs"
done
mkdir -p "$logs"
for name in $parts; do
    [ ! -e "$run/$name" ] || cp -r "$run/$name" "$logs/"
done
echo "==> all parts"
printf '%s' "$table" | sed 's/^/    /'
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ "$total_passed" != 0 ]
