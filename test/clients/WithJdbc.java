// JDBC: a list of parameters and an array; after five executions the driver prepares a statement
// on the server, after five more the server may take a generic plan.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collections;
import java.util.List;
import java.util.UUID;

public class WithJdbc {
    static final String BY_ID = "SELECT id, customer_id, amount FROM orders WHERE id ";
    static final String BY_CUSTOMER =
        "SELECT customer_id, id, amount FROM orders WHERE customer_id ";

    static final String ACCOUNTS = "SELECT number, amount FROM accounts WHERE ";

    public static void main(String[] args) throws SQLException, IOException {
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/clients";

        try (Connection connection = DriverManager.getConnection(
                 url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"))) {
            switch (args[0]) {
                case "in" -> list(connection, numbers("IDS"));
                case "any" -> print(ordersById(connection, numbers("IDS")));
                case "repeat" -> array(connection, BY_CUSTOMER, "int", numbers("CUSTOMERS"), 15);
                case "repeat_id" -> array(connection, BY_ID, "bigint", numbers("IDS"), 15);
                case "uuid" -> print(accountsBy(connection, "uid", "uuid", lines("UIDS")
                    .stream().map(UUID::fromString).toArray()));
                case "code" -> print(accountsBy(connection, "code", "text", lines("CODES")
                    .toArray()));
                case "pair" -> pairs(connection, lines("PAIRS"));
                default -> throw new IllegalArgumentException(args[0]);
            }
        }
    }

    static ResultSet ordersById(Connection connection, Long[] ids) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(
            "SELECT id, customer_id, amount FROM orders WHERE id = ANY (?)");
        statement.setArray(1, connection.createArrayOf("bigint", ids));
        return statement.executeQuery();
    }

    static ResultSet accountsBy(Connection connection, String column, String type, Object[] keys)
            throws SQLException {
        PreparedStatement statement = connection.prepareStatement(
            ACCOUNTS + column + " = ANY (?)");
        statement.setArray(1, connection.createArrayOf(type, keys));
        return statement.executeQuery();
    }

    static List<String> lines(String name) throws IOException {
        return Files.readAllLines(Path.of(System.getenv(name)));
    }

    static Long[] numbers(String name) throws IOException {
        return lines(name).stream().map(Long::valueOf).toArray(Long[]::new);
    }

    static void pairs(Connection connection, List<String> pairs) throws SQLException {
        String marks = String.join(",", Collections.nCopies(pairs.size(), "(?,?)"));

        try (PreparedStatement statement = connection.prepareStatement(
                 ACCOUNTS + "(tenant_id, number) IN (" + marks + ")")) {
            int parameter = 1;

            for (String pair : pairs) {
                for (String number : pair.split(" ")) {
                    statement.setInt(parameter++, Integer.parseInt(number));
                }
            }
            print(statement.executeQuery());
        }
    }

    static void list(Connection connection, Long[] keys) throws SQLException {
        String marks = String.join(",", Collections.nCopies(keys.length, "?"));

        try (PreparedStatement statement =
                 connection.prepareStatement(BY_ID + "IN (" + marks + ")")) {
            for (int i = 0; i < keys.length; i++) {
                statement.setLong(i + 1, keys[i]);
            }
            print(statement.executeQuery());
        }
    }

    static void array(Connection connection, String select, String type, Long[] keys, int times)
            throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(select + "= ANY (?)")) {
            statement.setArray(1, connection.createArrayOf(type, keys));
            for (int i = 1; i < times; i++) {
                statement.executeQuery().close();
            }
            print(statement.executeQuery());
        }
    }

    static void print(ResultSet rows) throws SQLException {
        StringBuilder out = new StringBuilder();

        int columns = rows.getMetaData().getColumnCount();

        while (rows.next()) {
            for (int i = 1; i <= columns; i++) {
                out.append(rows.getString(i)).append(i < columns ? '|' : '\n');
            }
        }
        System.out.print(out);
    }
}
