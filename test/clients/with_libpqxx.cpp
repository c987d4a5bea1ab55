// libpqxx: an array as a parameter, as text; a prepared statement, which after five executions may
// get a generic plan; a list of literals.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <pqxx/pqxx>

using Lines = std::vector<std::string>;

static Lines lines(const char *name)
{
    std::ifstream in(std::getenv(name));
    Lines all;

    for (std::string line; std::getline(in, line);)
        all.push_back(line);
    return all;
}

static std::string array(const Lines &keys)
{
    return "{" + pqxx::separated_list(",", keys.begin(), keys.end()) + "}";
}

static pqxx::result orders_by_id(pqxx::work &work, const Lines &ids)
{
    return work.exec_params("SELECT * FROM orders WHERE id = ANY ($1)", array(ids));
}

static pqxx::result repeated(pqxx::connection &connection, pqxx::work &work)
{
    pqxx::result rows;

    connection.prepare("children",
        "SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY ($1)");
    for (int i = 0; i < 8; i++)
        rows = work.exec_prepared("children", array(lines("CUSTOMERS")));
    return rows;
}

static pqxx::result pairs(pqxx::work &work, const std::string &accounts)
{
    std::string list;

    for (const std::string &pair : lines("PAIRS"))
    {
        std::string row = pair;

        list += (list.empty() ? "(" : ", (") + row.replace(row.find(' '), 1, ", ") + ")";
    }
    return work.exec(accounts + "(tenant_id, number) IN (" + list + ")");
}

int main(int, char **argv)
{
    pqxx::connection connection("dbname=clients");
    pqxx::work work(connection);
    std::string step = argv[1], accounts = "SELECT number, amount FROM accounts WHERE ";
    pqxx::result rows = step == "any" ? orders_by_id(work, lines("IDS"))
        : step == "repeat" ? repeated(connection, work)
        : step == "uuid" ? work.exec_params(accounts + "uid = ANY ($1)", array(lines("UIDS")))
        : step == "code" ? work.exec_params(accounts + "code = ANY ($1)", array(lines("CODES")))
        : pairs(work, accounts);

    for (const auto &row : rows)
        for (const auto &field : row)
            std::cout << field.c_str() << (field.num() + 1 < row.size() ? '|' : '\n');
}
