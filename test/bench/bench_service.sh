#!/usr/bin/env bash
# test/bench/bench_service.sh: the cost of requests to the device service, on a throw-away server
# (test/setup.sh) and synthetic columns. Prints markdown.
#
#   SERVICE_ROWS      rows of the column, a multiple of 800 (20000000)
#   SERVICE_REQUESTS  number of small requests for the medians (2000); large ones: a fiftieth
#   SERVICE_CLIENTS   number of concurrent sessions (16)
#   SERVICE_DEVICE    gpujoin.device (auto)
#   SERVICE_OUT       also write the report to this file
#
# "Total" is from the backend's call to its last TID, received and checked. Its parts, by the
# clock of the device's process: "set" until the keys were being sent to the device, "kernel"
# until the device had reported the number of matches, "transfer" until the last TID was in the
# result buffer. "Beyond" is total less kernel. GB/s refer to the TIDs: during the transfer, which
# waits for the backend if the result is larger than its part of the buffer, and during the total
# less set and kernel.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

last_words() {
    [ "$1" = 0 ] || { note "logs: $logs_kept_in"; return; }
    [ -z "${SERVICE_OUT:-}" ] || cp "$logs_kept_in/service.md" "$SERVICE_OUT"
}

export SERVICE_ROWS=${SERVICE_ROWS:-20000000} SERVICE_REQUESTS=${SERVICE_REQUESTS:-2000}
export SERVICE_CLIENTS=${SERVICE_CLIENTS:-16} SERVICE_DEVICE=${SERVICE_DEVICE:-auto}
for value in "$SERVICE_ROWS" "$SERVICE_REQUESTS" "$SERVICE_CLIENTS"; do
    [[ $value =~ ^[1-9][0-9]*$ ]] || die "not a whole number: \"$value\""
done
inside || run_inside bench test/bench/bench_service.sh

export PGDATABASE=service
pages=$((SERVICE_ROWS / 800))
few=$((SERVICE_REQUESTS / 50 + 1))
sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
say_row() { echo "$*" | tee -a "$log/service.md"; }

# measure NAME ARGUMENTS: one row of the table.
measure() {
    say_row "$(sql -c "SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |', '$1',
        to_char(matches, 'FM999,999,999'), total_us::int, device_us::int, set_us::int,
        kernel_us::int, transfer_us::int, (total_us - kernel_us)::int,
        CASE WHEN transfer_us >= 1 THEN round((matches * 8 / transfer_us / 1000)::numeric, 1) END,
        CASE WHEN transfer_us >= 1 THEN
            round((matches * 8 / (total_us - set_us - kernel_us) / 1000)::numeric, 1) END)
        FROM gpujoin_service_test($pages, verify => false, $2) WHERE fallbacks = 0 AND wrong = 0")"
}

# Twenty rows share a key where few rows match, a thousandth of all rows where many do.
start() {
    start_server service <<CONF
shared_buffers = '256MB'
shared_preload_libraries = 'gpujoin'
gpujoin.device = '$SERVICE_DEVICE'
$1
CONF
    until [ "$(psql -XqAt -d postgres -c "SELECT count(*) FROM pg_available_extensions
        WHERE name = 'gpujoin'")" = 1 ]; do sleep 0.1; done
    createdb service 2>/dev/null || true
    sql -c 'CREATE EXTENSION IF NOT EXISTS gpujoin_test CASCADE' 2>/dev/null
    for _ in $(seq 600); do
        [ "$(sql -c 'SELECT state FROM gpujoin_status()')" != ready ] || break
        sleep 0.1
    done
    device=$(sql -c "SELECT device FROM gpujoin_status() WHERE state = 'ready'")
    [ -n "$device" ] || die "no device: $(sql -c 'SELECT reason FROM gpujoin_status()')"
}

large() {
    local share
    for share in 20 5 1.25; do
        measure "$1, 1 in $share" "requests => $few, repeats => $((SERVICE_ROWS / 20000)),
            nkeys => (20000 / $share)::int"
    done
}

# at_once COUNT_ONLY: requests per second of all clients together.
at_once() {
    local client ids=()
    for client in $(seq "$SERVICE_CLIENTS"); do
        sql -c "SELECT per_second, total_us FROM gpujoin_service_test($pages, nkeys => 4000,
            requests => $((SERVICE_REQUESTS * 2)), verify => false, repeats => 5,
            count_only => $1) WHERE fallbacks = 0 AND wrong = 0" >"$work/client-$client" &
        ids+=($!)
    done
    wait "${ids[@]}"
    cat "$work"/client-* | awk -F'|' '{n += $1; us += $2} END {
        printf "%d requests a second, median %d us", n, us / NR}'
}

: >"$log/service.md"
build_and_install
install_test_module
start ''
say_row "Device service: $device, $SERVICE_ROWS rows, 4-byte keys, medians in us"
say_row ''
say_row '| request | TIDs | total | in its process | set | kernel | transfer | beyond' \
    '| GB/s, transfer | GB/s |'
say_row '|---|---|---|---|---|---|---|---|---|---|'
measure 'count, 4,000 keys' "requests => $SERVICE_REQUESTS, repeats => 5, nkeys => 4000,
    count_only => true"
measure 'TIDs, 4,000 keys' "requests => $SERVICE_REQUESTS, repeats => 5, nkeys => 4000"
large 'large result'
counts=$(at_once true)
tids=$(at_once false)
stop_server service
start "gpujoin.result_buffer = '1GB'
gpujoin.max_requests = 4"
large 'large result, part of the buffer 256 MB'
stop_server service
say_row ''
say_row "$SERVICE_CLIENTS sessions at once, 4,000 keys: counts $counts; TIDs $tids."
