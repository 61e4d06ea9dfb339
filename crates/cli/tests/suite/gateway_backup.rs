//! Backups of a gateway's store with the tools of PostgreSQL and SQLite, restored in another place: a gateway that
//! starts there, with an empty store of the limits, knows the same keys, limits and usage.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::cluster::{Cluster, ledger};
use crate::common::gateway::{ASKED, Gateway, TOKEN, configured, key};
use crate::common::servers::Postgres;
use crate::common::{TestEnvironment, stderr};

/// Requests before the backup.
const REQUESTS: usize = 7;

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
}

/// Asks the administration of the default organization, or an API with a key.
fn read(gateway: &Gateway, bearer: &str, path: &str) -> Value {
    let (head, body) = gateway.ask(&format!("GET {path}"), bearer, "");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head} {body}");
    serde_json::from_str(&body).unwrap()
}

fn change(gateway: &Gateway, path: &str, body: &Value) {
    let (head, body) = gateway.ask(&format!("POST {path}"), TOKEN, &body.to_string());
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head} {body}");
}

/// What a restored gateway must know. Usage is the ledger.
fn known(gateway: &Gateway, key: &str) -> Vec<Value> {
    let projects = read(gateway, TOKEN, "/v1/organization/projects");
    let id = projects["data"][0]["id"].as_str().unwrap();
    let mut known: Vec<Value> = [
        "/v1/organization/spend_limit",
        "/v1/organization/audit_logs?event_types[]=spend_limit.updated",
        &format!("/v1/organization/projects/{id}/rate_limits"),
        &format!("/v1/organization/projects/{id}/api_keys"),
    ]
    .map(|path| read(gateway, TOKEN, path))
    .into();
    known.push(read(gateway, key, "/v1/models"));
    known.push(projects);
    known.extend(ledger(gateway));
    known
}

#[test]
fn a_dump_of_postgresql_is_restored_into_a_new_database() {
    let cluster = Cluster::new();
    let node = cluster.node("before");
    let gateway = node.start();
    let key = node.create_key("Default project");
    let limit = json!({"currency": "USD", "interval": "month", "threshold_amount": 100});
    change(&gateway, "/v1/organization/spend_limit", &limit);
    let chat = json!({"model": "big", "max_tokens": 100,
        "messages": [{"role": "user", "content": "question"}]});
    let ask = |gateway: &Gateway| gateway.ask("POST /v1/chat/completions", &key, &chat.to_string());
    for _ in 0..REQUESTS {
        let (head, body) = ask(&gateway);
        assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    }
    let before = known(&gateway, &key);
    assert_eq!(before.len(), REQUESTS + 6);

    // While it serves.
    let server = format!("postgres://postgres@127.0.0.1:{}", cluster.postgres.port());
    let dump = cluster.env.tmp().join("gateway.dump");
    let of = |name: &str| Command::new(Postgres::program(name));
    let from = format!("{server}/postgres");
    run(of("pg_dump").args(["--format=custom", "--file"]).arg(&dump).arg(&from));
    gateway.end();
    run(of("createdb").args(["--maintenance-db", &from, "restored"]));
    let to = format!("{server}/restored");
    let options = ["--no-owner", "--exit-on-error", "--single-transaction", "--dbname", &to];
    run(of("pg_restore").args(options).arg(&dump));

    cluster.use_database("restored");
    let redis = cluster.another_redis();
    cluster.use_redis(&redis);
    let gateway = cluster.node("after").start();
    assert_eq!(known(&gateway, &key), before);
    let (head, body) = ask(&gateway);
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    // What was used of a day's limit is in the ledger, not only in the store that was lost.
    let left = head.lines().find_map(|line| line.strip_prefix("x-ratelimit-remaining-requests: "));
    let left: usize = left.unwrap().parse().unwrap();
    assert!(left < 100_000 - REQUESTS, "{left}");
    assert_eq!(ledger(&gateway).len(), REQUESTS + 1);
    gateway.end();
}

#[test]
fn a_copy_of_sqlite_is_restored_in_another_folder() {
    let env = TestEnvironment::new();
    let config = configured(&env, "[tiers.free.limits.offline]\nrpd = 1000\n");
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let key = key(&gateway);
    let limit = json!({"currency": "USD", "interval": "month", "threshold_amount": 100});
    change(&gateway, "/v1/organization/spend_limit", &limit);
    for _ in 0..REQUESTS {
        gateway.ask("POST /v1/responses", &key, ASKED);
    }
    let before = known(&gateway, &key);
    assert_eq!(before.len(), REQUESTS + 6);
    for (number, copy) in ["VACUUM INTO 'COPY'", ".backup COPY"].into_iter().enumerate() {
        let place = env.work().join(format!("restored-{number}"));
        std::fs::create_dir(&place).unwrap();
        let store = place.join("gateway.db");
        let copy = copy.replace("COPY", store.to_str().unwrap());
        // While it serves.
        run(Command::new("sqlite3").arg(env.home().join("gateway.db")).arg(copy));
        let restored = in_folder(&env, &config, &place);
        let (second, _) = Gateway::start(&env, &["--config", &restored]);
        assert_eq!(known(&second, &key), before);
        let left = second.header(&key, "x-ratelimit-remaining-requests");
        println!("{left} of 1000 requests are left");
        second.end();
    }
    gateway.end();
}

/// The same configuration in a folder, to which its paths are relative.
fn in_folder(env: &TestEnvironment, config: &str, place: &Path) -> String {
    let restored = place.join("gateway.toml");
    std::fs::copy(config, &restored).unwrap();
    std::fs::copy(env.home().join("token"), place.join("token")).unwrap();
    restored.to_str().unwrap().to_owned()
}
