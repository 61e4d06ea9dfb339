//! Marketplaces and plugins over the protocol, and what installed plugins bring to threads.

mod kept;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::reviews::git;
use crate::says;

const ID: &str = "tidy@shop";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A marketplace `shop` in a folder, with the plugin `tidy`: a skill, a hook, an MCP server and an app.
/// The hook appends to `log`.
fn shop(root: &Path, log: &Path) -> PathBuf {
    let plugin = root.join("plugins/tidy");
    let entry = json!({ "name": "tidy", "source": { "source": "local", "path": "./plugins/tidy" },
        "policy": { "installation": "AVAILABLE", "authentication": "ON_USE" } });
    let file = json!({ "name": "shop", "interface": { "displayName": "The shop" },
        "plugins": [entry] });
    write(&root.join(".agents/plugins/marketplace.json"), &file.to_string());
    let manifest = json!({ "name": "tidy", "version": "1.0.0", "description": "Keeps things tidy.",
        "keywords": ["order"], "interface": { "displayName": "Tidy", "shortDescription": "Tidy up." } });
    write(&plugin.join(".codex-plugin/plugin.json"), &manifest.to_string());
    let skill = "---\nname: sweep\ndescription: Sweeps.\n---\nSweep every corner.\n";
    write(&plugin.join("skills/sweep/SKILL.md"), skill);
    let line = format!("sh ${{CLAUDE_PLUGIN_ROOT}}/note.sh {}", log.display());
    let hooks =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": line }] }] } });
    write(&plugin.join("hooks/hooks.json"), &hooks.to_string());
    write(&plugin.join("note.sh"), "echo \"ran in $AGENT_PLUGIN_ROOT\" >>\"$1\"\n");
    let server = json!({ "command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/server.sh"] });
    write(&plugin.join(".mcp.json"), &json!({ "mcpServers": { "broom": server } }).to_string());
    write(&plugin.join(".app.json"), &json!({ "apps": { "mail": { "id": "mail" } } }).to_string());
    root.to_owned()
}

struct Bench {
    env: TestEnvironment,
    shop: PathBuf,
    log: PathBuf,
}

impl Bench {
    async fn new(responses: Value) -> Self {
        let env = TestEnvironment::with_responses(responses).await;
        let log = env.workspace().join("hook.log");
        let shop = shop(&env.root().join("shop"), &log);
        Self { env, shop, log }
    }

    /// Adds to the configuration that the environment has.
    fn configure(&self, more: &str) {
        let text = fs::read_to_string(self.env.home().join("config.toml")).unwrap();
        self.env.write_config(&format!("{text}\n{more}\n"));
    }

    fn plugin_file(&self, path: &str) -> PathBuf {
        self.shop.join("plugins/tidy").join(path)
    }
}

async fn add(peer: &mut Peer, shop: &Path) -> Value {
    peer.call("marketplace/add", json!({ "source": shop })).await
}

/// The marketplace `shop`, as it is listed.
async fn listed(peer: &mut Peer) -> Value {
    let listed = peer.call("plugin/list", json!({})).await;
    assert_eq!(listed["marketplaceLoadErrors"], json!([]), "{listed}");
    let all = listed["marketplaces"].as_array().unwrap();
    all.iter().find(|one| one["name"] == "shop").cloned().unwrap_or_default()
}

async fn install(peer: &mut Peer) -> Value {
    let path = listed(peer).await["path"].clone();
    peer.call("plugin/install", json!({ "pluginName": "tidy", "marketplacePath": path })).await
}

async fn skills(peer: &mut Peer) -> Vec<String> {
    let listed = peer.call("skills/list", json!({})).await;
    let skills = listed["data"][0]["skills"].as_array().unwrap().iter();
    skills.map(|skill| skill["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_marketplace_is_added_listed_and_removed() {
    let bench = Bench::new(json!([says("1")])).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    assert_eq!(listed(&mut peer).await, Value::Null);
    let added = add(&mut peer, &bench.shop).await;
    assert_eq!(
        (&added["marketplaceName"], &added["alreadyAdded"]),
        (&json!("shop"), &json!(false))
    );
    assert_eq!(add(&mut peer, &bench.shop).await["alreadyAdded"], true);
    let shop = listed(&mut peer).await;
    assert_eq!(shop["interface"]["displayName"], "The shop");
    let tidy = &shop["plugins"][0];
    assert_eq!((&tidy["id"], &tidy["name"]), (&json!(ID), &json!("tidy")));
    assert_eq!((&tidy["installed"], &tidy["enabled"]), (&json!(false), &json!(false)));
    assert_eq!(tidy["authPolicy"], "ON_USE");
    assert_eq!(tidy["interface"]["displayName"], "Tidy");
    let params = json!({ "marketplaceName": "shop" });
    let removed = peer.call("marketplace/remove", params.clone()).await;
    assert_eq!(removed["marketplaceName"], "shop");
    assert_eq!(listed(&mut peer).await, Value::Null);
    let error = peer.refused("marketplace/remove", params).await;
    assert!(error.message.contains("shop"), "{error:?}");
    let error = peer.refused("marketplace/add", json!({ "source": "/nowhere" })).await;
    assert!(error.message.contains("/nowhere"), "{error:?}");
}

#[tokio::test]
async fn what_a_plugin_would_run_is_shown_before_it_is_installed() {
    let bench = Bench::new(json!([says("1")])).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    add(&mut peer, &bench.shop).await;
    let path = listed(&mut peer).await["path"].clone();
    let params = json!({ "pluginName": "tidy", "marketplacePath": path });
    let plugin = peer.call("plugin/read", params.clone()).await["plugin"].take();
    assert_eq!(plugin["marketplaceName"], "shop");
    assert_eq!(plugin["skills"][0]["name"], "tidy:sweep");
    assert_eq!(plugin["hooks"][0]["eventName"], "stop");
    assert_eq!(plugin["mcpServers"], json!(["broom"]));
    assert_eq!(plugin["apps"][0]["id"], "mail");
    assert_eq!(plugin["changes"], Value::Null);
    let actions = plugin["actions"].to_string();
    for part in ["note.sh", "sandbox", "`broom`", "server.sh"] {
        assert!(actions.contains(part), "{part}: {actions}");
    }
    assert!(!bench.env.home().join("plugins/cache").exists(), "nothing is installed");
    install(&mut peer).await;
    let plugin = peer.call("plugin/read", params.clone()).await["plugin"].take();
    assert_eq!(plugin["changes"], json!([]));
    write(&bench.plugin_file("note.sh"), "echo other\n");
    let plugin = peer.call("plugin/read", params).await["plugin"].take();
    assert!(plugin["changes"].to_string().contains("note.sh"), "{}", plugin["changes"]);
    for (name, path) in [("tidy", json!("/nowhere")), ("other", path)] {
        let params = json!({ "pluginName": name, "marketplacePath": path });
        peer.refused("plugin/read", params.clone()).await;
        peer.refused("plugin/install", params).await;
    }
}

// Effect of `plugins.<id>.enabled`.
#[tokio::test]
async fn threads_get_the_parts_of_an_installed_plugin() {
    let bench = Bench::new(json!([says("1"), says("2"), says("3")])).await;
    bench.configure("[features]\ncodex_hooks = true\n");
    let server = bench.env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    peer.run_turn(&thread, "Go.").await;
    add(&mut peer, &bench.shop).await;
    let done = install(&mut peer).await;
    assert_eq!(done["authPolicy"], "ON_USE");
    peer.expect("skills/changed").await;
    assert_eq!(skills(&mut peer).await, ["tidy:sweep"]);
    assert_eq!(listed(&mut peer).await["plugins"][0]["enabled"], true);

    // A thread that was loaded before has them with its next turn. The hook is not trusted.
    peer.run_turn(&thread, "Use $tidy:sweep.").await;
    let requests = bench.env.model().requests();
    let request = requests.last().unwrap().to_string();
    assert!(request.contains("Sweep every corner."), "{request}");
    assert!(!bench.log.exists());
    let hooks = peer.call("hooks/list", json!({ "cwds": [bench.env.workspace()] })).await;
    let hook = &hooks["data"][0]["hooks"][0];
    assert_eq!((&hook["pluginId"], &hook["source"]), (&json!(ID), &json!("plugin")));
    assert_eq!(hook["trustStatus"], "untrusted");
    assert_eq!(hook["key"], format!("{ID}/hooks/hooks.json:Stop:0:0"));
    let servers = peer.call("mcpServerStatus/list", json!({})).await;
    assert_eq!(servers["data"][0]["name"], "broom");

    // Trust is in exactly this content.
    let key = format!("hooks.state.\"{ID}/hooks/hooks.json:Stop:0:0\".trusted_hash");
    let trust = json!({ "keyPath": key, "value": hook["currentHash"], "mergeStrategy": "replace" });
    peer.call("config/value/write", trust).await;
    peer.run_turn(&thread, "Again.").await;
    let ran = fs::read_to_string(&bench.log).unwrap();
    assert!(ran.contains("plugins/cache/shop/tidy"), "{ran}");

    let off = json!({ "keyPath": format!("plugins.\"{ID}\".enabled"), "value": false,
        "mergeStrategy": "replace" });
    peer.call("config/value/write", off).await;
    assert_eq!(listed(&mut peer).await["plugins"][0]["enabled"], false);
    assert_eq!(skills(&mut peer).await, [] as [&str; 0]);
    let hooks = peer.call("hooks/list", json!({ "cwds": [bench.env.workspace()] })).await;
    assert_eq!(hooks["data"][0]["hooks"], json!([]));
    peer.call("plugin/uninstall", json!({ "pluginId": ID })).await;
    assert_eq!(listed(&mut peer).await["plugins"][0]["installed"], false);
    let error = peer.refused("plugin/uninstall", json!({ "pluginId": ID })).await;
    assert!(error.message.contains("tidy"), "{error:?}");
}

// Effect of requirement `plugins.allowed_marketplaces.<index>.path`.
#[tokio::test]
async fn requirements_decide_where_plugins_come_from() {
    let bench = Bench::new(json!([says("1")])).await;
    let requirements = |text: &str| {
        fs::write(bench.env.home().join("requirements.toml"), text).unwrap();
    };
    let folder = bench.shop.canonicalize().unwrap();
    requirements(&format!("[plugins]\nallowed_marketplaces = [{{ path = {folder:?} }}]\n"));
    {
        let server = bench.env.start();
        let mut peer = server.connect().await;
        add(&mut peer, &bench.shop).await;
        install(&mut peer).await;
        assert_eq!(skills(&mut peer).await, ["tidy:sweep"]);
    }
    requirements("[plugins]\nallowed_marketplaces = []\n");
    let server = bench.env.start();
    let mut peer = server.connect().await;
    assert_eq!(skills(&mut peer).await, [] as [&str; 0]);
    let shop = listed(&mut peer).await;
    assert_eq!(shop["plugins"][0]["availability"], "DISABLED_BY_ADMIN");
    let params = json!({ "pluginName": "tidy", "marketplacePath": shop["path"] });
    for (method, params) in [
        ("plugin/install", params),
        ("marketplace/add", json!({ "source": bench.env.root().join("other") })),
    ] {
        let error = peer.refused(method, params).await;
        assert!(error.message.contains("plugins.allowed_marketplaces"), "{error:?}");
    }
    let upgraded = peer.call("marketplace/upgrade", json!({})).await;
    let error = upgraded["errors"][0]["message"].to_string();
    assert!(error.contains("plugins.allowed_marketplaces"), "{upgraded}");
}

// Effect of requirement `plugins.allowed_marketplaces.<index>.sha`.
#[tokio::test]
async fn a_pinned_commit_is_checked_before_an_upgrade() {
    let bench = Bench::new(json!([says("1")])).await;
    let commit = || {
        git(&bench.shop, &["add", "-A"]);
        git(&bench.shop, &["commit", "-qm", "c"]);
        git(&bench.shop, &["rev-parse", "HEAD"])
    };
    git(&bench.shop, &["init", "-q"]);
    let first = commit();
    let url = format!("file://{}", bench.shop.display());
    let pin = |sha: &str| {
        let text =
            format!("[plugins]\nallowed_marketplaces = [{{ url = {url:?}, sha = {sha:?} }}]\n");
        fs::write(bench.env.home().join("requirements.toml"), text).unwrap();
    };
    pin(&"0".repeat(40));
    {
        let server = bench.env.start();
        let mut peer = server.connect().await;
        let error = peer.refused("marketplace/add", json!({ "source": url })).await;
        assert!(error.message.contains("plugins.allowed_marketplaces"), "{error:?}");
        assert_eq!(listed(&mut peer).await, Value::Null);
    }
    pin(&first);
    let server = bench.env.start();
    let mut peer = server.connect().await;
    peer.call("marketplace/add", json!({ "source": url })).await;
    install(&mut peer).await;
    write(&bench.plugin_file("note.sh"), "echo other\n");
    commit();
    let before = listed(&mut peer).await["path"].clone();
    let upgraded = peer.call("marketplace/upgrade", json!({})).await;
    let error = upgraded["errors"][0]["message"].to_string();
    assert!(error.contains("plugins.allowed_marketplaces"), "{upgraded}");
    assert_eq!(listed(&mut peer).await["path"], before, "nothing was replaced");
    assert_eq!(skills(&mut peer).await, ["tidy:sweep"]);
}

#[tokio::test]
async fn a_trusted_project_has_a_marketplace() {
    let bench = Bench::new(json!([says("1")])).await;
    let workspace = bench.env.workspace().canonicalize().unwrap();
    shop(&workspace, &bench.log);
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let names = |listed: &Value| listed["marketplaces"].as_array().unwrap().len();
    let params = json!({ "cwds": [workspace] });
    assert_eq!(names(&peer.call("plugin/list", params.clone()).await), 0, "it is not trusted");
    bench.configure(&format!("[projects.{workspace:?}]\ntrust_level = \"trusted\"\n"));
    let listed = peer.call("plugin/list", params).await;
    assert_eq!(listed["marketplaces"][0]["name"], "shop", "{listed}");
    let path = &listed["marketplaces"][0]["path"];
    let params = json!({ "pluginName": "tidy", "marketplacePath": path });
    peer.call("plugin/install", params).await;
    assert_eq!(skills(&mut peer).await, ["tidy:sweep"]);
}

/// The errors of `plugin/list`, as one text.
async fn load_errors(peer: &mut Peer) -> String {
    peer.call("plugin/list", json!({})).await["marketplaceLoadErrors"].to_string()
}

#[tokio::test]
async fn a_damaged_record_hides_only_itself() {
    let bench = Bench::new(json!([says("1")])).await;
    bench.configure("[features]\ncodex_hooks = true\n");
    let server = bench.env.start();
    let mut peer = server.connect().await;
    add(&mut peer, &bench.shop).await;
    install(&mut peer).await;
    let records = bench.env.home().join("plugins");
    write(&records.join("installed/zz@other.json"), "{");
    write(&records.join("configured/bad.json"), "{");
    assert_eq!(skills(&mut peer).await, ["tidy:sweep"]);
    let said = load_errors(&mut peer).await;
    for part in ["zz@other.json", "bad.json", "damaged", "install the plugin again"] {
        assert!(said.contains(part), "{said}");
    }
    let params = json!({ "cwds": [bench.env.workspace()] });
    let hooks = peer.call("hooks/list", params).await["data"][0].take();
    assert_eq!(hooks["hooks"][0]["pluginId"], ID);
    assert!(hooks["warnings"].to_string().contains("zz@other"), "{hooks}");
    peer.start_thread(json!({})).await;
    let is_about = |warning: &Value| warning.to_string().contains("zz@other.json");
    peer.expect_where("configWarning", is_about).await;
    // `upgrade` of all goes on, and names the damaged one.
    let upgraded = peer.call("marketplace/upgrade", json!({})).await;
    assert_eq!(upgraded["selectedMarketplaces"], json!(["shop"]));
    assert_eq!(upgraded["errors"][0]["marketplaceName"], "bad");
    // Mended in place, where no record is renamed.
    let good = fs::read_to_string(records.join("configured/shop.json")).unwrap();
    write(&records.join("configured/bad.json"), &good.replace("\"shop\"", "\"bad\""));
    assert!(!load_errors(&mut peer).await.contains("bad.json"));
    peer.call("plugin/uninstall", json!({ "pluginId": "zz@other" })).await;
    assert_eq!(load_errors(&mut peer).await, "[]");
}

#[tokio::test]
async fn plugins_without_a_marketplace_are_listed() {
    let bench = Bench::new(json!([says("1")])).await;
    let folder = bench.shop.canonicalize().unwrap();
    fs::write(
        bench.env.home().join("requirements.toml"),
        format!("[plugins]\nallowed_marketplaces = [{{ path = {folder:?} }}]\n"),
    )
    .unwrap();
    let server = bench.env.start();
    let mut peer = server.connect().await;
    add(&mut peer, &bench.shop).await;
    install(&mut peer).await;
    let removed = peer.call("marketplace/remove", json!({ "marketplaceName": "shop" })).await;
    assert_eq!(removed["installedPluginIds"], json!([ID]));
    // The recorded source is allowed, whether the marketplace is still there or not.
    assert_eq!(skills(&mut peer).await, ["tidy:sweep"]);
    let shop = listed(&mut peer).await;
    assert_eq!((&shop["path"], &shop["plugins"][0]["id"]), (&Value::Null, &json!(ID)));
    let tidy = &shop["plugins"][0];
    assert_eq!((&tidy["installed"], &tidy["enabled"]), (&json!(true), &json!(true)));
    assert_eq!(tidy["installPolicy"], "NOT_AVAILABLE");
    assert_eq!(tidy["interface"]["displayName"], "Tidy");
    peer.call("plugin/uninstall", json!({ "pluginId": ID })).await;
    assert_eq!(listed(&mut peer).await, Value::Null);
}

#[tokio::test]
async fn only_marketplaces_that_the_user_added_are_installed_from() {
    let bench = Bench::new(json!([says("1")])).await;
    let workspace = bench.env.workspace().canonicalize().unwrap();
    shop(&workspace, &bench.log);
    let server = bench.env.start();
    let mut peer = server.connect().await;
    for (root, wanted) in [
        (&bench.shop, "neither a marketplace that was added nor one of a trusted project"),
        (&workspace, "neither a marketplace that was added nor one of a trusted project"),
        (&bench.env.root().join("none"), "neither a marketplace that was added"),
        (
            &bench.env.home().canonicalize().unwrap().join("plugins/marketplaces/shop/0123"),
            "was upgraded or removed since it was listed",
        ),
    ] {
        let params = json!({ "pluginName": "tidy", "marketplacePath": root });
        for method in ["plugin/read", "plugin/install"] {
            let error = peer.refused(method, params.clone()).await;
            assert!(error.message.contains(wanted), "{method}: {error:?}");
            let said = format!("{error:?}");
            assert!(said.contains("marketplace/add") || said.contains("plugin/list"), "{said}");
        }
    }
    // Neither does a trusted project take the name of a marketplace of the home.
    add(&mut peer, &bench.shop).await;
    install(&mut peer).await;
    bench.configure(&format!("[projects.{workspace:?}]\ntrust_level = \"trusted\"\n"));
    let params = json!({ "pluginName": "tidy", "marketplacePath": workspace });
    let error = peer.refused("plugin/install", params).await;
    assert!(error.message.contains("calls itself `shop`"), "{error:?}");
}

#[tokio::test]
async fn misspelt_members_are_refused() {
    let bench = Bench::new(json!([says("1")])).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    for (method, params, name) in [
        ("marketplace/add", json!({ "source": "o/r", "refname": "v1" }), "refname"),
        ("marketplace/add", json!({ "source": "o/r", "sparsepaths": ["x"] }), "sparsepaths"),
        ("marketplace/upgrade", json!({ "marketplacename": "x" }), "marketplacename"),
        ("plugin/list", json!({ "cwd": "/" }), "cwd"),
        ("plugin/uninstall", json!({ "pluginId": ID, "force": true }), "force"),
        ("externalAgentConfig/detect", json!({ "includehome": true }), "includehome"),
    ] {
        let error = peer.refused(method, params).await;
        assert_eq!(error.code, -32602, "{method}: {error:?}");
        assert!(error.message.contains(name), "{method}: {error:?}");
    }
}

#[tokio::test]
async fn a_read_names_no_staging_folder_and_what_was_done_to_the_files() {
    let bench = Bench::new(json!([says("1")])).await;
    let manifest =
        json!({ "name": "tidy", "version": "1.0.0", "skills": "/out", "apps": "./no.json" });
    write(&bench.plugin_file(".codex-plugin/plugin.json"), &manifest.to_string());
    write(&bench.plugin_file("hooks/hooks.json"), "{");
    let server = bench.env.start();
    let mut peer = server.connect().await;
    add(&mut peer, &bench.shop).await;
    let params = json!({ "pluginName": "tidy", "marketplacePath": bench.shop });
    let plugin = peer.call("plugin/read", params.clone()).await["plugin"].take();
    assert!(!plugin.to_string().contains(".staging"), "{plugin}");
    let path = plugin["skills"][0]["path"].as_str().unwrap();
    assert!(Path::new(path).is_file(), "{path}");
    let actions = plugin["actions"].to_string();
    assert!(actions.contains("${AGENT_PLUGIN_ROOT}/.codex-plugin/plugin.json"), "{actions}");
    assert!(actions.contains("${AGENT_PLUGIN_ROOT}/hooks/hooks.json"), "{actions}");
    install(&mut peer).await;
    let read = peer.call("plugin/read", params.clone()).await["plugin"].take();
    assert_eq!(read["changes"], json!([]));
    let cached = bench.env.home().join("plugins/cache/shop/tidy");
    let version = fs::read_dir(cached).unwrap().next().unwrap().unwrap().path();
    write(&version.join("skills/sweep/SKILL.md"), "---\nname: sweep\ndescription: x\n---\n");
    let read = peer.call("plugin/read", params.clone()).await["plugin"].take();
    let changes = read["changes"].to_string();
    assert!(changes.contains("changed after the installation: skills/sweep/SKILL.md"), "{changes}");
    install(&mut peer).await;
    let read = peer.call("plugin/read", params).await["plugin"].take();
    assert_eq!(read["changes"], json!([]));
}

#[tokio::test]
async fn what_needs_a_service_is_refused() {
    let bench = Bench::new(json!([says("1")])).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let remote = json!({ "pluginName": "tidy", "remoteMarketplaceName": "far" });
    let targets = json!({ "remotePluginId": "x", "discoverability": "PRIVATE",
        "shareTargets": [] });
    for (method, params) in [
        ("plugin/share/list", json!({})),
        ("plugin/share/save", json!({ "pluginPath": "/x" })),
        ("plugin/share/updateTargets", targets),
        ("plugin/share/delete", json!({ "remotePluginId": "x" })),
        ("plugin/read", remote.clone()),
        ("plugin/install", remote),
        (
            "plugin/skill/read",
            json!({ "remoteMarketplaceName": "far", "remotePluginId": "x", "skillName": "y" }),
        ),
    ] {
        let error = peer.refused(method, params).await;
        assert_eq!(error.code, -32600, "{method}: {error:?}");
        assert!(error.message.contains("no service for plugins is configured"), "{error:?}");
        assert!(error.message.contains("`marketplace/add`"), "{method}: {error:?}");
    }
}
