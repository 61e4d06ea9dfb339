//! Stores that cannot be used: each cause is named, with what to do, at the start and while a node runs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ratelimit::{Error, ErrorKind, MINUTE, Redis, RedisOptions};

use crate::shared::{admitted, node_at, rate, spend, until};
use crate::store::Store;

async fn connect(url: String) -> Result<Redis, Error> {
    let lease = Duration::from_secs(1);
    let options = RedisOptions { url, lease, node: 1, first_start: true, durable: false };
    Redis::connect(options).await
}

/// What a new node says about the store, now or later.
async fn fault(url: String) -> Option<Error> {
    match connect(url).await {
        Ok(redis) => redis.problem(),
        Err(error) => Some(error),
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// What the documentation says that a user needs.
const PERMITTED: &str = "user limits on >secret resetkeys ~limits:* -@all +fcall +function|list +function|load +info \
                         +dbsize +time +select +cluster|info +hget +hset +get +set +exists +pttl +pexpire";

const USER: &str = "?user=limits&pass=secret";
const NOT_PERMITTED: Option<&str> = Some("does not permit its user what the limits need");

#[tokio::test]
async fn a_misconfigured_store_is_refused_with_its_cause() {
    let with_user = |rules: &str| -> Vec<String> {
        let (word, rest) = rules.split_once(' ').unwrap();
        std::iter::once(format!("--{word}"))
            .chain(rest.split_whitespace().map(str::to_owned))
            .collect()
    };
    let options = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<String>>();
    for (options, query, expected) in [
        (options(&[]), "", None),
        (options(&["--requirepass", "secret"]), "?pass=secret", None),
        (options(&["--requirepass", "secret"]), "", Some("wants a password")),
        (
            options(&["--requirepass", "secret"]),
            "?pass=other",
            Some("refuses the user or the password"),
        ),
        (
            options(&["--requirepass", "secret"]),
            "?user=x&pass=secret",
            Some("refuses the user or the password"),
        ),
        (options(&[]), "?pass=secret", Some("refuses the user or the password")),
        (with_user(PERMITTED), USER, None),
        (with_user("user limits on >secret ~limits:* -@all +info"), USER, NOT_PERMITTED),
        // Also where only a decision would find it.
        (with_user(&PERMITTED.replace("+fcall ", "")), USER, NOT_PERMITTED),
        (with_user(&PERMITTED.replace("~limits", "~other")), USER, NOT_PERMITTED),
        (with_user(&PERMITTED.replace("+hget ", "")), USER, NOT_PERMITTED),
        (with_user(&PERMITTED.replace("+pttl ", "")), USER, NOT_PERMITTED),
        (options(&[]), "?db=99", Some("does not have the database")),
        (options(&["--maxmemory-policy", "allkeys-lru"]), "", Some("eviction policy allkeys-lru")),
        (options(&["--replicaof", "127.0.0.1", "1"]), "", Some("is a replica")),
    ] {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let store = Store::with(&options);
        let found = fault(format!("{}{query}", store.url())).await;
        let what = format!("{options:?} {query}: {found:?}");
        let Some(expected) = expected else {
            assert!(found.is_none(), "{what}");
            continue;
        };
        let found = found.expect(&what);
        assert_eq!(found.kind(), ErrorKind::Misconfigured, "{what}");
        let text = found.to_string();
        assert!(
            text.contains(expected) && text.contains("store.sock") && text.contains("; "),
            "{text}"
        );
        assert!(!text.contains("secret") && !found.summary().contains("store.sock"), "{text}");
    }
}

/// All that a node does, with no more permissions than documented.
#[tokio::test]
async fn the_documented_permissions_suffice() {
    let (word, rest) = PERMITTED.split_once(' ').unwrap();
    let word = format!("--{word}");
    let options: Vec<&str> = std::iter::once(&*word).chain(rest.split_whitespace()).collect();
    let store = Store::with(&options);
    let redis = node_at(format!("{}?user=limits&pass=secret", store.url()), 1).await;
    let draws = [rate("tpm", 50, 100, MINUTE), spend(800, 1000, 1)];
    redis.seed("org", "usd", draws[1].bound, 10).await.unwrap();
    assert!(admitted(&redis.reserve("org", 1, &draws).await.unwrap()));
    assert!(redis.settle("org", 1, &[Some(50), Some(90)]));
    until(&redis, &draws, &[50, 100]).await;
    redis.close().await;
    assert!(redis.problem().is_none());
}

#[tokio::test]
async fn a_cluster_of_one_shard_serves() {
    let port = free_port().to_string();
    let store = Store::with(&[
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        "0",
    ]);
    let down = fault(store.url()).await;
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).exec(&mut connection).unwrap();
    let redis = connect(store.url()).await.unwrap();
    let draw = [rate("tpm", 50, 100, MINUTE)];
    let deadline = Instant::now() + Duration::from_secs(10);
    while redis.reserve("org", 1, &draw).await.is_err() {
        assert!(Instant::now() < deadline, "{down:?} {:?}", redis.problem());
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process changes its state
    }
    assert!(redis.problem().is_none());
}

/// Servers that are none, by their answer to anything; `None` closes the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_kind_is_recognized() {
    use ErrorKind::{Misconfigured, Unreachable};
    for (answer, kind, expected) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..],
            Misconfigured,
            "answers in HTTP",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Misconfigured, "answers otherwise"),
        (b"\x15\x03\x01\x00\x02\x02\x46", Misconfigured, "expects TLS"),
        (b"", Unreachable, "closes connections"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", Unreachable, "loading its data"),
        (b"-DENIED Redis is running in protected mode\r\n", Misconfigured, "protected mode"),
        (b"-ERR unknown command 'INFO'\r\n", Misconfigured, "lacks a command"),
        (b"-ERR max number of clients reached\r\n", Unreachable, "max number of clients"),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("redis://:secret-word@{}", listener.local_addr().unwrap());
        let url =
            if answer.first() == Some(&b'-') { url.replace(":secret-word@", "") } else { url };
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut asked = [0; 4096];
                    while let Ok(1..) = stream.read(&mut asked) {
                        // One answer to each command of a pipeline, and more.
                        let pipelined = if answer.first() == Some(&b'-') { 2 } else { 1 };
                        if answer.is_empty() || stream.write_all(&answer.repeat(pipelined)).is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        let found = fault(url).await.expect(expected);
        assert_eq!(found.kind(), kind, "{expected}: {found}");
        assert!(found.to_string().contains(expected), "{expected}: {found}");
        assert!(!found.to_string().contains("secret-word"), "{found}");
    }
    let refused = fault(format!("redis://127.0.0.1:{}", free_port())).await.unwrap();
    assert_eq!(refused.kind(), Unreachable, "{refused}");
    let invalid = fault("redis://".to_owned()).await.unwrap();
    assert_eq!(invalid.kind(), Misconfigured, "{invalid}");
}

/// A store with TLS, and the file of the authority of its certificate.
fn store_with_tls() -> (Store, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap().keep();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (pem, key_file) = (folder.join("store.pem"), folder.join("store.key"));
    std::fs::write(&pem, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let (port, path) = (free_port().to_string(), |path: &PathBuf| path.display().to_string());
    let (pem_path, key_path) = (path(&pem), path(&key_file));
    let store = Store::with(&[
        "--bind",
        "127.0.0.1",
        "--tls-port",
        &port,
        "--tls-auth-clients",
        "no",
        "--tls-cert-file",
        &pem_path,
        "--tls-key-file",
        &key_path,
        "--tls-ca-cert-file",
        &pem_path,
    ]);
    (store, port, pem)
}

const TLS_STORE: &str = "LIMITS_TEST_TLS_STORE";

/// Not a test of its own: the node of the next test, which trusts the store's certificate.
#[tokio::test]
#[ignore = "the child of `tls_is_used_where_the_address_says_so`"]
async fn node_with_tls() {
    let Ok(url) = std::env::var(TLS_STORE) else { return };
    let redis = connect(url).await.unwrap();
    assert!(admitted(&redis.reserve("org", 1, &[rate("tpm", 50, 100, MINUTE)]).await.unwrap()));
}

#[tokio::test]
async fn tls_is_used_where_the_address_says_so() {
    let (_store, port, pem) = store_with_tls();
    let plain = fault(format!("redis://localhost:{port}")).await.unwrap();
    assert!(plain.to_string().contains("expects TLS"), "{plain}");
    let untrusted = fault(format!("rediss://localhost:{port}")).await.unwrap();
    assert_eq!(untrusted.kind(), ErrorKind::Misconfigured, "{untrusted}");
    assert!(untrusted.to_string().contains("certificate that is not trusted"), "{untrusted}");
    let without_port = free_port().to_string();
    let without = Store::with(&["--bind", "127.0.0.1", "--port", &without_port]);
    let mismatch = fault(format!("rediss://localhost:{without_port}")).await.unwrap();
    assert!(mismatch.to_string().contains("does not speak TLS"), "{mismatch}");
    drop(without);
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["faults::node_with_tls", "--exact", "--ignored", "--nocapture"])
        .env(TLS_STORE, format!("rediss://localhost:{port}"))
        .env("SSL_CERT_FILE", &pem)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    std::fs::remove_dir_all(pem.parent().unwrap()).unwrap();
}

/// Asks until the problem of the store is this, or none.
async fn has_problem(redis: &Redis, expected: Option<&str>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    for request in 1_000.. {
        let problem = redis.problem().map(|problem| problem.to_string());
        let is_expected = match (&problem, expected) {
            (Some(problem), Some(expected)) => problem.contains(expected),
            (problem, expected) => problem.is_none() && expected.is_none(),
        };
        if is_expected {
            return;
        }
        assert!(Instant::now() < deadline, "{problem:?} is not {expected:?}");
        // A call finds what is wrong with calls, and with the connection.
        let _ = redis.reserve("org", request, &[rate("tpm", 0, 100, MINUTE)]).await;
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep until another process has changed
    }
}

#[tokio::test]
async fn permissions_that_are_taken_away_make_it_unavailable() {
    let (word, rest) = PERMITTED.split_once(' ').unwrap();
    let word = format!("--{word}");
    let options: Vec<&str> = std::iter::once(&*word).chain(rest.split_whitespace()).collect();
    let store = Store::with(&options);
    let redis = node_at(format!("{}{USER}", store.url()), 1).await;
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    for (without, with) in [("-fcall", "+fcall"), ("-hset", "+hset")] {
        let set = |connection: &mut redis::Connection, rule: &str| {
            redis::cmd("ACL").arg("SETUSER").arg("limits").arg(rule).exec(connection).unwrap();
        };
        set(&mut connection, without);
        has_problem(&redis, NOT_PERMITTED).await;
        assert!(!redis.is_available());
        set(&mut connection, with);
        has_problem(&redis, None).await;
        assert!(redis.is_available());
    }
}

#[tokio::test]
async fn changes_while_a_node_runs_are_reported() {
    let store = Store::start();
    let redis = node_at(store.url(), 1).await;
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    let set = |connection: &mut redis::Connection, name: &str, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(connection).unwrap();
    };
    // The node connects again, and so inspects the store at once.
    let cut = |connection: &mut redis::Connection| {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .arg("SKIPME")
            .arg("yes")
            .exec(connection)
            .unwrap();
    };
    has_problem(&redis, None).await;
    // Full: it still decides nothing, and is asked again.
    set(&mut connection, "maxmemory", "1");
    has_problem(&redis, Some("is out of memory")).await;
    set(&mut connection, "maxmemory", "0");
    has_problem(&redis, None).await;
    // Decisions go on with a policy that may lose them.
    set(&mut connection, "maxmemory-policy", "allkeys-lru");
    cut(&mut connection);
    has_problem(&redis, Some("eviction policy allkeys-lru")).await;
    while redis.reserve("org", 1, &[rate("tpm", 1, 100, MINUTE)]).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep until it is connected again
    }
    assert!(redis.is_available() && redis.problem().is_some());
    set(&mut connection, "maxmemory-policy", "noeviction");
    cut(&mut connection);
    has_problem(&redis, None).await;
    // With another password it does not come back until it has the old one again.
    set(&mut connection, "requirepass", "other");
    cut(&mut connection);
    has_problem(&redis, Some("wants a password")).await;
    assert!(!redis.is_available());
    set(&mut connection, "requirepass", "");
    has_problem(&redis, None).await;
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).exec(&mut connection).unwrap();
    has_problem(&redis, Some("is a replica")).await;
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut connection).unwrap();
    has_problem(&redis, None).await;
}
