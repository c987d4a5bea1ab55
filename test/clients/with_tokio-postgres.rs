// tokio-postgres: a slice is one array, in a statement that is prepared on the server; the array's
// type is that of the column. A prepared statement may get a generic plan after five executions.
use std::{env, error::Error, fs};
use tokio_postgres::{types::ToSql, Client, NoTls, Row};
use uuid::Uuid;

type Answer = Result<Vec<Row>, tokio_postgres::Error>;

fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(env::var(name).unwrap()).unwrap();
    text.lines().map(String::from).collect()
}

async fn orders_by_id(client: &Client, ids: &[i64]) -> Answer {
    client.query("SELECT id, customer_id, amount FROM orders WHERE id = ANY ($1)", &[&ids]).await
}

async fn repeated(client: &Client, customers: &[i32]) -> Answer {
    let children = client
        .prepare("SELECT customer_id, id, amount FROM orders WHERE customer_id = ANY ($1)").await?;
    for _ in 1..8 {
        client.query(&children, &[&customers]).await?;
    }
    client.query(&children, &[&customers]).await
}

async fn accounts(client: &Client, condition: &str, keys: &[&(dyn ToSql + Sync)]) -> Answer {
    client.query(&format!("SELECT number, amount FROM accounts {condition}"), keys).await
}

fn print(row: &Row) {
    let values: Vec<String> = (0..row.len())
        .map(|i| row.try_get::<_, i32>(i).map(i64::from).or_else(|_| row.try_get(i)).unwrap())
        .map(|value: i64| value.to_string()).collect();
    println!("{}", values.join("|"));
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = format!("host={} port={} user={} dbname=clients",
        env::var("PGHOST")?, env::var("PGPORT")?, env::var("PGUSER")?);
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
    tokio::spawn(connection);
    let numbers = |name| lines(name).iter().map(|line| line.parse().unwrap()).collect::<Vec<i64>>();
    let rows = match env::args().nth(1).unwrap().as_str() {
        "any" => orders_by_id(&client, &numbers("IDS")).await?,
        "repeat" => {
            let customers: Vec<i32> = numbers("CUSTOMERS").iter().map(|&id| id as i32).collect();
            repeated(&client, &customers).await?
        }
        "uuid" => {
            let uids: Vec<Uuid> = lines("UIDS").iter().map(|uid| uid.parse().unwrap()).collect();
            accounts(&client, "WHERE uid = ANY ($1)", &[&uids]).await?
        }
        "code" => accounts(&client, "WHERE code = ANY ($1)", &[&lines("CODES")]).await?,
        _ => {
            let (tenants, numbers): (Vec<i32>, Vec<i32>) = lines("PAIRS").iter()
                .map(|pair| pair.split_once(' ').unwrap())
                .map(|(t, n)| (t.parse::<i32>().unwrap(), n.parse::<i32>().unwrap())).unzip();
            accounts(&client, "JOIN unnest($1::int[], $2::int[]) AS pairs (tenant_id, number)
                USING (tenant_id, number)", &[&tenants, &numbers]).await?
        }
    };
    rows.iter().for_each(print);
    Ok(())
}
