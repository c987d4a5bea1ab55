# test/counting.sh: counting checks in scripts that are suites of their own; sourced after setup.sh.
# shellcheck shell=bash

# The last line is printed after the clean-up, so that it is the last: "N passed, N failed".
last_words() {
    local status=$1 passed=0 failed=0
    [ ! -s "$logs_kept_in/totals" ] || read -r passed failed <"$logs_kept_in/totals"
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    [ -z "$logs_kept_in" ] || note "logs and results: $logs_kept_in"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}

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
