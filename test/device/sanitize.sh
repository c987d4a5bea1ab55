#!/bin/sh
# sanitize.sh LIBRARY [OUTPUT-FOLDER]: the device test under compute-sanitizer, memcheck in full,
# racecheck on small columns (it makes kernels a thousand times slower), by groups of cases at once.
library=$1
out=${2:-.}
program=${GPUJOIN_DEVICE_TEST:-cuda/build/device_test}
failed=0
groups="sizes extremes clustered service entries filters reductions groups top random sets"

compute-sanitizer --tool memcheck --leak-check full --error-exitcode 9 \
	"$program" "$library" >"$out/memcheck.txt" 2>&1 || failed=1
tail -n 1 "$out/memcheck.txt"
GPUJOIN_TEST_SMALL=1
export GPUJOIN_TEST_SMALL
for group in $groups; do
	(
		GPUJOIN_TEST_CASES=$group compute-sanitizer --tool racecheck --error-exitcode 9 \
			"$program" "$library" >"$out/racecheck_$group.txt" 2>&1
		echo $? >"$out/racecheck_$group.rc"
	) &
done
wait
for group in $groups; do
	rc=$(cat "$out/racecheck_$group.rc")
	echo "racecheck $group: rc $rc, $(tail -n 1 "$out/racecheck_$group.txt")"
	[ "$rc" = 0 ] || failed=1
	rm -f "$out/racecheck_$group.rc"
done
exit $failed
