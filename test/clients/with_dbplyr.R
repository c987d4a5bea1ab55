# R's dbplyr with RPostgreSQL: %in% with a vector is a list of literals, which are numeric if the
# vector is (double); a filter by another table is an EXISTS; pairs are SQL of our own.
suppressMessages(library(dplyr))

options(scipen = 99)    # numbers are printed as integers
db <- DBI::dbConnect(RPostgreSQL::PostgreSQL(), host = Sys.getenv("PGHOST"),
    user = Sys.getenv("PGUSER"), dbname = "clients")
orders <- tbl(db, "orders")
accounts <- tbl(db, "accounts")
lines_of <- function(name) readLines(Sys.getenv(name))

orders_by_id <- function(ids) orders %>% filter(id %in% ids)

orders_of_region <- function(wanted) {
    customers <- tbl(db, "customers") %>% filter(region == wanted)
    semi_join(orders, customers, by = c("customer_id" = "id"))
}

accounts_by_pair <- function(pairs) {
    list <- paste0("(", sub(" ", ", ", pairs), ")", collapse = ", ")
    accounts %>% filter(dbplyr::sql(paste0("(tenant_id, number) IN (", list, ")")))
}

rows <- switch(commandArgs(trailingOnly = TRUE)[1],
    `in` = orders_by_id(as.integer(lines_of("IDS"))),
    double = orders_by_id(as.numeric(lines_of("IDS"))),
    semi = orders_of_region(7L) %>% select(customer_id, id, amount),
    uuid = accounts %>% filter(uid %in% !!lines_of("UIDS")) %>% select(number, amount),
    code = accounts %>% filter(code %in% !!lines_of("CODES")) %>% select(number, amount),
    pair = accounts_by_pair(lines_of("PAIRS")) %>% select(number, amount))
write.table(collect(rows), sep = "|", quote = FALSE, row.names = FALSE, col.names = FALSE)
