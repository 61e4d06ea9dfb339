//! Two servers on one home write its configuration concurrently.

use std::path::Path;

use crate::common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// Writes of each server; `AGENTD_TEST_CONFIG_WRITES` overrides it.
const WRITES: i64 = 150;
/// Keys that each server writes in turn.
const KEYS: i64 = 50;
/// Increments of a number by each server.
const INCREMENTS: i64 = 50;

fn write(server: &mut Running, id: i64, key: &str, value: i64, expected: Option<&str>) -> Value {
    let params = json!({
        "keyPath": key, "value": value.to_string(), "mergeStrategy": "replace", "expectedVersion": expected,
    });
    server.call(id, "config/value/write", params)
}

fn document(home: &Path) -> (Value, String) {
    let text = std::fs::read_to_string(home.join("config.toml")).unwrap();
    let parsed = config::Layer::parse(
        config::LayerName::User { file: home.join("config.toml") },
        text.as_str(),
    );
    let version = config::version(text.as_bytes());
    (parsed.unwrap_or_else(|error| panic!("{}", error.diagnostic())).to_json(), version)
}

fn writer(env: &TestEnvironment, home: &Path, name: &str, writes: i64) {
    let mut server = Running::server(env, &[]);
    let mut id = 0;
    for n in 0..writes {
        id += 1;
        let key = format!("shell_environment_policy.set.{name}{}", n % KEYS);
        let answer = write(&mut server, id, &key, n, None);
        assert_eq!(answer["result"]["status"], "ok", "{answer}");
        let (now, _) = document(home);
        let found = &now["shell_environment_policy"]["set"][format!("{name}{}", n % KEYS)];
        assert_eq!(*found, n.to_string(), "lost");
    }
    let mut made = 0;
    while made < INCREMENTS {
        id += 1;
        let (now, version) = document(home);
        let count: i64 = match &now["shell_environment_policy"]["set"]["count"] {
            Value::String(text) => text.parse().unwrap(),
            _ => 0,
        };
        let key = "shell_environment_policy.set.count";
        let answer = write(&mut server, id, key, count + 1, Some(&version));
        match answer["error"]["data"]["config_write_error_code"].as_str() {
            Some("configVersionConflict") => {}
            None => made += 1,
            other => panic!("{other:?}: {answer}"),
        }
    }
}

#[test]
fn concurrent_writes_lose_no_update_and_keep_the_file_valid() {
    let env = TestEnvironment::new();
    let home = env.home();
    std::fs::write(home.join("config.toml"), "# kept\nmodel_provider = \"offline\"\n").unwrap();
    let writes =
        std::env::var("AGENTD_TEST_CONFIG_WRITES").map_or(WRITES, |number| number.parse().unwrap());
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            scope.spawn(|| writer(&env, &home, name, writes));
        }
    });
    let (now, _) = document(&home);
    let set = &now["shell_environment_policy"]["set"];
    assert_eq!(set["count"], (2 * INCREMENTS).to_string());
    for (name, key) in ["a", "b"].into_iter().flat_map(|name| (0..KEYS).map(move |k| (name, k))) {
        let last = (0..writes).rev().find(|n| n % KEYS == key).unwrap();
        assert_eq!(set[format!("{name}{key}")], last.to_string());
    }
    let text = std::fs::read_to_string(home.join("config.toml")).unwrap();
    assert!(text.starts_with("# kept\n"));
}
