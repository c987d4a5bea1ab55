#!/usr/bin/env bash
# test/fuzz/fuzz.sh: the fuzz targets as lines of TAP. `make check SUITES=fuzz` runs it.
#
# Each target replays its corpus, test/fuzz/corpus/TARGET, and continues from it for FUZZ_SECONDS,
# always with the same seed. Findings are saved in FUZZ_OUT, as inputs; add such an input to the
# corpus once the bug is fixed. Without clang's libFuzzer only the corpus is replayed, by programs
# built with gcc.
#
#   FUZZ_SECONDS=300 FUZZ_OUT=/tmp/fuzz PG_CONFIG=... test/fuzz/fuzz.sh [TARGET...]
#
# FUZZ_KEEP=1 replaces the corpus by the fewest and shortest inputs, of it and of the results of
# this run, that reach the same code.  Inputs with a name of their own stay.
set -euo pipefail
cd "$(dirname "$0")"
out=${FUZZ_OUT:-$PWD/build}
seconds=${FUZZ_SECONDS:-15}
targets=${*:-helper pages result}
number=0
failed=0

# The targets look for leaks themselves, when a helper or a transaction has ended normally.
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1

# report NAME LOG COMMAND...
report() {
    local name=$1 log=$2 status=0
    shift 2
    number=$((number + 1))
    "$@" >"$log" 2>&1 || status=$?
    if [ "$status" = 0 ]; then
        echo "ok $number - $name"
        return
    fi
    failed=1
    echo "not ok $number - $name"
    grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse)|^Running|^Executed' "$log" |
        head -n 60 | sed 's/^/#   /'
}

# Finds the first clang that has libFuzzer; Debian has some under versioned names only.
find_clang() {
    local name
    echo 'int LLVMFuzzerTestOneInput(void *d, long n) { return !d && n; }' >"$out/try.c"
    for name in clang $(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -urV); do
        if "$name" -fsanitize=fuzzer,address,undefined -o "$out/try" "$out/try.c" 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

# keep TARGET: minimize the corpus together with the new inputs.  libFuzzer names an input by its
# hash.
keep() {
    local corpus=corpus/$1 least=$out/least_$1 name
    rm -rf "$least"
    mkdir "$least"
    "$out/fuzz_$1" -set_cover_merge=1 -timeout=60 "$least" "$corpus" "$out/new_$1" \
        >"$out/$1.merge" 2>&1
    find "$corpus" -type f | grep -xE '.*/[0-9a-f]{40}' | xargs -r rm
    for name in "$corpus"/*; do
        [ ! -e "$name" ] || rm -f "$least/$(sha1sum "$name" | cut -d' ' -f1)"
    done
    cp -n "$least"/* "$corpus"
}

mkdir -p "$out"
options=(OUT="$out" PG_CONFIG="${PG_CONFIG:-pg_config}")
clang=$(find_clang)
if [ -n "$clang" ]; then
    options+=(CC="$clang")
else
    options+=(PLAIN=1 CC="${CC:-gcc}")
    seconds=0
    echo "# no libFuzzer here: the corpus is replayed only"
fi
report "the targets are built" "$out/build.log" make -s -j"$(nproc)" "${options[@]}"
[ "$failed" = 0 ] || seconds=0

for target in $targets; do
    [ "$failed" = 0 ] || break
    corpus=corpus/$target
    report "$target: the corpus, $(find "$corpus" -type f | wc -l) inputs" "$out/$target.replay" \
        "$out/fuzz_$target" -timeout=60 "$corpus"/*
    [ "$seconds" != 0 ] || continue
    # new inputs go to the first folder
    mkdir -p "$out/new_$target"
    report "$target: $seconds seconds more" "$out/$target.log" "$out/fuzz_$target" -seed=1 \
        -max_total_time="$seconds" -max_len=400 -timeout=60 -rss_limit_mb=4096 \
        -artifact_prefix="$out/$target-" "$out/new_$target" "$corpus"
    sed -nE 's/^#([0-9]+)[[:space:]]+DONE[[:space:]]+cov: ([0-9]+).*/#   \1 runs, \2 edges/p' \
        "$out/$target.log"
    [ -z "${FUZZ_KEEP:-}" ] || keep "$target"
done
echo "1..$number"
exit "$failed"
