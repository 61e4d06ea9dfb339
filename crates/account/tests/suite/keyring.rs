//! The keyring of the operating system, a real one: each test runs in a D-Bus session of its own, and
//! where there is no keyring. Without the programs for it, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::process::Command;

use account::{Error, Settings, Status, StoreKind};
use http_client::Network;

use crate::{Home, settings};

fn local(store: StoreKind) -> Settings {
    Settings { login_service: None, store, ..settings("") }
}

/// Runs an ignored test of this program as `script` says, where `"$@"` is its command.
fn run(script: &str, test: &str) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program);
    command.args(["--exact", "--ignored", test, "--nocapture"]);
    let ended = command.output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout);
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn exists(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().unwrap();
    found.status.success()
}

#[test]
fn a_login_is_stored_in_the_keyring_read_and_deleted() {
    if !exists("gnome-keyring-daemon") || !exists("dbus-run-session") {
        println!("skipped: gnome-keyring-daemon or dbus-run-session is missing");
        return;
    }
    let script = "export HOME=$(mktemp -d) XDG_RUNTIME_DIR=$(mktemp -d) XDG_DATA_HOME=; \
                  unset XDG_DATA_HOME; exec dbus-run-session -- sh -c \
                  'printf password | gnome-keyring-daemon --unlock --components=secrets >/dev/null; \
                  exec \"$@\"' sh \"$@\"";
    run(script, "keyring::with_a_keyring");
}

#[test]
fn without_a_keyring_auto_uses_the_file() {
    run(
        "export DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent; exec \"$@\"",
        "keyring::without_a_keyring",
    );
}

#[tokio::test]
#[ignore = "runs in a session with a keyring"]
async fn with_a_keyring() {
    for store in [StoreKind::Keyring, StoreKind::Auto] {
        let (home, settings) = (Home::new(), local(store));
        home.accounts().login_with_api_key(&settings, "sk-1").await.unwrap();
        assert!(!home.file().exists(), "{store:?}");
        // Another process, and another home.
        let other = home.accounts_in(Network::default());
        assert_eq!(other.bearer(&settings, None).await.unwrap().token.expose(), "sk-1");
        let elsewhere = Home::new().accounts().status(&settings).await.unwrap();
        assert_eq!(elsewhere, Status::LoggedOut { reason: None });
        other.login_with_api_key(&settings, "sk-2").await.unwrap();
        let bearer = home.accounts().bearer(&settings, None).await.unwrap();
        assert_eq!(bearer.token.expose(), "sk-2");
        assert!(other.logout(&settings).await.unwrap());
        assert!(!other.logout(&settings).await.unwrap());
        let status = home.accounts().status(&settings).await.unwrap();
        assert_eq!(status, Status::LoggedOut { reason: None });
    }
    // A login in the file moves to the keyring with the next login.
    let home = Home::new();
    home.accounts().login_with_api_key(&local(StoreKind::File), "sk-file").await.unwrap();
    let auto = local(StoreKind::Auto);
    let read = home.accounts().bearer(&auto, None).await.unwrap();
    assert_eq!(read.token.expose(), "sk-file");
    home.accounts().login_with_api_key(&auto, "sk-keyring").await.unwrap();
    assert!(!home.file().exists());
    assert!(home.accounts().logout(&auto).await.unwrap());
}

#[tokio::test]
#[ignore = "runs in a session without a keyring"]
async fn without_a_keyring() {
    let home = Home::new();
    let refused = home.accounts().login_with_api_key(&local(StoreKind::Keyring), "sk-1").await;
    assert!(matches!(&refused, Err(Error::Keyring(_))), "{refused:?}");
    assert!(!home.file().exists());
    let auto = local(StoreKind::Auto);
    home.accounts().login_with_api_key(&auto, "sk-1").await.unwrap();
    assert!(home.file().exists());
    assert_eq!(home.accounts().bearer(&auto, None).await.unwrap().token.expose(), "sk-1");
    assert!(home.accounts().logout(&auto).await.unwrap());
    assert!(!home.file().exists());
}
