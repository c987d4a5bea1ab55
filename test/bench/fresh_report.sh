# test/bench/fresh_report.sh: the report of bench_fresh.sh, which sources it: a table of the bars
# and of the measured values.
# shellcheck shell=bash disable=SC2154  # variables of bench_fresh.sh

report_search() { # KIND
    local n beside after what of
    for what in "inserting,sorted" "beside VACUUM,sorted again"; do
        for n in 1 10 100 4000; do
            of="$n keys, ${what%,*}, "
            beside=$(value "$1" search "${of}p95")
            after=$(value "$1" search "$n keys, ${what#*,}, p95")
            of="p50 $(short "$(value "$1" search "${of}p50")"), p95 $(short "$beside"); sorted"
            of+=" p50 $(short "$(value "$1" search "$n keys, ${what#*,}, p50")"),"
            of+=" p95 $(short "$after")"
            if ! is_ours "$1"; then
                row "search, keys: $n, ${what%,*}: p95" "$1" "$beside" ms '' "$of"
            elif [ "$n" = 4000 ]; then
                row "search, keys: $n, ${what%,*}: p95, ratio" "$1" \
                    "$(calculate 'a / b' "$beside" "$after")" '' '<= 1.5' "$of"
            else
                row "search, keys: $n, ${what%,*}: p95, more" "$1" \
                    "$(calculate 'a - b' "$beside" "$after")" ms \
                    "<= $(case $n in 1) echo 0.3 ;; 10) echo 0.5 ;; 100) echo 1.5 ;; esac)" "$of"
            fi
        done
    done
}

report_insert() { # KIND
    local what rate btree without least=0.90
    ((processors < 12)) || least=0.95
    for what in "single rows" COPY; do
        rate=$(value "$1" insert "$what")
        # a key alone against a key alone, INCLUDE against a covering index
        btree=$(value "$(btree_of "$1")" insert "$what")
        without=$(value "$1, no worker" insert "$what")
        row "insertion, $what, against the btree" "$1" "$(calculate 'a / b' "$rate" "$btree")" '' \
            '>= 1.0' "$(short "$rate") a second"
        row "insertion, $what, against no worker" "$1" \
            "$(calculate 'a / b' "$rate" "$without")" '' ">= $least" \
            "$(short "$without") a second"
    done
    row "insertion, p99.9, more than without worker" "$1" "$(calculate 'a - b' \
        "$(value "$1" insert "single rows, p99.9")" \
        "$(value "$1, no worker" insert "single rows, p99.9")")" ms '<= 1' \
        "$(short "$(value "$1" insert "single rows, p99.9")") ms; btree $(
            short "$(value "$(btree_of "$1")" insert "single rows, p99.9")") ms"
}

btree_of() { [ "$1" = gpujoin ] && echo btree || echo covering; }

report_grow() { # KIND
    local btree share most rows=$((BENCH_ROWS * 105 / 100)) bar=1.35
    ((BENCH_ROWS <= 100000000)) || bar=1.45
    btree=$(btree_of "$1")
    most=$([ "$1" = gpujoin ] && echo 1.5 || echo 2)
    # The times of one kind vary by a factor of three, so rounds are not compared one by one.
    row "VACUUM after 10 % inserts, processor time of ten rounds, against the btree" "$1" \
        "$(vacuums "$1" "$btree" 's += $1; v = s')" '' "<= $most" \
        "ms: $(vacuum_times "$1"); btree: $(vacuum_times "$btree")"
    row "VACUUM after 10 % inserts, worst round, against the btree's worst" "$1" \
        "$(vacuums "$1" "$btree" 'v = $1 > v ? $1 : v')" '' "<= $most"
    wal() { calculate 'a - b' "$(value "$1" grow WAL)" "$(value "no index" grow WAL)"; }
    row "WAL from N to 2N, all, against the btree" "$1" "$(calculate 'a / b' \
        "$(value "$1" grow WAL)" "$(value "$btree" grow WAL)")" '' "<= $bar" \
        "$(short "$(calculate 'a / 1048576' "$(value "$1" grow WAL)")") MB"
    row "WAL from N to 2N, index alone, against the btree" "$1" \
        "$(calculate 'a / b' "$(wal "$1")" "$(wal "$btree")")" '' "<= $bar" \
        "$(per_row "$(wal "$1")") bytes a row, btree $(per_row "$(wal "$btree")"); \
$(value "$1" grow folds) folds wrote $(per_row \
            "$(value "$1" grow entries_written)") entries a row"
    # Everything is merged whenever the rows have tripled: one and a half entries a row.
    share=$(calculate 'a * 1.5 * b / c' "$(value "$1" grow 'WAL of merging everything')" \
        "$rows" $((BENCH_ROWS + rows)))
    row "the same with its share of the next merge of everything" "$1" "$(calculate '(a + b) / c' \
        "$(wal "$1")" "$share" "$(wal "$btree")")" '' '' "$(per_row "$share") bytes a row more"
    row "processor time of flushes and merges, of the insertions' own" "$1" "$(calculate \
        '100 * (a + b) / c' "$(value "$1" grow 'worker cpu')" "$(value "$1" rest 'worker cpu')" \
        "$(value "$1" grow 'processor time of an insertion' sum)")" % '<= 12' \
        "$(micros "$(calculate 'a + b' "$(value "$1" grow 'worker cpu')" \
            "$(value "$1" rest 'worker cpu')")") of $(micros "$(value "$1" grow \
            'processor time of an insertion' sum)") us a row; btree $(micros "$(value "$btree" \
            grow 'processor time of an insertion' sum)"), no index $(micros "$(value "no index" \
            grow 'processor time of an insertion' sum)")"
    row "WAL of merges in any second, nothing inserted" "$1" \
        "$(calculate 'a / 1e6' "$(value "$1" rest 'WAL a second')")" MB '<= 45'
    row "file at most, against a fresh one" "$1" "$(calculate '(a > b ? a : b) / c' \
        "$(value "$1" grow file)" "$(value "$1" rest file)" "$(value "$1" grow 'fresh file')")" '' \
        '<= 2.15' "afterwards $(short "$(calculate 'a / b' \
            "$(value "$1" grow 'file afterwards')" "$(value "$1" grow 'fresh file')")")"
    row "pages in use afterwards, against a fresh one" "$1" "$(calculate 'a / b' \
        "$(value "$1" grow 'pages in use')" "$(value "$1" grow 'fresh file')")" '' '<= 1.05'
}

# The processor times of VACUUM in the ten rounds, and what awk makes of those of two kinds
vacuum_times() { # KIND
    local round
    for round in 1 2 3 4 5 6 7 8 9 10; do
        value "$1" grow "processor time of VACUUM, round $round"
    done | paste -sd ' '
}
vacuums() { # KIND BTREE STATEMENT
    calculate 'a / b' "$(of_vacuums "$1" "$3")" "$(of_vacuums "$2" "$3")"
}
of_vacuums() { # KIND STATEMENT
    vacuum_times "$1" | tr ' ' '\n' | awk "{$2} END {if (NR == 10) print v}"
}

# Of the inserted rows: a total, or a total of milliseconds in microseconds
per_row() { short "$(calculate 'a / b' "$1" $((BENCH_ROWS * 105 / 100)))"; }
micros() { short "$(calculate 'a * 1000 / b' "$1" $((BENCH_ROWS * 105 / 100)))"; }

# The longest time in all parts
longest() { # KIND CASE
    awk -F '\t' -v k="$1" -v c="$2" '$2 == c && $3 == k && (n++ == 0 || $7 > m) {m = $7}
        END {if (n) print m}' "$samples"
}

report_locks() { # KIND
    row "fold lock held by a flush, longest" "$1" "$(longest "$1" 'flush holds')" ms '<= 250'
    row "fold lock held by a step of a merge or a publication, longest" "$1" \
        "$(longest "$1" 'merge holds')" ms '<= 250'
    row "the worker's xmin is set, longest" "$1" "$(longest "$1" xmin)" ms '<= 1000'
    row "VACUUM waits for the fold lock, longest" "$1" "$(longest "$1" 'vacuum waits')" ms \
        '<= 300' "VACUUM held it for $(short "$(longest "$1" 'vacuum holds')") ms"
    row "ALTER TABLE, longest" "$1" "$(printf '%s\n' "$(longest "$1" 'ALTER TABLE, merging: 0')" \
        "$(longest "$1" 'ALTER TABLE, merging: 1')" | sort -g | tail -n 1)" ms '<= 500' \
        "beside a merge: $(short "$(value "$1" locks 'ALTER TABLE, merging: 1' largest)") ms"
    row "DROP INDEX CONCURRENTLY" "$1" "$(value "$1" locks 'DROP INDEX CONCURRENTLY')" ms '<= 500' \
        "workers: $(value "$1" locks 'workers at DROP INDEX')"
    row "DROP DATABASE" "$1" "$(value "$1" locks 'DROP DATABASE')" ms '<= 2000' \
        "workers: $(value "$1" locks 'workers at DROP DATABASE')"
    row "file at most, a quarter of the rows dead, against a fresh one" "$1" "$(calculate 'a / b' \
        "$(value "$1" locks file)" "$(value "$1" locks 'fresh file')")" '' '<= 2.5'
}

report() {
    local kind part
    echo "# Fresh rows: what workers cost, and what they save, $BENCH_ROWS rows"
    echo
    echo "gpujoin, commit $BENCH_COMMIT, $(date +%F). PostgreSQL" \
        "$(pg_config --version | cut -d ' ' -f 2), $processors processors of type" \
        "$(processor_name), no GPU; phases of $FRESH_SECONDS s, parts: $FRESH_PARTS. Locks were" \
        "looked at every 5 ms or more; the times for which they were held are upper limits."
    echo
    echo "| what | index | bar | measured | | |"
    echo "|---|---|---|--:|---|---|"
    for part in $FRESH_PARTS; do
        [ "$part" != search ] || report_search covering
        for kind in "${ours[@]}"; do "report_$part" "$kind"; done
    done
    [ ! -s "$log/remarks.txt" ] || { echo; cat "$log/remarks.txt"; }
}
