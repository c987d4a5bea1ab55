# test/counting.sh: counts checks in scripts that are suites of their own; sourced after setup.sh.
# shellcheck shell=bash

source "$project/test/total.sh"

passed=0 failed=0
check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        note "FAILED: $name"
    fi
    echo "$passed $failed" >"$log/totals"
}
