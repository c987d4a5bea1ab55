<?php
// PHP's PDO: a list has a placeholder for each value, an array is a text; each statement is
// prepared on the server, and an emulated one has literals.
$db = new PDO('pgsql:dbname=clients', options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

function lines(string $name): array
{
    return file(getenv($name), FILE_IGNORE_NEW_LINES);
}

function ask(string $sql, array $values, bool $emulate = false): array
{
    global $db;
    $statement = $db->prepare($sql, [PDO::ATTR_EMULATE_PREPARES => $emulate]);
    $statement->execute($values);
    return $statement->fetchAll(PDO::FETCH_NUM);
}

function marks(array $values, string $mark = '?'): string
{
    return implode(', ', array_fill(0, count($values), $mark));
}

function ordersById(array $ids): array
{
    return ask('SELECT * FROM orders WHERE id IN (' . marks($ids) . ')', $ids);
}

function repeated(): array
{
    global $db;
    $statement = $db->prepare(
        'SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY (?)');
    for ($i = 0; $i < 8; $i++) {
        $statement->execute(['{' . implode(',', lines('CUSTOMERS')) . '}']);
    }
    return $statement->fetchAll(PDO::FETCH_NUM);
}

$accounts = 'SELECT number, amount FROM accounts WHERE ';
$pairs = array_map(fn ($line) => explode(' ', $line), lines('PAIRS'));
$rows = match ($argv[1]) {
    'in' => ordersById(lines('IDS')),
    'any' => ask('SELECT * FROM orders WHERE id = ANY (?)',
        ['{' . implode(',', lines('IDS')) . '}']),
    'emulated' => ask('SELECT * FROM orders WHERE id IN (' . marks(lines('IDS')) . ')',
        lines('IDS'), true),
    'repeat' => repeated(),
    'uuid' => ask($accounts . 'uid IN (' . marks(lines('UIDS')) . ')', lines('UIDS')),
    'code' => ask($accounts . 'code IN (' . marks(lines('CODES')) . ')', lines('CODES')),
    'pair' => ask($accounts . '(tenant_id, number) IN (' . marks($pairs, '(?, ?)') . ')',
        array_merge(...$pairs)),
};
foreach ($rows as $row) {
    echo implode('|', $row), "\n";
}
