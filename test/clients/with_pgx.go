// pgx: a slice is one array, and each statement is prepared on the server and kept, so that after
// five executions it may get a generic plan.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v4"
)

func lines(name string) []string {
	file, err := os.Open(os.Getenv(name))
	if err != nil {
		panic(err)
	}
	defer file.Close()
	var all []string
	for in := bufio.NewScanner(file); in.Scan(); {
		all = append(all, in.Text())
	}
	return all
}

func numbers(name string) []int64 {
	var all []int64
	for _, line := range lines(name) {
		var number int64
		fmt.Sscan(line, &number)
		all = append(all, number)
	}
	return all
}

func ordersByID(conn *pgx.Conn, ids []int64) (pgx.Rows, error) {
	return conn.Query(context.Background(), "SELECT * FROM orders WHERE id = ANY ($1)", ids)
}

func accountsByPair(conn *pgx.Conn, pairs []string) (pgx.Rows, error) {
	var tenants, numbers []int32
	for _, pair := range pairs {
		var tenant, number int32
		fmt.Sscan(pair, &tenant, &number)
		tenants, numbers = append(tenants, tenant), append(numbers, number)
	}
	return conn.Query(context.Background(), `SELECT number, amount
		FROM unnest($1::int[], $2::int[]) AS pairs (tenant_id, number)
		JOIN accounts USING (tenant_id, number)`, tenants, numbers)
}

func query(conn *pgx.Conn, step string) (pgx.Rows, error) {
	accounts := "SELECT number, amount FROM accounts WHERE "
	switch step {
	case "any":
		return ordersByID(conn, numbers("IDS"))
	case "uuid":
		return conn.Query(context.Background(), accounts+"uid = ANY ($1)", lines("UIDS"))
	case "code":
		return conn.Query(context.Background(), accounts+"code = ANY ($1)", lines("CODES"))
	case "pair":
		return accountsByPair(conn, lines("PAIRS"))
	default:
		return conn.Query(context.Background(),
			"SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY ($1)",
			numbers("CUSTOMERS"))
	}
}

func main() {
	conn, err := pgx.Connect(context.Background(), "dbname=clients")
	if err != nil {
		panic(err)
	}
	step, times := os.Args[1], 1
	if step == "repeat" {
		times = 8
	}
	for i := 1; i <= times; i++ {
		rows, err := query(conn, step)
		if err != nil {
			panic(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				panic(err)
			}
			if i == times {
				fmt.Println(strings.ReplaceAll(strings.Trim(fmt.Sprint(values), "[]"), " ", "|"))
			}
		}
		if rows.Err() != nil {
			panic(rows.Err())
		}
	}
}
