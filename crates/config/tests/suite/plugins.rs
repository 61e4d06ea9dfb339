//! What plugins add to a configuration, and the marketplaces that requirements allow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{MarketplaceSource, PluginParts};
use serde_json::{Value, json};

use crate::TestHome;

fn plugin(id: &str, servers: Value) -> PluginParts {
    let servers: BTreeMap<String, Value> = serde_json::from_value(servers).unwrap();
    PluginParts {
        id: id.to_owned(),
        name: id.to_owned(),
        display_name: id.to_owned(),
        root: PathBuf::from("/plugins").join(id),
        digest: "sha256:0".to_owned(),
        skill_folders: Vec::new(),
        hooks: Vec::new(),
        apps: Vec::new(),
        servers,
    }
}

#[test]
fn entries_of_the_user_stand_before_those_of_plugins() {
    let home = TestHome::with("[mcp_servers.mine]\ncommand = \"own\"\n");
    let mut resolved = home.resolved().unwrap();
    let before = resolved.warnings.len();
    resolved.add_plugins(vec![
        plugin("a@m", json!({ "mine": { "command": "a" }, "both": { "command": "a" } })),
        plugin(
            "b@m",
            json!({ "both": { "command": "b" }, "bad": { "command": 1 },
                "thief": { "command": "x", "env_vars": ["AGENT_API_KEY"] } }),
        ),
    ]);
    let command = |name: &str| resolved.config.mcp_servers.get(name)?.command.clone();
    assert_eq!(command("mine").as_deref(), Some("own"));
    assert_eq!(command("both").as_deref(), Some("a"));
    assert_eq!((command("bad"), command("thief")), (None, None));
    assert_eq!(resolved.config.untrusted_servers, ["both".to_owned()].into());
    let warnings: Vec<String> =
        resolved.warnings[before..].iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("`a@m` has one of the same name")));
    assert_eq!(resolved.config.plugin_parts.len(), 2);
}

#[test]
fn requirements_apply_to_the_servers_of_plugins() {
    let home = TestHome::with("");
    home.write("etc/requirements.toml", "[mcp_servers.docs.identity]\ncommand = \"docs\"\n");
    let mut resolved = home.resolved().unwrap();
    let servers = json!({ "docs": { "command": "docs" }, "other": { "command": "docs" } });
    resolved.add_plugins(vec![plugin("a@m", servers)]);
    assert!(resolved.config.mcp_servers["docs"].enabled);
    assert!(!resolved.config.mcp_servers["other"].enabled);
}

// Effect of requirement `plugins.allowed_marketplaces.<index>.url`.
// Effect of requirement `plugins.allowed_marketplaces.<index>.ref`.
// Effect of requirement `plugins.allowed_marketplaces.<index>.sha`.
#[test]
fn requirements_pin_marketplaces() {
    const SHA: &str = "0123456789012345678901234567890123456789";
    let git = |url, reference, sha| MarketplaceSource::Git { url, reference, sha };
    let listed = "[[plugins.allowed_marketplaces]]\nurl = \"https://a.test/x.git\"\nref = \"v1\"\n\
                  sha = \"0123456789012345678901234567890123456789\"\n\
                  [[plugins.allowed_marketplaces]]\npath = \"/srv/market\"\n";
    let table: [(&str, MarketplaceSource<'_>, bool); 10] = [
        ("", git("https://any.test", None, None), true),
        ("[plugins]\nallowed_marketplaces = []\n", git("https://any.test", None, None), false),
        (
            "[plugins]\nallowed_marketplaces = []\n",
            MarketplaceSource::Folder(Path::new("/a")),
            false,
        ),
        (listed, git("https://a.test/x", Some("v1"), None), true),
        (listed, git("https://a.test/x.git/", Some("v1"), Some(SHA)), true),
        (listed, git("https://a.test/x", Some("v1"), Some("1")), false),
        (listed, git("https://a.test/x", None, Some(SHA)), false),
        (listed, git("https://b.test/x", Some("v1"), Some(SHA)), false),
        (listed, MarketplaceSource::Folder(Path::new("/srv/market")), true),
        (listed, MarketplaceSource::Folder(Path::new("/srv")), false),
    ];
    for (requirements, source, allowed) in table {
        let home = TestHome::with("");
        home.write("etc/requirements.toml", requirements);
        let forbidding = home.config().requirements.forbidding_marketplace(source);
        assert_eq!(forbidding.is_none(), allowed, "{requirements} {source:?}: {forbidding:?}");
    }
}

#[test]
fn every_file_of_requirements_must_allow_a_marketplace() {
    let home = TestHome::with("");
    home.write(
        "etc/requirements.toml",
        "[plugins]\nallowed_marketplaces = [{ url = \"https://a\" }, { url = \"https://b\" }]\n",
    );
    home.write(
        "me/.agent/requirements.toml",
        "[plugins]\nallowed_marketplaces = [{ url = \"https://b\" }]\n",
    );
    let requirements = home.config().requirements;
    let of = |url| {
        let source = MarketplaceSource::Git { url, reference: None, sha: None };
        requirements.forbidding_marketplace(source)
    };
    assert_eq!(of("https://b"), None);
    assert!(of("https://a").unwrap().contains("plugins.allowed_marketplaces"));
}

#[test]
fn a_mistaken_marketplace_is_an_error() {
    for (entry, wanted) in [
        ("{ }", "exactly one"),
        ("{ url = \"https://a\", path = \"/a\" }", "exactly one"),
        ("{ path = \"/a\", ref = \"main\" }", "no `ref`"),
        ("{ url = \"https://a\", sha = \"abc\" }", "40 hexadecimal digits"),
        ("{ url = \"https://a\", branch = \"abc\" }", "branch"),
    ] {
        let home = TestHome::with("");
        let text = format!("[plugins]\nallowed_marketplaces = [{entry}]\n");
        home.write("etc/requirements.toml", &text);
        let error = home.error();
        assert!(error.contains(wanted), "{entry}: {error}");
    }
}

#[test]
fn no_project_switches_plugins() {
    let home = TestHome::new();
    let cwd = home.cwd.display();
    let trusted = format!("[projects.\"{cwd}\"]\ntrust_level = \"trusted\"\n");
    home.user(&format!("[plugins.\"a@m\"]\nenabled = false\n{trusted}"));
    home.write("work/.agent/config.toml", "[plugins.\"a@m\"]\nenabled = true\n");
    assert!(!home.config().plugins["a@m"].enabled);
    let warnings = home.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("plugins")), "{warnings:?}");
}
