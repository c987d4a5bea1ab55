# test/bench/lib.sh: common code of the benchmarks: contestants, interleaved runs, samples;
# sourced by scripts that have sourced test/setup.sh.
# shellcheck shell=bash
#
# A contestant is a kind of index ("no index", btree, covering, hash, gpujoin, "gpujoin include"),
# or an external one (peers.sh), with ", N" appended if it may use parallel workers, or ", custom
# plan" if its prepared statements are planned each time. "gpujoin CPU" is an index like "gpujoin
# include" that has no mirror, so that one run on a machine with a GPU shows both. All kinds exist
# at once; a contestant sees only its own, and is forced to use it if necessary. "stock" and "all
# indexes", also with ", generic plan" appended, see the indexes that named_indexes lists; the
# planner chooses. A sample is a line of $log/samples.tsv:
#
#   part, case, contestant, unit, "less" or "more" is better, x (for plots), value, remark
#
# The remark is "told to" if the planner used the index only because settings forced it, and
# "other plan" if it did not even then; "takes INDEX ..." if it had the choice. Two more columns are
# added by pace.sh.

source "$(dirname "${BASH_SOURCE[0]}")/session.sh"
source "$(dirname "${BASH_SOURCE[0]}")/pace.sh"
source "$(dirname "${BASH_SOURCE[0]}")/peers.sh"
source "$(dirname "${BASH_SOURCE[0]}")/bars.sh"

sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# timed STATEMENT: its time in milliseconds.
timed() { sql -c '\timing on' -c "$1" | sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' | tail -n 1; }

keep() {
    local IFS=$'\t'
    echo "$*" >>"$log/samples.tsv"
}

whole_number() {
    local name
    for name in "$@"; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$name must be a whole number, not \"${!name}\""
    done
}

# keep_report STATUS [FOLDER]: at exit, copy the report that the inside half has left in
# $log/report.
keep_report() {
    local target=${2:-$project/test/bench/results} file
    if [ "$1" != 0 ]; then
        note "logs: $logs_kept_in"
        return
    fi
    mkdir -p "$target"
    for file in "$logs_kept_in"/report/*; do
        cp "$file" "$target/"
        [ "$(id -u)" != 0 ] || chown --reference="$target" "$target/$(basename "$file")"
        note "written: $target/$(basename "$file")"
    done
}

# Outside: reserve huge pages for MEGABYTES of shared buffers and the rest of shared memory, and
# restore the kernel's setting afterwards. If that is not possible nothing changes: the report
# will state that the server has none.
reserve_huge_pages() { # MEGABYTES
    local size free wanted
    size=$(of_memory Hugepagesize)
    [ -n "$size" ] || { note "no huge pages: this kernel has none"; return 0; }
    free=$(free_huge_pages)
    wanted=$(($1 * 1024 / size * 104 / 100 + 65536 / size - free))
    ((wanted > 0)) || return 0
    huge_pages_before=$(<"$nr_hugepages")
    if ! { echo $((huge_pages_before + wanted)) >"$nr_hugepages"; } 2>/dev/null; then
        huge_pages_before=''
        note "no huge pages: $nr_hugepages cannot be written"
    elif (($(free_huge_pages) < free + wanted)); then
        note "no huge pages: the kernel has no $wanted of $size kB to spare"
        return_huge_pages
    fi
}

return_huge_pages() {
    [ -n "$huge_pages_before" ] || return 0
    echo "$huge_pages_before" >"$nr_hugepages"
    huge_pages_before=''
}

of_memory() { awk -v name="$1:" '$1 == name {print $2}' /proc/meminfo; }
free_huge_pages() { echo $(($(of_memory HugePages_Free) - $(of_memory HugePages_Rsvd))); }
nr_hugepages=/proc/sys/vm/nr_hugepages
huge_pages_before=''

# Inside: describe whether the server has huge pages. Up to PostgreSQL 16 only the kernel knows.
describe_huge_pages() {
    local status
    status=$(sql -c "SELECT current_setting('huge_pages_status', true)")
    [ -n "$status" ] || status=$(awk -v page="$(getconf PAGESIZE)" '
        $1 == "KernelPageSize:" && $2 * 1024 > page {huge = 1}
        END {print !NR ? "unknown" : huge ? "on" : "off"}' \
        "/proc/$(head -n 1 "$work/bench/postmaster.pid")/smaps" 2>/dev/null) || status=unknown
    echo "Huge pages of the shared buffers: $status" \
        "($(sql -c 'SHOW shared_memory_size_in_huge_pages') of" \
        "$(of_memory Hugepagesize) kB are needed)."
}

processor_name() { sed -nE 's/^model name\s*: *//p' /proc/cpuinfo | head -n 1; }

# Print the name of the answering device, once the service has settled, or "CPU".
device_name() {
    local name='' tries
    for tries in $(seq 100); do
        case $(sql -c 'SELECT state FROM pg_stat_gpujoin') in
            *starting*) sleep 0.2 ;;
            *) break ;;
        esac
    done
    name=$(sql -c "SELECT device FROM pg_stat_gpujoin WHERE state = 'ready'")
    echo "${name:-CPU}"
}

# go_cold SERVER START: stop SERVER and start it with the function START, with empty caches. The
# kernel is asked to evict each file, which does not require root; fincore, if installed, shows
# how much is still cached: the largest percentage ever left is kept in most_resident.
go_cold() {
    local resident
    stop_server "$1"
    find -L "$work/$1/base" -type f -size +64k -print0 >"$work/files"
    # The kernel does not evict pages that it has not written yet.
    xargs -0 sync <"$work/files"
    xargs -0 -P 8 -I{} dd if={} iflag=nocache count=0 status=none <"$work/files"
    if command -v fincore >/dev/null; then
        resident=$(xargs -0 fincore -b -n -o res,size <"$work/files" 2>/dev/null |
            awk '{r += $1; s += $2} END {printf "%.0f", s ? 100 * r / s : 100}')
        ((resident <= most_resident)) || most_resident=$resident
    fi
    "$2"
}

say_how_cold() {
    local share="at most $most_resident %"
    ((most_resident >= 0)) || share="an unknown share (there is no fincore)"
    echo "$1: $share of the data were still in the kernel's memory." | tee -a "$log/remarks.txt"
}
most_resident=-1

# ---------------------------------------------------------------------------------------------
# Contestants
# ---------------------------------------------------------------------------------------------

kind_of() {
    local kind=${1%, N}
    echo "${kind%, custom plan}"
}

# The names of a contestant's indexes, if it has several: CONTESTANT/PREFIX is the key.
declare -A named_indexes

# The index of CONTESTANT among those with PREFIX, or its indexes; nothing if it has none.
index_of() {
    [ -z "${named_indexes[$1/$2]:-}" ] || { echo "${named_indexes[$1/$2]}"; return; }
    case $1 in
        "no index"*) ;;
        "gpujoin include"*) echo "$2_include" ;;
        "gpujoin CPU"*) echo "$2_cpu" ;;
        *) echo "$2_$(kind_of "$1")" ;;
    esac
}

# index_definition KIND COLUMN INCLUDED: the part of CREATE INDEX after ON table.
index_definition() {
    case $1 in
        btree) echo "USING btree ($2)" ;;
        covering) echo "USING btree ($2) INCLUDE ($3)" ;;
        hash) echo "USING hash ($2)" ;;
        gpujoin) echo "USING gpujoin ($2)" ;;
        "gpujoin include" | "gpujoin CPU") echo "USING gpujoin ($2) INCLUDE ($3)" ;;
    esac
}

# Succeeds if the index of KIND has a mirror when there is a device.
is_mirrored() { [[ $1 == gpujoin* && $1 != "gpujoin CPU"* ]]; }

# Settings of a contestant as NAME=VALUE: the resources and features that it may use.
limits_of() {
    local workers=0
    [[ $1 != *", N" ]] || workers=$BENCH_WORKERS
    echo "max_parallel_workers_per_gather=$workers"
    [[ $1 == gpujoin* || $1 == "all indexes"* ]] || echo "gpujoin.enabled=off"
    [[ $1 != "gpujoin CPU"* ]] || echo "gpujoin.auto_load=off"
    # Without an index, a generic plan compares each row with each key of an array, which takes
    # minutes.
    case $1 in
        "no index"* | stock | "all indexes") ;;
        *", custom plan") echo "plan_cache_mode=force_custom_plan" ;;
        *) echo "plan_cache_mode=force_generic_plan" ;;
    esac
}

# Further settings, which force the contestant to use its index. The penalties are charged for
# small tables, too, and are so high that the choice of a parallel plan becomes arbitrary.
orders_of() {
    case $1 in
        # A bitmap scan for each key would be the worst use of the index, not the one to measure.
        gpujoin*) printf '%s\n' gpujoin.min_rows=0 enable_seqscan=off enable_bitmapscan=off \
            enable_nestloop=off ;;
        "no index"* | stock | "all indexes"*) ;;
        *) echo enable_seqscan=off ;;
    esac
}

settings_of() { limits_of "$1"; orders_of "$1"; }

as_set_commands() { sed 's/$/;/; s/^/SET /'; }

# For programs that do not accept commands.
as_options() { settings_of "$1" | sed 's/^/-c /' | paste -sd ' '; }

# The contestants in the order of ROUND: forward in odd rounds, backward in even ones; one a line.
in_order() {
    local round=$1
    shift
    if ((round % 2)); then printf '%s\n' "$@"; else printf '%s\n' "$@" | tac; fi
}

# ---------------------------------------------------------------------------------------------
# Time limits: a part has a share of the time left, its cases share that equally
# ---------------------------------------------------------------------------------------------

part_ends=0
cases_left=1

# begin_part WEIGHT OTHERS CASES: OTHERS is the total weight of all later parts.
begin_part() {
    if [ "$BENCH_LIMIT" = 0 ]; then
        part_ends=999999999
    else
        part_ends=$((SECONDS + (BENCH_LIMIT - SECONDS) * $1 / ($1 + $2)))
    fi
    cases_left=$3
}

# is_wanted "PART, CASE": succeeds if the case is selected and time is left.
is_wanted() { [[ $1 =~ $BENCH_CASES ]] && ! out_of_time; }

# begin_case "PART, CASE": set the time limit for its rounds. Fails if the case is not selected,
# or if no time is left.
begin_case() {
    local share=$(((part_ends - SECONDS) / cases_left))
    cases_left=$((cases_left > 1 ? cases_left - 1 : 1))
    [[ $1 =~ $BENCH_CASES ]] || return 1
    ! out_of_time || { not_reached "$1"; return 1; }
    case_began=$SECONDS case_ends=$((SECONDS + share))
}

out_of_time() { [ "$BENCH_LIMIT" != 0 ] && ((SECONDS >= BENCH_LIMIT)); }

# not_reached WHAT: print and report that time ran out.
not_reached() { echo "No time was left for: $1." | tee -a "$log/remarks.txt"; }

# Succeeds if there is time for round ROUND, judging by earlier ones. The first may exceed its
# case's share, but not the total time left. After that, rounds come in pairs, so that medians are
# of an odd number.
another_round() {
    local round=$1
    if ((round == 1)); then
        ! out_of_time
        return
    fi
    ((round % 2 == 0)) || return 0
    ((round < BENCH_RUNS && SECONDS + 2 * (SECONDS - case_began) / (round - 1) <= case_ends))
}

# tps_of PGBENCH-ARGUMENT...: transactions per second. An aborted client is an error.
tps_of() {
    if ! pgbench -n "$@" >"$work/pgbench.txt" 2>&1 || grep -q 'aborted' "$work/pgbench.txt"; then
        { echo "-- pgbench $*"; cat "$work/pgbench.txt"; } >>"$log/pgbench-failures.txt"
        die "pgbench failed: $(grep -m 1 -i error "$work/pgbench.txt" || true)"
    fi
    sed -nE 's/^tps = ([0-9.]+).*/\1/p' "$work/pgbench.txt"
}

# Print the medians of a contest so far, in case the run is cut short.
say_medians() { # PART CASE
    awk -F '\t' -v p="$1" -v c="$2" '$1 == p && $2 == c && $10 == "" {print $3 "\t" $7}' \
        "$log/samples.tsv" |
        sort -t "$(printf '\t')" -k 1,1 -k 2,2g | awk -F '\t' '
            function say() {if (n) {printf "%s%s %.4g", sep, who, v[int((n + 1) / 2)]; sep = ", "}}
            BEGIN {sep = "      "}
            $1 != who {say(); who = $1; n = 0} {v[++n] = $2} END {say(); print ""}'
}

say_rounds() { # CASE ROUNDS
    [ "$2" != 0 ] || not_reached "$1"
    note "$1: $2 round$([ "$2" = 1 ] || echo s) ($SECONDS s)"
}

# ---------------------------------------------------------------------------------------------
# A contest
# ---------------------------------------------------------------------------------------------

# run_as CONTESTANT TABLE PREFIX STATEMENT: sets ms and paces, leaves the answer in $work/answer
# and the plan in $work/plan. Planning once before warms the session's caches. A contestant with a
# remark is forced to use its index. If timed_as is set, it is put before the statement, like
# EXPLAIN (ANALYZE) if the rows are wanted but not their transfer to the client.
run_as() {
    local times
    ! is_outside "$1" || { run_outside "$1" "$4"; return; }
    {
        show_what_it_has "$@"
        [ -z "${remarks[$1]:-}" ] || orders_of "$1" | as_set_commands
        printf '\\o %s\n' "$work/plan"
        echo "$explain $4;"
        echo '\timing on'
        printf '\\o /dev/null\n%s;\n' "$pace_loop"
        printf '\\o %s\n' "$work/answer"
        echo "$timed_as $4;"
        printf '\\o /dev/null\n%s;\n' "$pace_loop"
        echo '\timing off'
    } | tell_session
    mapfile -t times < <(sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' "$work/said")
    ms=${times[-2]} paces=("${times[-3]}" "${times[-1]}")
}

show_what_it_has() { # CONTESTANT TABLE PREFIX
    local index
    index=$(index_of "$1" "$3")
    echo 'RESET ALL;'
    echo "SELECT show_indexes('$2'${index:+, '$index'}) \g /dev/null"
    limits_of "$1" | as_set_commands
    echo "$in_session"
}

# remark_on CONTESTANT TABLE PREFIX STATEMENT: sets remark. A plan may have a list of many keys,
# which the shell would read slowly from the session.
remark_on() {
    local index
    ! is_outside "$1" || { remark_on_outside "$1" "$4"; return; }
    index=$(index_of "$1" "$3")
    remark=''
    [ -n "$index" ] || return 0
    { show_what_it_has "$@"; plan_of "$4"; } | tell_session
    if [[ $1 == stock || $1 == "all indexes"* ]]; then
        remark="takes $(grep -owE "${index// /|}" "$work/plan" | sort -u | paste -sd ' ' || true)"
        return
    fi
    ! grep -qw "$index" "$work/plan" || return 0
    remark="told to"
    { orders_of "$1" | as_set_commands; echo "DISCARD PLANS;"; plan_of "$4"; } | tell_session
    grep -qw "$index" "$work/plan" || remark="other plan"
}

plan_of() { printf '\\o %s\nEXPLAIN %s;\n\\o\n' "$work/plan" "$1"; }

# check_answers: compares the answers of all contestants; sets remarks. The report shows plans if
# $explain requests more than EXPLAIN: gpujoin's as executed, and those without the contestant's
# index.
check_answers() { # PART CASE TABLE PREFIX STATEMENT CONTESTANT...
    local what="$1, $2" contestant first='' remark wanted=$explain timed_as=''
    for contestant in "${@:6}"; do
        remark_on "$contestant" "${@:3:3}"
        remarks[$contestant]=$remark
        [[ $contestant == gpujoin* ]] || explain=EXPLAIN
        run_as "$contestant" "${@:3:3}"
        explain=$wanted
        [[ $5 == *"ORDER BY"* ]] || sort -o "$work/answer" "$work/answer"
        if [ -z "$first" ]; then
            first=$contestant
            mv "$work/answer" "$work/right"
        else
            cmp -s "$work/answer" "$work/right" ||
                die "$what: \"$contestant\" answers otherwise than \"$first\""
        fi
        [ "$wanted" = EXPLAIN ] && [ "$remark" != "other plan" ] ||
            { echo "-- $what, $contestant"; cut -c 1-110 "$work/plan"; } >>"$log/plans.txt"
    done
    explain=EXPLAIN
}

# still_in ROUND CONTESTANT: succeeds unless the contestant was BENCH_SLOW times slower than the
# fastest in the first round; the time of later rounds is better spent on the others.
still_in() {
    [ "$1" = 1 ] || [ "$BENCH_SLOW" = 0 ] || awk -v s="$BENCH_SLOW" -v c="$2" -F '\t' '
        {t[$1] = $2; if (!best || $2 < best) best = $2} END {exit t[c] > s * best}' \
        "$work/first-round"
}

# sample PART CASE X CONTESTANT TABLE PREFIX STATEMENT: sets ms. A disturbed sample is repeated
# while there is time, unless it is cold, because the repetition would not be.
sample() {
    local try again paces pace
    for ((try = 1; ; try++)); do
        run_as "${@:4}"
        again=''
        ! is_disturbed "${paces[@]}" || ((try >= BENCH_TRIES)) || [ -n "$before_run" ] ||
            ((SECONDS >= case_ends)) || again="taken again"
        keep "$1" "$2" "$4" ms less "$3" "$ms" "${remarks[$4]}" "$pace" "$again"
        [ -n "$again" ] || return 0
    done
}

# contest PART CASE X TABLE PREFIX STATEMENT CONTESTANT...: all answers first, then interleaved
# timings, all in one session. If before_run is set, that command runs before each timed run,
# which then has its own session; commands in in_session are sent to the session before each run.
contest() {
    local part=$1 name=$2 x=$3 subject=("${@:4:3}") round contestant ms
    local -A remarks
    shift 6
    begin_case "$part, $name" || return 0
    check_answers "$part" "$name" "${subject[@]}" "$@"
    : >"$work/first-round"
    case_began=$SECONDS
    for ((round = 1; ; round++)); do
        another_round "$round" || break
        while IFS= read -r contestant <&3; do
            still_in "$round" "$contestant" || continue
            [ -z "$before_run" ] || { close_session; $before_run; }
            sample "$part" "$name" "$x" "$contestant" "${subject[@]}"
            [ "$round" != 1 ] || printf '%s\t%s\n' "$contestant" "$ms" >>"$work/first-round"
        done 3< <(in_order "$round" "$@")
    done
    close_session
    say_rounds "$part, $name" $((round - 1))
    say_medians "$part" "$name"
}
before_run='' timed_as='' in_session=''
explain=EXPLAIN
