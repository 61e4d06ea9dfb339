//! The credentials file: who may read it, and what is not one.

use account::{Error, ExternalTokens, LoginMethod, Settings, Status};

use crate::{Home, settings};

fn local() -> Settings {
    Settings { login_service: None, ..settings("") }
}

#[tokio::test]
async fn an_api_key_is_stored_private_and_deleted() {
    let home = Home::new();
    let accounts = home.accounts();
    assert_eq!(accounts.status(&local()).await.unwrap(), Status::LoggedOut { reason: None });
    assert!(matches!(accounts.bearer(&local(), None).await, Err(Error::NotLoggedIn)));
    accounts.login_with_api_key(&local(), " sk-1\n").await.unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = home.file().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Another process sees it at once.
    let other = home.accounts();
    assert_eq!(other.status(&local()).await.unwrap(), Status::ApiKey);
    assert_eq!(other.bearer(&local(), None).await.unwrap().token.expose(), "sk-1");
    assert!(other.logout(&local()).await.unwrap());
    assert!(!other.logout(&local()).await.unwrap());
    assert_eq!(accounts.status(&local()).await.unwrap(), Status::LoggedOut { reason: None });
    let left: Vec<_> = std::fs::read_dir(home.folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the lock stays: {left:?}");
}

#[tokio::test]
async fn keys_that_no_header_carries_are_refused() {
    let home = Home::new();
    for key in ["", "  ", "a b", "a\nb", "é", &"x".repeat(70_000)] {
        let error = home.accounts().login_with_api_key(&local(), key).await.unwrap_err();
        assert!(error.to_string().contains("the API key"), "{error}");
        assert!(!home.file().exists());
    }
}

#[tokio::test]
async fn what_is_no_credentials_file_is_refused_and_can_be_removed() {
    let check = async |problem: &str, put: &dyn Fn(&std::path::Path)| {
        let home = Home::new();
        put(&home.file());
        let accounts = home.accounts();
        for error in [
            accounts.status(&local()).await.unwrap_err(),
            accounts.bearer(&local(), None).await.unwrap_err(),
        ] {
            let text = format!("{error} {error:?}");
            assert!(text.contains(problem) && text.contains("credentials.json"), "{text}");
            assert!(!text.contains("sk-secret"), "{text}");
        }
        assert!(accounts.logout(&local()).await.unwrap());
        assert!(home.file().symlink_metadata().is_err());
        accounts.login_with_api_key(&local(), "sk-1").await.unwrap();
        assert_eq!(accounts.status(&local()).await.unwrap(), Status::ApiKey);
    };
    let write =
        |text: &'static str| move |path: &std::path::Path| std::fs::write(path, text).unwrap();
    check("not a credentials file", &write("")).await;
    check("not a credentials file", &write("{\"version\":1,\"type\":\"apiKey\",\"apiK")).await;
    check("version 9", &write("{\"version\":9,\"type\":\"apiKey\",\"apiKey\":\"sk-secret\"}"))
        .await;
    check("missing or wrong", &write("{\"version\":1,\"apiKey\":\"sk-secret\"}")).await;
    check("larger than 256 KiB", &|path| std::fs::write(path, vec![b' '; 300 << 10]).unwrap())
        .await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        check("FIFO", &|path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        })
        .await;
        check("symbolic link", &|path| {
            let target = path.with_file_name("elsewhere");
            std::fs::write(&target, "sk-secret").unwrap();
            symlink(target, path).unwrap();
        })
        .await;
        check("other users can change", &|path| {
            std::fs::write(path, "{}").unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        })
        .await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_is_replaced_and_not_written_through() {
    let home = Home::new();
    let target = home.folder.path().join("elsewhere");
    std::fs::write(&target, "kept").unwrap();
    std::os::unix::fs::symlink(&target, home.file()).unwrap();
    home.accounts().login_with_api_key(&local(), "sk-1").await.unwrap();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    assert!(home.file().symlink_metadata().unwrap().is_file());
}

#[cfg(not(feature = "keyring"))]
#[tokio::test]
async fn without_keyrings_auto_uses_the_file_and_keyring_says_so() {
    let home = Home::new();
    let auto = Settings { store: account::StoreKind::Auto, ..local() };
    home.accounts().login_with_api_key(&auto, "sk-1").await.unwrap();
    assert!(home.file().exists());
    assert!(home.accounts().logout(&auto).await.unwrap());
    let keyring = Settings { store: account::StoreKind::Keyring, ..local() };
    let error = home.accounts().login_with_api_key(&keyring, "sk-1").await.unwrap_err();
    assert!(error.to_string().contains("without support for keyrings"), "{error}");
    assert!(!home.file().exists());
}

#[tokio::test]
async fn a_login_that_the_settings_forbid_is_ended_with_the_reason() {
    let home = Home::new();
    home.accounts().login_with_api_key(&local(), "sk-1").await.unwrap();
    let hosted = Settings { forced_method: Some(LoginMethod::Hosted), ..local() };
    let error = home.accounts().bearer(&hosted, None).await.unwrap_err();
    assert!(error.to_string().contains("forced_login_method"), "{error}");
    assert!(!std::fs::read_to_string(home.file()).unwrap().contains("sk-1"));
    // The reason stays for other processes, also when the setting is gone.
    let Status::LoggedOut { reason: Some(reason) } =
        home.accounts().status(&local()).await.unwrap()
    else {
        panic!("not logged out")
    };
    assert!(reason.contains("forced_login_method"), "{reason}");
    let error = home.accounts().login_with_api_key(&hosted, "sk-1").await.unwrap_err();
    assert!(error.to_string().contains("forced_login_method"), "{error}");
}

#[tokio::test]
async fn tokens_of_a_client_stay_in_memory_and_within_the_settings() {
    let home = Home::new();
    let accounts = home.accounts();
    let tokens = |token: &str, account: &str| ExternalTokens {
        access_token: http_client::Secret::new(token),
        account_id: account.to_owned(),
        plan: Some("team".to_owned()),
    };
    accounts.use_external(&local(), tokens("external-1", "w1")).unwrap();
    let bearer = accounts.bearer(&local(), None).await.unwrap();
    assert_eq!((bearer.token.expose(), bearer.account_id.as_deref()), ("external-1", Some("w1")));
    let rejected = accounts.bearer(&local(), Some(&bearer.token)).await.unwrap_err();
    assert!(matches!(rejected, Error::ExternalRejected { account_id } if account_id == "w1"));
    assert!(!home.file().exists());
    for (token, account) in [("", "w"), ("t", ""), ("a b", "w"), ("t", "a\r\nb")] {
        assert!(accounts.use_external(&local(), tokens(token, account)).is_err());
    }
    let forced = Settings { forced_workspace: Some("W1".to_owned()), ..local() };
    assert!(matches!(accounts.status(&forced).await.unwrap(), Status::External(_)));
    let error = accounts.use_external(&forced, tokens("t", "w2")).unwrap_err();
    assert!(error.to_string().contains("forced_hosted_workspace_id"), "{error}");
    // A setting that changes drops them.
    let other = Settings { forced_workspace: Some("w2".to_owned()), ..local() };
    assert_eq!(accounts.status(&other).await.unwrap(), Status::LoggedOut { reason: None });
    assert_eq!(accounts.status(&local()).await.unwrap(), Status::LoggedOut { reason: None });
}
