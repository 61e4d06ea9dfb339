//! Tests of the reader of marketplaces.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(text: &str) -> Result<Marketplace, Problem> {
    Marketplace::parse(text.as_bytes(), Path::new("/m"), Path::new("/m/file.json"))
}

#[test]
fn both_layouts() {
    let codex = json!({
        "name": "m", "interface": {"displayName": "Market"}, "unknown": 1,
        "plugins": [
            {"name": "a", "source": {"source": "local", "path": "./plugins/a"}, "category": "Tools",
             "policy": {"installation": "INSTALLED_BY_DEFAULT", "authentication": "ON_USE"}},
            {"name": "b", "source": {"source": "remote"}, "policy": {"installation": "NOT_AVAILABLE"}},
        ],
    });
    let read = parse(&codex.to_string()).unwrap();
    assert_eq!((read.display_name.as_deref(), read.problems.len()), (Some("Market"), 0));
    let a = read.entry("a").unwrap();
    assert_eq!(a.source, Source::Local { path: "plugins/a".into() });
    assert_eq!(
        (a.install_policy, a.auth_policy),
        (InstallPolicy::InstalledByDefault, AuthPolicy::OnUse)
    );
    assert_eq!(read.entry("b").unwrap().install_policy, InstallPolicy::NotAvailable);
    let claude = json!({
        "name": "m", "owner": {"name": "o"}, "metadata": {"pluginRoot": "./plugins"},
        "plugins": [
            {"name": "a", "source": "./a", "description": "d", "version": "1"},
            {"name": "b", "source": {"source": "github", "repo": "o/r", "ref": "v1"}},
            {"name": "c", "source": {"source": "url", "url": "https://example.com/r.git"}},
            {"name": "d", "source": {"source": "git-subdir", "url": "https://example.com/r", "path": "x",
                                     "sha": "ABCDEF0123456789abcdef0123456789abcdef01"}},
        ],
    });
    let read = parse(&claude.to_string()).unwrap();
    assert_eq!(read.problems, []);
    assert_eq!(read.entry("a").unwrap().source, Source::Local { path: "plugins/a".into() });
    let Source::Git { url, ref_name, .. } = &read.entry("b").unwrap().source else { panic!() };
    assert_eq!((url.as_str(), ref_name.as_deref()), ("https://github.com/o/r.git", Some("v1")));
    let Source::Git { path, sha, .. } = &read.entry("d").unwrap().source else { panic!() };
    assert_eq!(path.as_deref(), Some(Path::new("x")));
    assert!(sha.as_ref().unwrap().starts_with("abcdef"));
}

#[test]
fn a_bad_entry_hides_no_other() {
    let bad = [
        (json!(null), "must be an object"),
        (json!({"source": "./a"}), "`name` is missing"),
        (json!({"name": 1, "source": "./a"}), "`name` is missing"),
        (json!({"name": "../a", "source": "./a"}), "can have letters"),
        (json!({"name": "cache", "source": "./a"}), "reserved"),
        (json!({"name": "good", "source": "./a"}), "listed twice"),
        (json!({"name": "GOOD", "source": "./a"}), "listed twice"),
        (json!({"name": "a"}), "`source` is missing"),
        (json!({"name": "a", "source": null}), "must be a path or an object"),
        (json!({"name": "a", "source": "/etc"}), "begin with `./`"),
        (json!({"name": "a", "source": "./../x"}), "leads out"),
        (
            json!({"name": "a", "source": {"source": "npm", "package": "x"}}),
            "npm are not supported",
        ),
        (json!({"name": "a", "source": {"source": "url"}}), "`source.url` is missing"),
        (
            json!({"name": "a", "source": {"source": "url", "url": "ext::sh -c id"}}),
            "option or a helper",
        ),
        (
            json!({"name": "a", "source": {"source": "url", "url": "--upload-pack=id"}}),
            "option or a helper",
        ),
        (
            json!({"name": "a", "source": {"source": "url", "url": "https://u:p@h/x"}}),
            "credentials",
        ),
        (
            json!({"name": "a", "source": {"source": "url", "url": "https://h/x", "ref": "--x"}}),
            "branch or tag",
        ),
        (
            json!({"name": "a", "source": {"source": "url", "url": "https://h/x", "sha": "abc"}}),
            "hexadecimal",
        ),
        (json!({"name": "a", "source": {"source": "github", "repo": "../x"}}), "owner/repository"),
        (json!({"name": "a", "source": {"source": "zip", "url": "https://h/x"}}), "not supported"),
        (json!({"name": "a", "source": "./a", "policy": {"installation": "MAYBE"}}), "not known"),
    ];
    for (entry, expect) in bad {
        let file = json!({"name": "m", "plugins": [{"name": "good", "source": "./good"}, entry]});
        let read = parse(&file.to_string()).unwrap();
        assert_eq!(read.plugins.len(), 1, "{entry}");
        let problem = read.problems[0].to_string();
        assert!(
            problem.starts_with("/m/file.json: `plugins[1]`") && problem.contains(expect),
            "{problem}"
        );
    }
}

#[test]
fn bad_files_name_the_line() {
    assert_eq!(parse("{\n\"name\": \"m\",\n oops}").unwrap_err().line, Some(3));
    for text in ["[]", "{}", r#"{"name": "m"}"#, r#"{"name": "..", "plugins": []}"#, "null", ""] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_list_of_a_link_or_in_a_link_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let root = top.path().join("m");
    std::fs::create_dir_all(root.join(".claude-plugin")).unwrap();
    std::fs::write(top.path().join("outside.json"), r#"{"name": "m", "plugins": []}"#).unwrap();
    let link = root.join(".claude-plugin/marketplace.json");
    std::os::unix::fs::symlink("../../outside.json", link).unwrap();
    let error = Marketplace::read(&root).unwrap_err().to_string();
    assert!(error.contains("a link leads out"), "{error}");
    let error = Marketplace::read(&top.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("none"), "{error}");
}

proptest! {
    #[test]
    fn whatever_the_text_sources_stay_within(
        name in ".{0,12}", path in "[./a~\\\\-]{0,12}", url in "(https|ssh|file|ext|http)?:?(/|:){0,2}[-a@:./]{0,12}",
    ) {
        let file = json!({"name": "m", "plugins": [
            {"name": name, "source": path},
            {"name": "u", "source": {"source": "url", "url": url, "path": path, "ref": name}},
        ]});
        for entry in parse(&file.to_string()).unwrap().plugins {
            let inside = |path: &Path| path.components().all(|c| matches!(c, std::path::Component::Normal(_)));
            match entry.source {
                Source::Local { path } => prop_assert!(inside(&path)),
                Source::Git { url, path, ref_name, .. } => {
                    prop_assert!(!url.starts_with('-') && !url.contains("::"));
                    prop_assert!(path.is_none_or(|path| inside(&path)));
                    prop_assert!(ref_name.is_none_or(|name| !name.starts_with('-')));
                }
                Source::Remote => {}
            }
        }
    }
}
