#!/bin/sh
# sanitize.sh LIBRARY [OUTPUT-FOLDER]: the device test under compute-sanitizer: memcheck in full,
# then racecheck on small columns, since it makes kernels a thousand times slower, by groups of
# cases in several processes. Prints one line for each process, and exits with 0 if all of them
# have ended by themselves without an error.
#
#	SANITIZE_TOOLS      of "memcheck racecheck"
#	SANITIZE_GROUPS     groups of cases for racecheck; NAME/N: divided among N processes
#	SANITIZE_PROCESSES  the maximum at once, each of which has a gigabyte or more of the card
#	SANITIZE_SECONDS    limit of each process
library=$1
out=${2:-.}
export GPUJOIN_DEVICE_TEST="${GPUJOIN_DEVICE_TEST:-cuda/build/device_test}"
tools=${SANITIZE_TOOLS:-memcheck racecheck}
groups=${SANITIZE_GROUPS:-groups/4 filters/4 reductions/3 service entries sizes extremes clustered
	top random sets}
seconds=${SANITIZE_SECONDS:-240}

# With the arguments NAME NUMBER/N LIBRARY OUTPUT SECONDS
run_share='
name=racecheck_$0_${1%/*}
GPUJOIN_TEST_SMALL=1 GPUJOIN_TEST_CASES=$0 GPUJOIN_TEST_SHARE=$1 timeout "$4" compute-sanitizer \
	--tool racecheck --error-exitcode 9 "$GPUJOIN_DEVICE_TEST" "$2" >"$3/$name.txt" 2>&1
rc=$?
echo "racecheck $0 $1: rc $rc, $(grep -c "^ok" "$3/$name.txt") cases," \
	"$(tail -n 1 "$3/$name.txt")"
exit $rc'

list_shares() {
	for group in $groups; do
		name=${group%/*}
		n=${group#"$name"}
		n=${n#/}
		i=0
		while [ $i -lt "${n:-1}" ]; do
			echo "$name $i/${n:-1} $library $out $seconds"
			i=$((i + 1))
		done
	done
}

failed=0
case $tools in *memcheck*)
	timeout "$seconds" compute-sanitizer --tool memcheck --leak-check full --error-exitcode 9 \
		"$GPUJOIN_DEVICE_TEST" "$library" >"$out/memcheck.txt" 2>&1 || failed=1
	echo "memcheck: $(grep -c '^ok' "$out/memcheck.txt") cases, $(tail -n 1 "$out/memcheck.txt")"
	;;
esac
case $tools in *racecheck*)
	list_shares | xargs -P "${SANITIZE_PROCESSES:-8}" -n 5 sh -c "$run_share" || failed=1
	;;
esac
exit $failed
