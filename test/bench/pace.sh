# test/bench/pace.sh: detects whether a processor runs at full speed. Sourced by lib.sh.
#
# A virtual machine's processors are shared: while a neighbor uses the other thread of the same
# core, everything takes up to twice as long, for a second or for minutes, and nothing in the
# machine shows it. So a fixed loop of arithmetic is timed in the same process just before and
# after each measurement. If one of the two took longer than usual, the sample is disturbed and
# repeated; this treats all contestants alike, and does not depend on the sample itself. If all
# repetitions are disturbed, the last one counts. The samples' file has all of them, with the
# times of the loops.
# shellcheck shell=bash

# About 5 ms. It does not touch memory, so that it leaves the caches alone.
pace_loop="DO 'BEGIN FOR i IN 1 .. 600000 LOOP NULL; END LOOP; END'"

# A loop is disturbed if it takes this many times longer than the fastest tenth of all loops.
pace_tolerance=1.2

pace_begin() { : >"$work/paces"; }

# is_disturbed MS...: records the times of the loops, and sets pace to the longest.
is_disturbed() {
    printf '%s\n' "$@" >>"$work/paces"
    pace=$(printf '%s\n' "$@" | sort -g | tail -n 1)
    sort -g "$work/paces" | awk -v p="$pace" -v t="$pace_tolerance" '
        {v[NR] = $1} END {exit !(p > t * v[int((NR + 9) / 10)])}'
}

# Print a summary for the report. In the samples' file, the ninth column has the times of the
# loops, the tenth tells whether the sample was repeated.
say_paces() { # SAMPLES
    awk -F '\t' '$9 != "" {n++; again += $10 != ""} END {
        if (n) printf "Samples with a timed loop before and after them: %d; taken again, since" \
            " the processor was disturbed: %d.", n, again}' "$1"
    sort -g "$work/paces" | awk '{v[NR] = $1} END {
        if (NR) printf " The loop took %.1f ms (quickest tenth), %.1f (median), %.1f (longest).\n",
            v[int((NR + 9) / 10)], v[int((NR + 1) / 2)], v[NR]}'
}
