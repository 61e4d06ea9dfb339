//! The servers of other tests: they respond, restart on the same port, and leave nothing behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::servers::{Postgres, Redis};
use tokio_postgres::NoTls;

/// Sends one command in Redis' protocol, and reads `length` bytes of the reply.
fn ask(redis: &Redis, command: &str, length: usize) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn redis_restarts_with_its_data() {
    let mut redis = Redis::start();
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    assert_eq!(ask(&redis, "PING", 7), "+PONG\r\n");
    assert_eq!(ask(&redis, "INCRBY a 41", 5), ":41\r\n");
    redis.kill();
    assert!(TcpStream::connect(("127.0.0.1", redis.port())).is_err());
    redis.restart();
    assert_eq!(ask(&redis, "INCR a", 5), ":42\r\n");
}

#[test]
fn a_redis_without_persistence_loses_its_data() {
    let mut redis = Redis::start_forgetful();
    assert_eq!(ask(&redis, "INCR a", 4), ":1\r\n");
    redis.restart();
    assert_eq!(ask(&redis, "INCR a", 4), ":1\r\n");
}

#[test]
fn concurrent_servers_have_different_ports() {
    let (one, other) = (Redis::start(), Redis::start());
    assert_ne!(one.port(), other.port());
    assert_eq!(ask(&one, "INCR a", 4), ":1\r\n");
    assert_eq!(ask(&other, "INCR a", 4), ":1\r\n");
}

async fn select(postgres: &Postgres, query: &str) -> Option<String> {
    let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let messages = client.simple_query(query).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

#[tokio::test]
async fn postgres_restarts_with_its_data() {
    let mut postgres = Postgres::start();
    assert_eq!(select(&postgres, "select 1").await.as_deref(), Some("1"));
    select(&postgres, "create table a as select 42 as b").await;
    postgres.kill();
    assert!(tokio_postgres::connect(&postgres.url(), NoTls).await.is_err());
    postgres.restart();
    assert_eq!(select(&postgres, "select b from a").await.as_deref(), Some("42"));
}

/// Set for the child of the next test: where it reports what it started.
const CHILD: &str = "SERVERS_TEST_CHILD";

/// Not a test of its own: the child process of the next one.
#[test]
fn child_that_is_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let redis = Redis::start();
    println!("folder {}", redis.folder().display());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_killed_test_leaves_no_servers() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "servers::child_that_is_killed", "--nocapture"])
        .env(CHILD, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let folder = lines.find_map(|line| Some(line.split_once("folder ")?.1.to_owned())).unwrap();
    assert!(Path::new(&folder).is_dir());
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while Path::new(&folder).exists() {
        assert!(Instant::now() < deadline, "{folder} stays");
        std::thread::sleep(Duration::from_millis(5)); // tidy: sleep a foreign process ends it
    }
}
