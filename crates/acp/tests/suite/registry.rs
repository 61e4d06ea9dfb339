//! The files for the registry of agents keep its rules.

use serde_json::Value;

#[test]
fn the_entry_and_the_icon_keep_the_rules() {
    let entry: Value = serde_json::from_str(include_str!("../../registry/agent.json")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!((&entry["id"], &entry["version"]), (&Value::from("agentd"), &Value::from(version)));
    let npx = &entry["distribution"]["npx"];
    // `cargo xtask tidy` compares the name of the package with the list of ours.
    assert!(npx["package"].as_str().is_some_and(|it| it.ends_with(&format!("@{version}"))));
    assert_eq!(npx["args"], serde_json::json!(["acp"]));
    assert!(entry["name"].is_string() && entry["description"].is_string());

    let icon = include_str!("../../registry/icon.svg");
    assert!(icon.contains("width=\"16\" height=\"16\" viewBox=\"0 0 16 16\""));
    for name in ["fill=\"", "stroke=\""] {
        for value in icon.split(name).skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(["none", "currentColor"].contains(&value), "{name}{value}");
        }
    }
}
