# test/bench/pace.sh: does a processor run at its full speed? Sourced by lib.sh.
# shellcheck shell=bash
#
# A virtual machine's processors are shared: while a neighbour works on the other thread of the same
# core, all takes up to twice as long, for a second or for minutes, and nothing in the machine shows
# it. So a fixed loop of arithmetic is timed in the same process just before and after what is
# measured. If one of the two took longer than usual, the sample is disturbed and taken again; that
# holds for all contestants alike, and asks nothing of the sample itself. Who stays disturbed has
# the last sample count. All are in the samples' file, with what the loops took.

# Some 5 ms. It touches no memory, so that it leaves the caches as they are.
pace_loop="DO 'BEGIN FOR i IN 1 .. 600000 LOOP NULL; END LOOP; END'"

# Disturbed is what takes so many times what the quickest tenth of all loops took.
pace_tolerance=1.2

pace_begin() { : >"$work/paces"; }

# is_disturbed MS...: notes what the loops took, and sets pace to the longest.
is_disturbed() {
    printf '%s\n' "$@" >>"$work/paces"
    pace=$(printf '%s\n' "$@" | sort -g | tail -n 1)
    sort -g "$work/paces" | awk -v p="$pace" -v t="$pace_tolerance" '
        {v[NR] = $1} END {exit !(p > t * v[int((NR + 9) / 10)])}'
}

# How it went, for the report. Of the samples' file: the ninth column is what the loops took, the
# tenth says whether the sample was taken again.
say_paces() { # SAMPLES
    awk -F '\t' '$9 != "" {n++; again += $10 != ""} END {
        if (n) printf "Samples with a timed loop before and after them: %d; taken again, since" \
            " the processor was disturbed: %d.", n, again}' "$1"
    sort -g "$work/paces" | awk '{v[NR] = $1} END {
        if (NR) printf " The loop took %.1f ms (quickest tenth), %.1f (median), %.1f (longest).\n",
            v[int((NR + 9) / 10)], v[int((NR + 1) / 2)], v[NR]}'
}
