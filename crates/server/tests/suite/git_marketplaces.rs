//! Marketplaces in git repositories, over `file://`: added at a reference, upgraded, and installed from.

mod partial;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.com"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Commits a version of the plugin `tidy` to the marketplace `shop`, with a branch of its name.
fn commit(root: &Path, version: &str) {
    if !root.exists() {
        fs::create_dir_all(root).unwrap();
        git(root, &["init", "-q", "-b", "main"]);
    }
    let plugins = json!([{ "name": "tidy", "source": "./tidy", "description": "Tidies." }]);
    let file = json!({ "name": "shop", "owner": { "name": "A" }, "plugins": plugins });
    write(&root.join(".claude-plugin/marketplace.json"), &file.to_string());
    let manifest = json!({ "name": "tidy", "version": version });
    write(&root.join("tidy/.claude-plugin/plugin.json"), &manifest.to_string());
    let skill = format!("---\nname: sweep\ndescription: Sweeps {version}.\n---\nSweep.\n");
    write(&root.join("tidy/skills/sweep/SKILL.md"), &skill);
    // Nothing of the repository runs.
    let hook = root.join(".git/hooks/post-checkout");
    write(&hook, "#!/bin/sh\ntouch \"$HOME/hook-ran\"\n");
    git(root, &["add", "-A"]);
    git(root, &["commit", "-qm", version]);
    git(root, &["branch", "-f", version]);
}

async fn shop(peer: &mut Peer) -> Value {
    let listed = peer.call("plugin/list", json!({})).await;
    assert_eq!(listed["marketplaceLoadErrors"], json!([]), "{listed}");
    let all = listed["marketplaces"].as_array().unwrap();
    all.iter().find(|one| one["name"] == "shop").cloned().unwrap_or_default()
}

async fn install(peer: &mut Peer) -> Value {
    let path = shop(peer).await["path"].clone();
    peer.call("plugin/install", json!({ "pluginName": "tidy", "marketplacePath": path })).await
}

/// The description of the plugin's skill.
async fn described(peer: &mut Peer) -> String {
    let listed = peer.call("skills/list", json!({ "forceReload": true })).await;
    let skills = listed["data"][0]["skills"].as_array().unwrap().clone();
    let sweep = skills.iter().find(|skill| skill["name"] == "tidy:sweep");
    sweep.map(|skill| skill["description"].as_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_repository_is_added_upgraded_and_installed_from() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let root = env.root().join("shop");
    commit(&root, "1.0.0");
    let source = format!("file://{}", root.display());
    let server = env.start();
    let mut peer = server.connect().await;
    let added = peer.call("marketplace/add", json!({ "source": source })).await;
    assert_eq!(added["marketplaceName"], "shop");
    install(&mut peer).await;
    assert_eq!(described(&mut peer).await, "Sweeps 1.0.0.");

    commit(&root, "2.0.0");
    assert_eq!(described(&mut peer).await, "Sweeps 1.0.0.", "an installed plugin stays");
    let upgraded = peer.call("marketplace/upgrade", json!({ "marketplaceName": "shop" })).await;
    assert_eq!(upgraded["errors"], json!([]), "{upgraded}");
    assert_eq!(upgraded["upgradedRoots"].as_array().unwrap().len(), 1, "{upgraded}");
    install(&mut peer).await;
    assert_eq!(described(&mut peer).await, "Sweeps 2.0.0.");
    let again = peer.call("marketplace/upgrade", json!({ "marketplaceName": "shop" })).await;
    assert_eq!(again["upgradedRoots"], json!([]), "{again}");
    peer.call("marketplace/remove", json!({ "marketplaceName": "shop" })).await;
    assert_eq!(shop(&mut peer).await["path"], Value::Null, "only the installed plugin stays");
}

#[tokio::test]
async fn a_reference_is_pinned_and_a_missing_one_is_an_error() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let root = env.root().join("shop");
    commit(&root, "1.0.0");
    commit(&root, "2.0.0");
    let source = format!("file://{}", root.display());
    let server = env.start();
    let mut peer = server.connect().await;
    let missing = json!({ "source": source, "refName": "no-such-branch" });
    let error = peer.refused("marketplace/add", missing).await;
    assert!(error.message.contains("no-such-branch"), "{error:?}");
    assert_eq!(shop(&mut peer).await, Value::Null);
    let gone = format!("file://{}", env.root().join("gone").display());
    let error = peer.refused("marketplace/add", json!({ "source": gone })).await;
    assert!(error.message.contains("gone"), "{error:?}");
    peer.call("marketplace/add", json!({ "source": source, "refName": "1.0.0" })).await;
    install(&mut peer).await;
    assert_eq!(described(&mut peer).await, "Sweeps 1.0.0.");
}
