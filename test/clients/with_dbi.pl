# Perl's DBI: DBD::Pg sends an array reference as one array, and prepares a statement on the server
# at once; a list has a placeholder for each value.
use strict;
use warnings;

# Not use, so that the script compiles without it
require DBI;

my $db = DBI->connect('dbi:Pg:dbname=clients', undef, undef, { RaiseError => 1 });

sub lines
{
	open(my $in, '<', $ENV{ $_[0] }) or die "$_[0]: $!\n";
	chomp(my @lines = <$in>);
	return @lines;
}

sub list
{
	my ($select, $row, @values) = @_;
	my $rows = join(', ', ($row) x (@values / ($row =~ tr/?//)));
	return $db->selectall_arrayref("$select IN ($rows)", undef, @values);
}

sub orders_by_id
{
	return $db->selectall_arrayref('SELECT * FROM orders WHERE id = ANY (?)', undef, [@_]);
}

sub repeated
{
	my $statement = $db->prepare(
		'SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY (?)');
	$statement->execute([ lines('CUSTOMERS') ]) for 1 .. 8;
	return $statement->fetchall_arrayref;
}

my $accounts = 'SELECT number, amount FROM accounts WHERE';
my %steps = (
	in => sub { list('SELECT * FROM orders WHERE id', '?', lines('IDS')) },
	any => sub { orders_by_id(lines('IDS')) },
	repeat => \&repeated,
	uuid => sub {
		$db->selectall_arrayref("$accounts uid = ANY (?)", undef, [ lines('UIDS') ]);
	},
	code => sub { list("$accounts code", '?', lines('CODES')) },
	pair => sub {
		list("$accounts (tenant_id, number)", '(?, ?)', map { split } lines('PAIRS'));
	});
print join('|', @$_), "\n" for $steps{ $ARGV[0] }->()->@*;
