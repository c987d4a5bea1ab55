# test/total.sh: prints the last line of a script that counts tests; sourced after setup.sh.
# shellcheck shell=bash

# The counts are passed from the inside half to the outside half in a file, so that the last line
# is printed after the clean-up.
last_words() {
    local status=$1 passed=0 failed=0
    [ ! -s "$logs_kept_in/totals" ] || read -r passed failed <"$logs_kept_in/totals"
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    [ -z "$logs_kept_in" ] || note "logs and results: $logs_kept_in"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
