//! Installed plugins whose marketplace is gone, and ones whose files are changed while the server runs.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::Peer;

use super::{Bench, ID, add, install, listed, skills, write};
use crate::says;

fn record(bench: &Bench) -> (PathBuf, PathBuf) {
    let record = bench.env.home().join(format!("plugins/installed/{ID}.json"));
    let text: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    let root = PathBuf::from(text["root"].as_str().unwrap());
    (record, root)
}

async fn read_by_id(peer: &mut Peer) -> Value {
    peer.call("plugin/read", json!({ "pluginName": ID })).await["plugin"].take()
}

#[tokio::test]
async fn an_installed_plugin_is_shown_without_its_marketplace() {
    let bench = Bench::new(json!([says("1")])).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let error = peer.refused("plugin/read", json!({ "pluginName": ID })).await;
    assert!(error.message.contains("`tidy@shop` is not installed"), "{error:?}");
    let error = peer.refused("plugin/read", json!({ "pluginName": "tidy" })).await;
    assert!(error.message.contains("`marketplacePath` is missing"), "{error:?}");
    add(&mut peer, &bench.shop).await;
    let path = listed(&mut peer).await["path"].clone();
    let params = json!({ "pluginName": "tidy", "marketplacePath": path });
    let before = peer.call("plugin/read", params).await["plugin"].take();
    install(&mut peer).await;
    peer.call("marketplace/remove", json!({ "marketplaceName": "shop" })).await;

    let shown = read_by_id(&mut peer).await;
    assert_eq!(
        (&shown["marketplaceName"], &shown["marketplacePath"]),
        (&json!("shop"), &json!(null))
    );
    assert_eq!(shown["summary"]["installed"], true);
    for part in ["actions", "hooks", "apps", "mcpServers", "description"] {
        assert_eq!(shown[part], before[part], "{part}");
    }
    let (_, root) = record(&bench);
    let skill = root.join("skills/sweep/SKILL.md");
    assert_eq!(shown["skills"][0]["path"], json!(skill));
    fs::write(root.join("note.sh"), "echo other\n").unwrap();
    let actions = read_by_id(&mut peer).await["actions"].to_string();
    assert!(actions.contains("was changed after the installation: note.sh"), "{actions}");

    fs::write(root.join(".codex-plugin/plugin.json"), "{").unwrap();
    let error = peer.refused("plugin/read", json!({ "pluginName": ID })).await;
    assert!(error.message.contains("plugin.json"), "{error:?}");
}

#[tokio::test]
async fn changes_in_place_are_noticed_while_the_server_runs() {
    let bench = Bench::new(json!([says("1")])).await;
    bench.configure("[features]\ncodex_hooks = true\n");
    let server = bench.env.start();
    let mut peer = server.connect().await;
    add(&mut peer, &bench.shop).await;
    install(&mut peer).await;
    let (record, root) = record(&bench);
    let listed = async |peer: &mut Peer| peer.call("hooks/list", json!({})).await["data"][0].take();
    assert_eq!(listed(&mut peer).await["warnings"], json!([]));
    for (file, part) in [
        (root.join(".codex-plugin/plugin.json"), "plugin.json"),
        (root.join("hooks/hooks.json"), "hooks.json"),
        (root.join(".mcp.json"), ".mcp.json"),
        (root.join(".app.json"), ".app.json"),
        (record.clone(), "the record is damaged"),
    ] {
        let whole = fs::read_to_string(&file).unwrap();
        // In place, and of the same size.
        fs::write(&file, "!".repeat(whole.len())).unwrap();
        let entry = listed(&mut peer).await;
        let problems = format!("{}{}", entry["warnings"], entry["errors"]);
        assert!(problems.contains(part), "{part}: {entry}");
        fs::write(&file, &whole).unwrap();
        let entry = listed(&mut peer).await;
        assert_eq!((&entry["warnings"], &entry["errors"]), (&json!([]), &json!([])), "{part}");
        assert_eq!(skills(&mut peer).await, ["tidy:sweep"], "{part}");
    }
    // A file that was not there.
    fs::remove_file(root.join("hooks/hooks.json")).unwrap();
    assert_eq!(listed(&mut peer).await["hooks"], json!([]));
    write(&root.join("hooks/hooks.json"), "{");
    assert!(listed(&mut peer).await["errors"].to_string().contains("hooks.json"));
}
