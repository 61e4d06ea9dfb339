//! Records and locks of a home: a damaged record hides nothing else, work that fetches makes no other wait,
//! and a name leads to one marketplace only.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::common::{add, commit, folder, git, home, marketplace, read, upgrade, url, write};
use plugins::{Configured, Error, Home, MarketplaceSource};
use tokio::sync::oneshot;

/// A home with the local marketplace `market`, whose plugin `one` is installed.
async fn installed(top: &Path) -> (Home, PathBuf) {
    let root = top.join("market");
    marketplace(&root);
    let home = home(&top.join("home"), &[]);
    add(&home, &root.display().to_string(), None, &[]).await.unwrap();
    home.install(&read(&root), "one", None).await.unwrap();
    (home, root)
}

#[tokio::test]
async fn a_damaged_record_hides_nothing_else() {
    let top = folder();
    let (home, root) = installed(top.path()).await;
    let before = home.installed().unwrap().all.remove(0);
    let place = top.path().join("home");
    let about_another = std::fs::read(place.join("installed/one@market.json")).unwrap();
    for (damaged, contents) in [
        ("installed/zz@other.json", b"{".to_vec()),
        ("installed/aa@other.json", about_another),
        ("configured/bad.json", b"{".to_vec()),
        ("configured/null.json", b"null".to_vec()),
    ] {
        write(&place.join(damaged), contents);
    }
    std::fs::create_dir(place.join("installed/xx@other.json")).unwrap();
    std::os::unix::fs::symlink("aa@other.json", place.join("installed/yy@other.json")).unwrap();
    // Files that could be those of a damaged record stay.
    let kept = [place.join("cache/other/zz/1/file"), place.join("marketplaces/bad/1/file")];
    let lost = [place.join("cache/other/none/1/file"), place.join("marketplaces/none/1/file")];
    kept.iter().chain(&lost).for_each(|path| write(path, "x"));
    let again = home.install(&read(&root), "one", None).await.unwrap();
    assert_eq!(again.digest, before.digest);
    assert!(kept.iter().all(|path| path.exists()) && !lost.iter().any(|path| path.exists()));
    let (plugins, markets) = (home.installed().unwrap(), home.marketplaces().unwrap());
    assert_eq!((plugins.all.len(), markets.all.len()), (1, 1));
    let said: Vec<String> =
        plugins.damaged.iter().chain(&markets.damaged).map(ToString::to_string).collect();
    for (said, parts) in said.iter().zip([
        ["aa@other.json", "about `one@market`", "install the plugin again"],
        ["xx@other.json", "folder", "uninstall it"],
        ["yy@other.json", "link", "uninstall it"],
        ["zz@other.json", "EOF", "install the plugin again"],
        ["bad.json", "EOF", "add it again"],
        ["null.json", "damaged", "add it again"],
    ]) {
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    assert_eq!(said.len(), 6);
    // What the messages recommend.
    for id in ["aa@other", "xx@other", "yy@other", "zz@other"] {
        home.uninstall(id).await.unwrap();
    }
    home.remove_marketplace("bad").await.unwrap();
    home.remove_marketplace("null").await.unwrap();
    assert!(home.installed().unwrap().damaged.is_empty() && !kept[0].exists());
    assert!(home.marketplaces().unwrap().damaged.is_empty() && !kept[1].exists());
}

#[tokio::test]
async fn removing_a_marketplace_names_what_stays() {
    let top = folder();
    let (home, root) = installed(top.path()).await;
    let removed = home.remove_marketplace("market").await.unwrap();
    assert_eq!(removed.installed, ["one@market"]);
    let record = home.installed().unwrap().all.remove(0);
    let source = MarketplaceSource::Local { path: root.canonicalize().unwrap() };
    assert_eq!(record.marketplace_source, Some(source));
}

/// A repository server that accepts a connection and never answers. The sender ends it.
fn silent() -> (String, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, is_asked) = oneshot::channel();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let _ = asked.send(());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (format!("http://{address}"), is_asked)
}

#[tokio::test]
async fn a_silent_marketplace_makes_no_other_wait() {
    let top = folder();
    let (home, root) = installed(top.path()).await;
    let (source, is_asked) = silent();
    let fetching = tokio::spawn({
        let home = home.clone();
        async move { add(&home, &source, None, &[]).await.map(drop) }
    });
    is_asked.await.unwrap();
    let market = read(&root);
    drop(home.stage(&market, "one").await.unwrap());
    home.install(&market, "one", None).await.unwrap();
    home.uninstall("one@market").await.unwrap();
    assert!(!fetching.is_finished(), "it fetches still");
    // Its folder is not taken for a leftover.
    let staging = top.path().join("home/.staging");
    assert_eq!(std::fs::read_dir(&staging).unwrap().count(), 1);
    fetching.abort();
    assert!(fetching.await.unwrap_err().is_cancelled());
    home.remove_marketplace("market").await.unwrap();
    assert_eq!(std::fs::read_dir(&staging).unwrap().count(), 0);
}

#[tokio::test]
async fn a_name_leads_to_one_marketplace() {
    let top = folder();
    let (home, root) = installed(top.path()).await;
    let other = top.path().join("other");
    marketplace(&other);
    write(&other.join("plugins/one/more"), "x");
    let error = home.install(&read(&other), "one", None).await.unwrap_err().to_string();
    assert!(error.contains("calls itself `market`"), "{error}");
    let error = add(&home, &other.display().to_string(), None, &[]).await.unwrap_err().to_string();
    assert!(error.contains(&root.display().to_string()), "{error}");
    home.remove_marketplace("market").await.unwrap();
    add(&home, &other.display().to_string(), None, &[]).await.unwrap();
    let error = home.install(&read(&other), "one", None).await.unwrap_err().to_string();
    assert!(error.contains("uninstall it first"), "{error}");
    home.uninstall("one@market").await.unwrap();
    home.install(&read(&other), "one", None).await.unwrap();
}

#[tokio::test]
async fn what_is_not_allowed_changes_nothing() {
    let top = folder();
    let root = top.path().join("market");
    marketplace(&root);
    let first = commit(&root);
    let home = home(&top.path().join("home"), &[]);
    let source = MarketplaceSource::parse(&url(&root), None, &[]).unwrap();
    let no = |found: &Configured| Err(Error::Forbidden(found.revision.clone().unwrap()));
    let error = home.add_marketplace(source.clone(), no).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden(revision) if revision == first));
    assert_eq!(home.marketplaces().unwrap().all, []);
    let added = home.add_marketplace(source, |_| Ok(())).await.unwrap();
    write(&root.join("new"), "x");
    let second = commit(&root);
    let error = home.upgrade_marketplace("market", no).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden(revision) if revision == second));
    assert_eq!(home.marketplaces().unwrap().all[0].revision.as_ref(), Some(&first));
    assert!(added.root.exists() && upgrade(&home, "market").await.unwrap().changed);
}

#[tokio::test]
async fn only_plugins_with_submodules_are_refused() {
    let top = folder();
    let root = top.path().join("market");
    let one = marketplace(&root);
    let list = r#"{"name": "market", "plugins": [{"name": "one", "source": "./plugins/one"},
        {"name": "two", "source": "./plugins/two"}, {"name": "sub", "source": "./sub/deep"},
        {"name": "no", "source": {"source": "npm", "package": "x"}}]}"#;
    write(&root.join(".claude-plugin/marketplace.json"), list);
    write(&root.join("plugins/two/.claude-plugin/plugin.json"), r#"{"name": "two"}"#);
    let id = commit(&root);
    for path in ["plugins/two/sub", "sub"] {
        let entry = format!("160000,{id},{path}");
        git(&root, &[], &["update-index", "--add", "--cacheinfo", &entry], b"").unwrap();
    }
    git(&root, &[], &["commit", "-q", "-m", "s"], b"").unwrap();
    let home = home(&top.path().join("home"), &[]);
    let added = add(&home, &url(&root), None, &[]).await.unwrap();
    let market = read(&added.root);
    home.install(&market, "one", None).await.unwrap();
    for (name, wanted) in
        [("two", "plugins/two/sub: it is a submodule"), ("sub", "sub: it is a submodule")]
    {
        let error = home.install(&market, name, None).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let error = home.install(&market, "no", None).await.unwrap_err().to_string();
    assert!(error.contains("npm"), "the reason of an entry that cannot be used: {error}");
    // A folder that is a link, where a copy of the marketplace would follow it.
    std::fs::rename(&one, root.join("plugins/real")).unwrap();
    std::os::unix::fs::symlink("real", &one).unwrap();
    let error = home.install(&read(&root), "one", None).await.unwrap_err().to_string();
    assert!(error.contains("`one` is a symbolic link"), "{error}");
}

#[tokio::test]
async fn errors_name_what_the_user_has() {
    let top = folder();
    let root = top.path().join("market");
    let plugin = marketplace(&root);
    let home = home(&top.path().join("home"), &[]);
    for name in [".claude-plugin", "skills"] {
        std::fs::remove_dir_all(plugin.join(name)).unwrap();
    }
    let error = home.stage(&read(&root), "one").await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: it is not a plugin", plugin.display())), "{error}");
}
