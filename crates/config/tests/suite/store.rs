//! `[store]`: the database of threads.

use crate::TestHome;

const URL: &str = "url = \"postgres://me@db/threads\"";

fn error(table: &str) -> String {
    TestHome::with(&format!("[store]\n{table}\n")).error()
}

#[test]
fn threads_are_in_sqlite_unless_a_database_is_named() {
    for text in ["", "[store]\n"] {
        let home = TestHome::with(text);
        assert_eq!(home.config().thread_database, None, "{text}");
        assert!(home.warnings().is_empty(), "{text}");
    }
    let home = TestHome::with(&format!("[store]\n{URL}\n"));
    let config = home.config();
    let database = config.thread_database.unwrap();
    assert_eq!(database.url, "postgres://me@db/threads");
    assert_eq!((database.schema.as_str(), database.max_connections), ("agentd", 8));
    assert!(database.password.is_none() && !database.requires_tls);
    assert!(home.warnings().is_empty());
}

// Effect of `store.max_connections`.
#[test]
fn every_key_counts() {
    let home = TestHome::with(&format!(
        "[store]\n{URL}\nenv_key = \"MY_KEY\"\nschema = \"team\"\nca_file = \"ca.pem\"\nmax_connections = 3\n"
    ));
    let config = home.config();
    let database = config.thread_database.clone().unwrap();
    assert_eq!(database.password.as_ref().unwrap().expose(), "secret-1");
    assert!(!format!("{config:?}").contains("secret-1"));
    assert_eq!(database.env_key.as_deref(), Some("MY_KEY"));
    assert!(config.secret_variables.contains(&"MY_KEY".to_owned()), "commands must not see it");
    assert_eq!((database.schema.as_str(), database.max_connections), ("team", 3));
    // A file of authorities asks for TLS, and is relative to the file that names it.
    assert_eq!(database.ca_file, Some(home.home.join("ca.pem")));
    assert_eq!(database.url, "postgres://me@db/threads?sslmode=require");
    assert!(database.requires_tls);
    for (variable, is_set) in [("EMPTY", false), ("NOT_SET", false), ("MY_KEY", true)] {
        let config =
            TestHome::with(&format!("[store]\n{URL}\nenv_key = \"{variable}\"\n")).config();
        assert_eq!(config.thread_database.unwrap().password.is_some(), is_set, "{variable}");
    }
}

#[test]
fn addresses() {
    let check = |url: &str, expected: Option<&str>| {
        let home = TestHome::with(&format!("[store]\nurl = \"{url}\"\n"));
        match (home.resolved(), expected) {
            (Ok(resolved), None) => {
                assert_eq!(resolved.config.thread_database.unwrap().url, url);
            }
            (Err(error), Some(expected)) => {
                let said = error.to_string();
                assert!(said.contains("config.toml:2:7: `store.url`: "), "{url}: {said}");
                assert!(said.contains(expected) && !said.contains("hunter2"), "{url}: {said}");
            }
            (Ok(_), Some(_)) => panic!("{url} is accepted"),
            (Err(error), None) => panic!("{url}: {error}"),
        }
    };
    for accepted in [
        "postgres://me@db/threads",
        "postgresql://me@db:5433/threads",
        "postgres://db/threads?sslmode=require",
        "postgres://one:1,two:2/threads?target_session_attrs=read-write",
        "postgres://me@/threads?host=/run/postgresql",
        "postgres://me@[::1]:5432/threads",
        "postgres://me@db?dbname=threads",
    ] {
        check(accepted, None);
    }
    for (refused, expected) in [
        ("postgres://me:hunter2@db/threads", "must not contain a password"),
        ("postgres://me:@db/threads", "must not contain a password"),
        ("postgres://me@db/threads?password=hunter2", "`env_key`"),
        ("postgres://me@db/threads?pass%77ord=hunter2", "without `%`"),
        ("postgres://me@db/threads?sslmode=verify-full", "`require` verifies the certificate"),
        ("mysql://me:hunter2@db/threads", "must be the address of a PostgreSQL database"),
        ("", "must be the address of a PostgreSQL database"),
        ("/var/threads.db", "set `sqlite_home`"),
        ("host=db user=me password=hunter2", "must be the address of a PostgreSQL database"),
        ("postgres://", "names no host"),
        ("postgres://me@/threads", "names no host"),
        ("postgres://me@db", "names no database"),
        ("postgres://me@db/", "names no database"),
        ("postgres://me@db/my threads", "must have no spaces"),
    ] {
        check(refused, Some(expected));
    }
}

#[test]
fn mistakes_prevent_the_start() {
    for (table, place, expected) in [
        ("schema = \"x\"", "config.toml:", "`store.url`: is missing"),
        ("url = 5", "config.toml:2:7", "`store.url`: must be the address"),
        ("url = { host = \"db\" }", "config.toml:2:1", "`store.url` must be a string"),
        (&format!("{URL}\nschema = \"\""), "config.toml:3:10", "must have 1 to 63 bytes"),
        (&format!("{URL}\nschema = \"{}\"", "x".repeat(64)), "config.toml:3:10", "1 to 63 bytes"),
        (&format!("{URL}\nschema = \"pg_x\""), "config.toml:3:10", "`pg_`"),
        (
            &format!("{URL}\nenv_key = \"\""),
            "config.toml:3:11",
            "the name of an environment variable",
        ),
        (&format!("{URL}\nenv_key = \"a b\""), "config.toml:3:11", "not the password"),
        (
            &format!("{URL}\nmax_connections = 1"),
            "config.toml:3:19",
            "`store.max_connections` must be",
        ),
        (
            &format!("{URL}\nmax_connections = \"many\""),
            "config.toml:3:19",
            "`store.max_connections`",
        ),
        (
            "url = \"postgres://db/t?sslmode=disable\"\nca_file = \"ca.pem\"",
            "config.toml:3:11",
            "has no effect with `sslmode=disable`",
        ),
    ] {
        let said = error(table);
        assert!(said.contains(place) && said.contains(expected), "{table}: {said}");
    }
    assert!(TestHome::with("store = \"postgres://db/t\"\n").error().contains("`store`"));
    let warnings = TestHome::with(&format!("[store]\n{URL}\nscheme = \"x\"\n")).warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("did you mean `store.schema`?")),
        "{warnings:?}"
    );
}

#[test]
fn a_profile_and_a_flag_can_name_the_database_but_no_project() {
    let profile = format!("profile = \"team\"\n[profiles.team.store]\n{URL}\n");
    assert!(TestHome::with(&profile).config().thread_database.is_some());
    let flag = TestHome::new().flag("store.url=postgres://me@db/threads");
    assert!(flag.config().thread_database.is_some());
    let home = TestHome::new();
    home.user(&format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", home.cwd.display()));
    home.write("work/.agent/config.toml", &format!("model = \"x\"\n[store]\n{URL}\n"));
    let config = home.config();
    assert_eq!((config.model.as_deref(), &config.thread_database), (Some("x"), &None));
    let warnings = home.warnings();
    let ignored = |warning: &String| {
        warning.contains("`store`") && warning.contains("a project's file cannot set this key")
    };
    assert!(warnings.iter().any(ignored), "{warnings:?}");
}
