//! A node's administration without a listener: on a SQLite file of its own, or on a database of its
//! own in a PostgreSQL server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::{Body, Bytes};
use gateway_admin::Services;
use gateway_policy::environment::{Clock, Random};
use gateway_policy::settings::{LoadContext, Secret, Settings, StoreUrl};
use gateway_store::database::Database;
use gateway_store::directory::Directory;
use gateway_store::ledger::Ledger;
use gateway_store::records::audit::Act;
use gateway_store::records::organizations;
use http_body_util::BodyExt;
use hyper::{HeaderMap, Request, Response};
use serde_json::Value;
use tower::ServiceExt;

/// The admin token.
pub(crate) const TOKEN: &str = "admin-token-of-the-tests";
/// 2023-11-14 22:13:20 UTC.
pub(crate) const NOW: u64 = 1_700_000_000;

const CONFIGURATION: &str = r#"
[regions]
prefixes = ["eu"]
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
base_urls = { eu = "http://127.0.0.1:9/v1" }
[models."big-2026-08-01"]
aliases = ["big"]
shared_limit = "family"
price = { input = 1.25, cached_input = 0.125, output = 10.0 }
[models.small]
free = true
[models."other-1"]
free = true
[tiers.free.limits.big]
rpm = 3
tpm = 40000
ipm = 5
[tiers.free.limits.family]
tpm = 30000
[tiers.2.limits.big]
rpm = 500
"#;

/// A controlled clock, and a random source.
#[derive(Debug)]
pub(crate) struct TestSources(pub(crate) AtomicU64);

impl Clock for TestSources {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn steady(&self) -> ratelimit::SteadyTime {
        ratelimit::SteadyTime::from_micros(self.0.load(Ordering::Relaxed))
    }
}

impl Random for TestSources {
    fn fill(&self, bytes: &mut [u8]) {
        rand::Rng::fill(&mut rand::rng(), bytes);
    }
}

pub(crate) struct Node {
    pub(crate) url: StoreUrl,
    pub(crate) sources: Arc<TestSources>,
    pub(crate) database: Arc<Database>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) ledger: Ledger,
    router: Router,
    _folder: Option<tempfile::TempDir>,
}

impl Node {
    pub(crate) async fn sqlite() -> Node {
        let folder = tempfile::tempdir().unwrap();
        let url = StoreUrl::Sqlite(folder.path().join("gateway.db"));
        let sources = Arc::new(TestSources(AtomicU64::new(NOW * 1_000_000)));
        Node { _folder: Some(folder), ..Node::open(url, sources).await }
    }

    /// Creates the database of that name for a new node.
    pub(crate) async fn postgres(server: &str, name: &str) -> Node {
        let (client, connection) =
            tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        let sources = Arc::new(TestSources(AtomicU64::new(NOW * 1_000_000)));
        Node::open(StoreUrl::Postgres(format!("{base}/{name}")), sources).await
    }

    /// Another node on the same store.
    pub(crate) async fn another(&self) -> Node {
        Node::open(self.url.clone(), Arc::clone(&self.sources)).await
    }

    async fn open(url: StoreUrl, sources: Arc<TestSources>) -> Node {
        let database = Arc::new(Database::open(&url).await.unwrap());
        let act = Act::of_gateway(sources.now(), &*sources);
        organizations::ensure_default(&database, act).await.unwrap();
        let clock = Arc::clone(&sources) as Arc<dyn Clock>;
        let directory = Directory::open(Arc::clone(&database), clock, 1000).await.unwrap();
        let mut writer = [0; 8];
        sources.fill(&mut writer);
        let writer = gateway_store::records::ids::hex(&writer).into();
        let ledger = Ledger::start(Arc::clone(&database), writer);
        let around = LoadContext { environment: &|_| None, folder: Path::new("/"), offline: "" };
        let mut settings =
            Settings::read(CONFIGURATION, Path::new("gateway.toml"), around).unwrap();
        settings.admin_token = Some(Secret::new(TOKEN));
        let router = gateway_admin::router(Services {
            database: Arc::clone(&database),
            directory: Arc::clone(&directory),
            ledger: ledger.clone(),
            settings: Arc::new(ArcSwap::from_pointee(settings)),
            clock: Arc::clone(&sources) as Arc<dyn Clock>,
            random: Arc::clone(&sources) as Arc<dyn Random>,
            limits: Arc::new(ratelimit::Limits::Off),
            sign_ins: Arc::new(gateway_admin::SignIns::new(|_, _| {})),
        });
        Node { url, sources, database, directory, ledger, router, _folder: None }
    }

    /// An act of the gateway itself, for changes of records.
    pub(crate) fn act(&self) -> Act {
        Act::of_gateway(self.sources.now(), &*self.sources)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> (u16, Bytes) {
        let (status, _, body) = self.send_page(request).await;
        (status, body)
    }

    /// The same with the headers of the response.
    pub(crate) async fn send_page(&self, request: Request<Body>) -> (u16, HeaderMap, Bytes) {
        let response: Response<Body> = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes())
    }

    /// `call("POST /path", token, body)`; a null body sends none.
    pub(crate) async fn call(&self, what: &str, token: &str, body: Value) -> (u16, Value) {
        self.call_as(what, token, None, body).await
    }

    /// The same, on behalf of an organization.
    pub(crate) async fn call_as(
        &self,
        what: &str,
        token: &str,
        organization: Option<&str>,
        body: Value,
    ) -> (u16, Value) {
        let (method, path) = what.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(organization) = organization {
            request = request.header("openai-organization", organization);
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let (status, body) = self.send(request.body(body).unwrap()).await;
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Calls as the administrator; must succeed.
    pub(crate) async fn ask(&self, what: &str, body: Value) -> Value {
        let (status, answer) = self.call(what, TOKEN, body).await;
        assert_eq!(status, 200, "{what}: {answer}");
        answer
    }

    /// Calls as the administrator; must fail with that status, code and parameter.
    pub(crate) async fn refused(&self, what: &str, body: Value, expect: (u16, &str, Option<&str>)) {
        let (status, answer) = self.call(what, TOKEN, body.clone()).await;
        let error = &answer["error"];
        let (code, param) = (error["code"].as_str().unwrap_or(""), error["param"].as_str());
        assert_eq!((status, code, param), expect, "{what} {body}: {answer}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{answer}");
    }

    /// Creates a project and returns its id.
    pub(crate) async fn project(&self) -> String {
        let body = serde_json::json!({ "name": "a project" });
        text(&self.ask("POST /v1/organization/projects", body).await["id"])
    }

    /// Creates a key of that project: its id and text.
    pub(crate) async fn key(&self, project: &str) -> (String, String) {
        let path = format!("POST /v1/organization/projects/{project}/api_keys");
        let key = self.ask(&path, serde_json::json!({ "name": "a key" })).await;
        (text(&key["id"]), text(&key["value"]))
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}
