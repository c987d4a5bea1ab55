#!/usr/bin/env bash
# dbplyr-double-lists.sh: numbers of R are sent as numeric, and then no btree is used.
#
# Seen with Debian's r-cran-dbplyr 2.3.0 and R 4.2.2, PostgreSQL 15.20 (2026-11-29). Needs Rscript.
#
# A number in R is a double unless it says otherwise (7L, as.integer()), also if it has been read
# from a file or computed. For filter(id %in% ids), dbplyr writes a double as 7.0, which is numeric
# to PostgreSQL: each row's id is cast before it is compared. The statement is right, but reads the
# whole table. With integers the same line of R uses the index.
#
# Consequence: as.integer(ids); gpujoin answers both forms.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
command -v Rscript >/dev/null || die "Rscript is needed: Debian's r-base-core"
start_server
sql -c 'CREATE TABLE orders (id int PRIMARY KEY, amount int)' \
    -c 'INSERT INTO orders SELECT i, i FROM generate_series(1, 100000) i' -c 'VACUUM ANALYZE orders'
debian_packages r-cran-dbplyr=2.3.0+dfsg-1 r-cran-{assertthat,blob,cli,dbi,dplyr,fansi,generics} \
    r-cran-{glue,lifecycle,magrittr,pillar,pkgconfig,purrr,r6,rlang,stringi,stringr,tibble,tidyr} \
    r-cran-{tidyselect,utf8,vctrs,withr}

# condition R-EXPRESSION: the condition that dbplyr makes of it; its simulated connection has
# backticks around names.
condition() {
    R_LIBS=$temp/root/usr/lib/R/site-library Rscript -e 'library(dbplyr, warn = FALSE)' \
        -e "cat(translate_sql($1, con = simulate_postgres()))" | tr '`' '"'
}

# plan CONDITION: the scan of PostgreSQL, and what it compares
plan() {
    sql -c "EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE $1" | sed 's/^ *//' | head -n 2
}

doubles=$(condition 'id %in% c(7, 207, 407)')
integers=$(condition 'id %in% c(7L, 207L, 407L)')
expect "what dbplyr writes" '"id" IN (7.0, 207.0, 407.0)
"id" IN (7, 207, 407)' "$doubles
$integers"
expect "a list of doubles" "Seq Scan on orders
Filter: ((id)::numeric = ANY ('{7.0,207.0,407.0}'::numeric[]))" "$(plan "$doubles")"
expect "a list of integers" "Index Scan using orders_pkey on orders
Index Cond: (id = ANY ('{7,207,407}'::integer[]))" "$(plan "$integers")"
