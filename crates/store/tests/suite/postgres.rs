//! A schema of PostgreSQL: migrations, servers and texts that need care, TLS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use crate::common::servers::{Certificate, Postgres};
use crate::common::{
    administer, create, listed, new_name, new_schema, node, record, server, start,
};
use store::{ListQuery, Store, StoreError, ThreadRecord, migrate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_created_once_and_only_by_the_command() {
    let schema = new_name("new");
    let error = Store::open(node(&schema)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotMigrated(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("has no tables of a thread store; run `agentd store migrate`"), "{text}");
    let nodes: Vec<_> = (0..4).map(|_| node(&schema)).collect();
    let migrations: Vec<_> = nodes
        .into_iter()
        .map(|node| tokio::spawn(async move { migrate(&node).await.unwrap() }))
        .collect();
    let mut created = 0;
    for migration in migrations {
        let migration = migration.await.unwrap();
        assert_eq!((migration.to, migration.has_trigrams), (1, false));
        created += u32::from(migration.from == 0);
    }
    assert_eq!(created, 1);
    Store::open(node(&schema)).await.unwrap();
}

#[tokio::test]
async fn a_program_works_with_the_schema_after_its_own_and_with_no_later_one() {
    let schema = new_schema().await;
    let add = |version: i64, oldest: i64| {
        format!(
            "INSERT INTO \"{schema}\".schema_version (version, oldest_program)
             VALUES ({version}, {oldest})"
        )
    };
    administer(&add(2, 1)).await;
    Store::open(node(&schema)).await.unwrap();
    assert_eq!(migrate(&node(&schema)).await.unwrap().to, 2);
    administer(&add(3, 2)).await;
    for error in
        [Store::open(node(&schema)).await.unwrap_err(), migrate(&node(&schema)).await.unwrap_err()]
    {
        assert!(matches!(error, StoreError::Newer(_)), "{error}");
        assert!(error.to_string().contains("has version 3"), "{error}");
    }
}

#[tokio::test]
async fn names_are_found_with_and_without_trigrams() {
    let mut own = Postgres::start();
    let with = |schema: &str| {
        let mut options = node(schema);
        options.url = own.url();
        options
    };
    let plain = with("plain");
    assert!(!migrate(&plain).await.unwrap().has_trigrams);
    let url = own.url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let extension = "CREATE SCHEMA \"more#1\"; CREATE EXTENSION pg_trgm SCHEMA \"more#1\"";
    client.batch_execute(extension).await.unwrap();
    let indexed = with("indexed");
    assert!(migrate(&indexed).await.unwrap().has_trigrams);
    for options in [plain, indexed] {
        let store = Store::open(options).await.unwrap();
        let named = ThreadRecord { name: Some("100% Größe\0".into()), ..record("a", 1) };
        store.commit([listed(named), listed(record("b", 2))].concat()).await.unwrap();
        for (term, expected) in [
            ("GRÖSS", 0),
            ("größe", 1),
            ("100%", 1),
            ("1_0", 0),
            ("e\0", 1),
            ("\0", 1),
            ("of b", 1),
        ] {
            let query = ListQuery { search: Some(term.into()), ..ListQuery::default() };
            let found = store.threads(query).await.unwrap().rows.len();
            assert_eq!(found, expected, "{term:?}");
        }
    }
    own.kill();
}

#[tokio::test]
async fn texts_with_nul_are_stored_and_found() {
    let schema = new_schema().await;
    let store = Store::open(node(&schema)).await.unwrap();
    let odd = "a\0b\u{10}0\u{10}";
    let thread = ThreadRecord {
        cwd: odd.into(),
        preview: odd.into(),
        model: odd.into(),
        source: odd.into(),
        settings: odd.into(),
        ..record("a", 1)
    };
    store.commit(listed(thread.clone())).await.unwrap();
    let query = ListQuery { cwds: vec![odd.into()], ..ListQuery::default() };
    assert_eq!(store.threads(query).await.unwrap().rows[0].record, thread);
    store.commit(vec![start("a", odd, 1)]).await.unwrap();
    let write = crate::common::put("a", odd, odd, odd);
    store.commit(vec![write.clone()]).await.unwrap();
    store.commit(vec![write, crate::common::append("a", Some(odd), &[odd])]).await.unwrap();
    let items = store.items("a", odd).await.unwrap();
    assert_eq!((items.len(), items[0].id.as_str(), items[0].payload.as_str()), (1, odd, odd));
    assert_eq!(crate::common::history(&store, "a").await, [odd]);
}

#[tokio::test]
async fn a_server_with_a_private_authority_is_verified() {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let (chain, private) = (certificate.pem(), key.serialize_pem());
    let server = Postgres::start_with_tls(&Certificate { chain: &chain, key: &private });
    let tls = |roots: rustls::RootCertStore| {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(ring);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let mut options = node("tls");
    options.url =
        format!("postgres://postgres@localhost:{}/postgres?sslmode=require", server.port());
    let error = migrate(&options).await.unwrap_err().to_string();
    assert!(error.contains("it requires TLS, for which no roots are given"), "{error}");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let mut wrong = rustls::RootCertStore::empty();
    wrong.add(other.cert.der().clone()).unwrap();
    options.tls = Some(tls(wrong));
    let error = migrate(&options).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    options.tls = Some(tls(roots));
    for mode in ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-full"] {
        options.url = format!("postgres://postgres@localhost:{}/postgres{mode}", server.port());
        options.owner = new_name("node");
        migrate(&options).await.unwrap();
        let store = Store::open(options.clone()).await.unwrap();
        store.commit(vec![create(record(&new_name("thread"), 1))]).await.unwrap();
    }
}

/// Roots that trust nobody.
fn no_roots() -> Option<Arc<rustls::ClientConfig>> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(ring);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(rustls::RootCertStore::empty());
    Some(Arc::new(builder.with_no_client_auth()))
}

#[tokio::test]
async fn a_server_that_turns_tls_off_is_refused() {
    let mut options = node(&new_schema().await);
    options.tls = no_roots();
    for mode in ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-full"] {
        options.url = format!("{}{mode}", server().url());
        let error = Store::open(options.clone()).await.unwrap_err().to_string();
        assert!(error.contains("server does not support TLS"), "{mode}: {error}");
    }
    options.url = format!("{}?sslmode=disable", server().url());
    Store::open(options).await.unwrap();
}

/// A folder with a socket that leads to the server.
fn socket() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
    let port = server().port();
    let pass = |mut from: Box<dyn Read + Send>, mut to: Box<dyn Write + Send>| {
        // Either side may end the connection.
        std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            pass(Box::new(client.try_clone().unwrap()), Box::new(server.try_clone().unwrap()));
            pass(Box::new(server), Box::new(client));
        }
    });
    dir
}

#[tokio::test]
async fn a_socket_of_this_machine_needs_no_tls() {
    let mut options = node(&new_schema().await);
    let dir = socket();
    let path = dir.path().display().to_string().replace('/', "%2F");
    for (tls, mode) in [(no_roots(), ""), (no_roots(), "?sslmode=verify-full"), (None, "")] {
        options.url = format!("postgres://postgres@{path}/postgres{mode}");
        (options.tls, options.owner) = (tls, new_name("node"));
        let store = Store::open(options.clone()).await.unwrap();
        store.commit(vec![create(record(&new_name("thread"), 1))]).await.unwrap();
    }
}

#[tokio::test]
async fn a_schema_may_have_any_name() {
    let schema = new_name("a#b\"c");
    migrate(&node(&schema)).await.unwrap();
    let store = Store::open(node(&schema)).await.unwrap();
    store.commit(listed(record("a", 1))).await.unwrap();
    assert_eq!(store.threads(ListQuery::default()).await.unwrap().rows.len(), 1);
}

/// Letters that cannot be compressed.
fn long(count: u64) -> String {
    let letters = |number: u64| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (1..=count / 16).map(letters).collect()
}

#[tokio::test]
async fn threads_of_a_folder_with_a_long_path_are_listed() {
    let store = Store::open(node(&new_schema().await)).await.unwrap();
    let deep = format!("/\u{10}é/{}", long(4000));
    for (id, cwd) in [("a", deep.clone()), ("b", format!("{deep}/b")), ("c", "/c".to_owned())] {
        store.commit(listed(ThreadRecord { cwd, ..record(id, 1) })).await.unwrap();
    }
    let query = ListQuery { limit: 9, cwds: vec![deep, "/c".into()], ..ListQuery::default() };
    let found = store.threads(query).await.unwrap().rows;
    let mut ids: Vec<_> = found.iter().map(|row| row.record.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "c"]);
}

#[tokio::test]
async fn an_id_that_is_too_long_is_named_as_the_reason() {
    let store = Store::open(node(&new_schema().await)).await.unwrap();
    store.commit(vec![create(record("a", 1)), start("a", "t", 1)]).await.unwrap();
    let item = crate::common::put("a", "t", &long(4000), "{}");
    let error = store.commit(vec![item]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("ids have at most 2.6 kB there"), "{error}");
    store.commit(vec![crate::common::append("a", Some("t"), &["1"])]).await.unwrap();
}

#[tokio::test]
async fn a_new_index_of_a_schema_in_use_delays_no_write() {
    let own = Postgres::start();
    let mut options = node("used");
    options.url = own.url();
    migrate(&options).await.unwrap();
    let store = Store::open(options.clone()).await.unwrap();
    let connect = async || {
        let (client, connection) =
            tokio_postgres::connect(&own.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    let (client, writing) = (connect().await, connect().await);
    client.batch_execute("CREATE EXTENSION pg_trgm").await.unwrap();
    // A write that the index has to wait for.
    writing.batch_execute("BEGIN; LOCK TABLE used.thread IN ROW EXCLUSIVE MODE").await.unwrap();
    let migration = tokio::spawn({
        let options = options.clone();
        async move { migrate(&options).await }
    });
    let waits = "SELECT 1 FROM pg_stat_activity
                 WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX%'";
    while client.query(waits, &[]).await.unwrap().is_empty() {
        assert!(!migration.is_finished());
    }
    store.commit(listed(record("a", 1))).await.unwrap();
    assert!(!migration.is_finished());
    writing.batch_execute("COMMIT").await.unwrap();
    assert!(migration.await.unwrap().unwrap().has_trigrams);
    // One whose creation was ended is created again.
    let end = "UPDATE pg_index SET indisvalid = FALSE
               WHERE indexrelid = 'used.thread_searched'::regclass";
    client.batch_execute(end).await.unwrap();
    assert!(migrate(&options).await.unwrap().has_trigrams);
    let valid = "SELECT 1 FROM pg_index
                 WHERE indexrelid = 'used.thread_searched'::regclass AND indisvalid";
    assert_eq!(client.query(valid, &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named_without_its_password() {
    for (url, expected) in [
        ("http://x", "the URL of the thread store cannot be used"),
        ("postgres://me:secret@127.0.0.1:1/db", "PostgreSQL at 127.0.0.1:1/db"),
        (&*format!("{}x?user=nobody", server().url()), "does not exist"),
    ] {
        let mut options = node("s");
        options.url = url.to_owned();
        let error = Store::open(options.clone()).await.unwrap_err();
        let text = format!("{error} {error:?} {options:?}");
        assert!(text.contains(expected) && !text.contains("secret"), "{text}");
    }
}
