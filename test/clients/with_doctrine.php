<?php
// Doctrine's DBAL: an array parameter becomes a list of parameters; pairs by its expressions.
require 'Doctrine/DBAL/autoload.php';

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;

$db = DriverManager::getConnection(['driver' => 'pdo_pgsql', 'dbname' => 'clients',
    'user' => getenv('PGUSER'), 'host' => getenv('PGHOST')]);

function lines(string $name): array
{
    return file(getenv($name), FILE_IGNORE_NEW_LINES);
}

function ordersById(array $ids): array
{
    global $db;
    return $db->executeQuery('SELECT * FROM orders WHERE id IN (?)', [$ids],
        [Connection::PARAM_INT_ARRAY])->fetchAllNumeric();
}

function accountsWhere(string $column, array $values): array
{
    global $db;
    return $db->createQueryBuilder()->select('number', 'amount')->from('accounts')
        ->where("$column IN (:keys)")->setParameter('keys', $values, Connection::PARAM_STR_ARRAY)
        ->executeQuery()->fetchAllNumeric();
}

function accountsByPair(array $pairs): array
{
    global $db;
    $query = $db->createQueryBuilder()->select('number', 'amount')->from('accounts');
    foreach ($pairs as [$tenant, $number]) {
        $query->orWhere($query->expr()->and(
            $query->expr()->eq('tenant_id', $query->createPositionalParameter($tenant)),
            $query->expr()->eq('number', $query->createPositionalParameter($number))));
    }
    return $query->executeQuery()->fetchAllNumeric();
}

$rows = match ($argv[1]) {
    'in' => ordersById(lines('IDS')),
    'uuid' => accountsWhere('uid', lines('UIDS')),
    'code' => accountsWhere('code', lines('CODES')),
    'pair' => accountsByPair(array_map(fn ($line) => explode(' ', $line), lines('PAIRS'))),
};
foreach ($rows as $row) {
    echo implode('|', $row), "\n";
}
