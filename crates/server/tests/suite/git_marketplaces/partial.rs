//! Repositories of which only a part is fetched, can be used, or is still there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use super::{commit, git, write};
use crate::says;

/// The repository of the marketplace `shop`, with a second plugin, `dusty`.
fn repository(env: &TestEnvironment) -> PathBuf {
    let root = env.root().join("shop");
    commit(&root, "1.0.0");
    let plugins = json!([
        { "name": "tidy", "source": "./tidy" },
        { "name": "dusty", "source": "./more/dusty" },
    ]);
    let file = json!({ "name": "shop", "owner": { "name": "A" }, "plugins": plugins });
    write(&root.join(".claude-plugin/marketplace.json"), &file.to_string());
    let manifest = json!({ "name": "dusty" }).to_string();
    write(&root.join("more/dusty/.claude-plugin/plugin.json"), &manifest);
    save(&root);
    root
}

fn save(root: &Path) {
    git(root, &["add", "-A"]);
    git(root, &["commit", "-qm", "more"]);
}

async fn list(peer: &mut Peer) -> Value {
    peer.call("plugin/list", json!({})).await
}

fn params(listed: &Value, name: &str) -> Value {
    json!({ "pluginName": name, "marketplacePath": listed["marketplaces"][0]["path"] })
}

#[tokio::test]
async fn sparse_paths_need_not_name_the_list() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let source = format!("file://{}", repository(&env).display());
    let server = env.start();
    let mut peer = server.connect().await;
    let add = json!({ "source": source, "sparsePaths": ["tidy"] });
    peer.call("marketplace/add", add).await;
    let listed = list(&mut peer).await;
    peer.call("plugin/install", params(&listed, "tidy")).await;
    let error = peer.refused("plugin/install", params(&listed, "dusty")).await;
    assert!(error.message.contains("`more/dusty` was not fetched"), "{error:?}");
    assert!(error.message.contains("--sparse more/dusty"), "{error:?}");

    let empty = env.root().join("empty");
    fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    write(&empty.join("tidy/file"), "");
    save(&empty);
    let source = format!("file://{}", empty.display());
    let add = json!({ "source": source, "sparsePaths": ["tidy"] });
    let error = peer.refused("marketplace/add", add).await;
    assert!(error.message.starts_with(&format!("{source} is not a marketplace")), "{error:?}");
    assert!(!error.message.contains(".staging"), "{error:?}");
}

#[tokio::test]
async fn a_bad_link_refuses_only_its_plugin() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let root = repository(&env);
    let secret = env.root().join("secret");
    write(&secret, "a secret");
    for (link, target) in [
        ("absolute", secret.to_str().unwrap()),
        ("out", "../../../secret"),
        ("nothing", "nowhere"),
        ("itself", "itself"),
    ] {
        symlink(target, root.join("more/dusty").join(link)).unwrap();
    }
    save(&root);
    let server = env.start();
    let mut peer = server.connect().await;
    let source = format!("file://{}", root.display());
    let added = peer.call("marketplace/add", json!({ "source": source })).await;
    let fetched = PathBuf::from(added["installedRoot"].as_str().unwrap());
    assert!(fetched.join("more/dusty/absolute").symlink_metadata().is_err());

    let listed = list(&mut peer).await;
    let errors = listed["marketplaceLoadErrors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{listed}");
    let message = errors[0]["message"].as_str().unwrap();
    let expected = format!(
        "the plugin `dusty` cannot be installed: the symbolic link to `{}` is absolute",
        secret.display()
    );
    assert_eq!(message, expected);
    let plugins = &listed["marketplaces"][0]["plugins"];
    assert_eq!(plugins[0]["installPolicy"], "AVAILABLE");
    assert_eq!(plugins[1]["installPolicy"], "NOT_AVAILABLE");
    peer.call("plugin/install", params(&listed, "tidy")).await;
    for method in ["plugin/install", "plugin/read"] {
        let error = peer.refused(method, params(&listed, "dusty")).await;
        assert!(error.message.contains("is absolute"), "{error:?}");
    }

    // Mended, it can be installed.
    for link in ["absolute", "out", "nothing", "itself"] {
        fs::remove_file(root.join("more/dusty").join(link)).unwrap();
    }
    save(&root);
    peer.call("marketplace/upgrade", json!({})).await;
    let listed = list(&mut peer).await;
    assert_eq!(listed["marketplaceLoadErrors"], json!([]));
    peer.call("plugin/install", params(&listed, "dusty")).await;
}

#[tokio::test]
async fn an_upgrade_brings_back_what_was_lost() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let root = repository(&env);
    let server = env.start();
    let mut peer = server.connect().await;
    let source = format!("file://{}", root.display());
    let added = peer.call("marketplace/add", json!({ "source": source })).await;
    let fetched = PathBuf::from(added["installedRoot"].as_str().unwrap());
    let list_of = fetched.join(".claude-plugin/marketplace.json");
    let manifest = fetched.join("tidy/.claude-plugin/plugin.json");
    let whole = fs::read_to_string(&manifest).unwrap();
    let harms: [fn(&Path, &Path); 4] = [
        |fetched, _| fs::remove_dir_all(fetched).unwrap(),
        |_, manifest| fs::write(manifest, "{}").unwrap(),
        |_, manifest| fs::remove_file(manifest).unwrap(),
        |fetched, _| fs::write(fetched.join("tidy/added"), "").unwrap(),
    ];
    for harm in harms {
        harm(&fetched, &manifest);
        let upgraded = peer.call("marketplace/upgrade", json!({})).await;
        assert_eq!(upgraded["errors"], json!([]));
        assert_eq!(upgraded["upgradedRoots"], json!([fetched]), "{upgraded}");
        assert!(list_of.is_file() && !fetched.join("tidy/added").exists());
        assert_eq!(fs::read_to_string(&manifest).unwrap(), whole);
        let again = peer.call("marketplace/upgrade", json!({})).await;
        assert_eq!(again["upgradedRoots"], json!([]));
    }
}
