# test/bench/bars.sh: bars, and whether the samples meet them; sourced by lib.sh. A bar is met or
# missed by a ratio of medians; lines of the report's table go to $log/bars.txt.
# shellcheck shell=bash

# value KIND PART CASE [OF]: the median of the samples, or their sum, or the largest; without those
# that were taken again
value() {
    awk -F '\t' -v k="$1" -v p="$2" -v c="$3" '
        $1 == p && $2 == c && $3 == k && $10 == "" {print $7}' "$samples" | sort -g |
        awk -v of="${4:-median}" '{v[NR] = $1; s += $1} END {if (NR) printf "%.10g\n",
            of == "sum" ? s : of == "largest" ? v[NR] : v[int((NR + 1) / 2)]}'
}

# calculate EXPRESSION A B ...: nothing if one of the values is missing
calculate() {
    local number
    for number in "${@:2}"; do [ -n "$number" ] || return 0; done
    awk -v a="${2:-0}" -v b="${3:-0}" -v c="${4:-0}" \
        "BEGIN {printf \"%.10g\n\", $1}" 2>/dev/null || true
}

# short NUMBER: three digits or more, or a dash
short() {
    awk -v v="${1:--}" 'BEGIN {
        a = v < 0 ? -v : v
        f = (a >= 100 ? "%.0f" : a >= 10 ? "%.1f" : a >= 1 ? "%.2f" : "%.3f")
        if (v == "-") print v; else printf f "\n", v}'
}

# row WHAT KIND VALUE UNIT [BAR [REMARK]]: BAR is "<= N", ">= N" or nothing
row() {
    local verdict='' shown=$3
    if [ -z "$3" ]; then
        shown="not measured"
    else
        shown="$(short "$3") $4"
        [ -z "${5:-}" ] || verdict=$(awk -v v="$3" -v op="${5% *}" -v bar="${5#* }" 'BEGIN {
            ok = (op == "<=" ? v <= bar + 0 : v >= bar + 0)
            print (ok ? "met" : "**missed**")}')
    fi
    echo "| $1 | $2 | ${5:-} | $shown | $verdict | ${6:-} |"
}

# best PART DEFAULT-CASE WHO...: the least median of the contestants, and its contestant. WHO may be
# CASE@CONTESTANT, of another case.
best() {
    local who case median
    for who in "${@:3}"; do
        case=$2
        [[ $who != *@* ]] || case=${who%@*}
        median=$(value "${who##*@}" "$1" "$case")
        [ -z "$median" ] || printf '%s\t%s\n' "$median" "$who"
    done | sort -g | head -n 1
}

# take_of CONTESTANT PART CASE: which index the planner took, if it had the choice.
take_of() {
    awk -F '\t' -v k="$1" -v p="$2" -v c="$3" '
        $1 == p && $2 == c && $3 == k && $8 ~ /^takes/ {r = $8} END {if (r) print ", which " r}' \
        "$samples"
}

# bar LABEL MEASURED UNIT "<= N" REMARK: a line of the table of bars.
bar() { row "$1" '' "$2" "$3" "$4" "$5" | tee -a "$log/bars.txt" | sed 's/^/      /'; }

# against BAR LABEL PART CASE OURS... -- RIVAL...: the ratio of the best of ours to the best rival.
# BAR may be empty.
against() {
    local least=$1 label=$2 part=$3 case=$4 ours=() mine theirs which
    shift 4
    while [ "$1" != -- ]; do
        ours+=("$1")
        shift
    done
    shift
    [[ "$part, $case" =~ $BENCH_CASES ]] || return 0
    IFS=$'\t' read -r mine which < <(best "$part" "$case" "${ours[@]}") || true
    ours=("$which")
    IFS=$'\t' read -r theirs which < <(best "$part" "$case" "$@") || true
    bar "$label" "$(calculate 'a / b' "$mine" "$theirs")" '' "${least:+<= $least}" \
        "${ours[0]} $(short "$mine") ms$(take_of "${ours[0]}" "$part" "$case"); $which $(
            short "$theirs") ms"
}

report_bars() {
    [ -s "$log/bars.txt" ] || return 0
    printf '\n## Bars\n\nRatios of medians.\n\n| what | | bar | measured | | |\n'
    echo "|---|---|---|--:|---|---|"
    cat "$log/bars.txt"
}
