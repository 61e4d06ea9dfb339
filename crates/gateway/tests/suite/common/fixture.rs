//! A gateway in this process with a stopped clock and filled organizations, and a client that reads
//! one response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gateway::Gateway;
use gateway_policy::environment::Environment;
use gateway_policy::environment::{Clock, Random};
use gateway_policy::plan::{Demand, Plan};
use gateway_policy::settings::{LoadContext, Settings};
use gateway_policy::tenants::{Caller, Organization, Project, ProjectLimits, Tier};
use gateway_store::database::{Statement, Value};
use gateway_store::ledger::{Endpoint, Entry};
use gateway_store::records::audit::Act;
use gateway_store::records::{
    admin_keys, keys, organizations, payments, project_limits, projects, spend,
};
use ratelimit::Decision;
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "an-admin-token-of-this-test";
/// 2026-11-19 16:04:30 UTC.
pub(crate) const NOW: u64 = 1_795_104_270_000_000;
const HOUR: u64 = 3_600_000_000;

const SETTINGS: &str = r#"
[store]
url = "STORE"
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models."atlas-2026-08-01"]
aliases = ["atlas"]
shared_limit = "atlas-family"
long_context_tokens = 128000
price = { input = 1.25, cached_input = 0.125, output = 10.0 }
[models."atlas-2026-02-10"]
shared_limit = "atlas-family"
shutdown_date = "2027-02-26"
successor = "atlas-2026-08-01"
price = { input = 2.0, output = 12.0 }
[models."atlas-mini-2026-06-15"]
aliases = ["atlas-mini"]
price = { input = 0.2, cached_input = 0.02, output = 0.8 }
[models."canvas-2"]
price = { input = 5.0, output = 40.0 }
[models."scribe-1"]
price = { input = 3.0, output = "free" }
[models."vector-small"]
price = { input = 0.02, output = "free" }
[tiers.2.limits.atlas]
rpm = 600
rpd = 40000
tpm = 900000
long_context_tpm = 300000
batch_queue_tokens = 5000000
[tiers.2.limits.atlas-family]
rpm = 1000
tpm = 1200000
[tiers.2.limits.atlas-mini]
rpm = 3000
tpm = 4000000
[tiers.2.limits.canvas-2]
rpm = 60
ipm = 20
[tiers.2.limits.scribe-1]
rpm = 100
audio_minutes_per_minute = 30
"#;

struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn steady(&self) -> ratelimit::SteadyTime {
        ratelimit::SteadyTime::from_micros(self.0.load(Ordering::Relaxed))
    }
}

struct ThreadRandom;

impl Random for ThreadRandom {
    fn fill(&self, bytes: &mut [u8]) {
        rand::Rng::fill(&mut rand::rng(), bytes);
    }
}

/// A gateway with data to show.
pub(crate) struct Fixture {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    clock: Arc<ManualClock>,
    _folder: TempDir,
}

/// An organization with data.
pub(crate) struct Tenant {
    pub(crate) organization: Organization,
    pub(crate) project: Project,
    /// An admin key.
    pub(crate) admin: String,
    pub(crate) admin_id: Box<str>,
    /// The text of the project's key.
    pub(crate) key: String,
}

impl Fixture {
    /// Creates one with an admin token.
    pub(crate) async fn new() -> Self {
        Self::with("[admin]\ntoken_file = \"token\"\n", None).await
    }

    /// With these lines before the other configuration; `store` replaces its own store.
    pub(crate) async fn with(more: &str, store: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let file = format!("sqlite://{}", folder.path().join("gateway.db").display());
        let text = SETTINGS.replace("STORE", store.unwrap_or(&file));
        let around = LoadContext {
            environment: &|_| None,
            folder: folder.path(),
            offline: "http://127.0.0.1:9/v1",
        };
        let settings = Settings::read(&format!("{more}{text}"), Path::new("g.toml"), around);
        let clock = Arc::new(ManualClock(AtomicU64::new(NOW)));
        let environment =
            Environment { clock: Arc::clone(&clock) as _, random: Arc::new(ThreadRandom) };
        let gateway = Gateway::open(settings.unwrap(), folder.path(), environment).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving =
            gateway::serve(Arc::clone(&gateway), listener, Arc::default(), std::future::pending());
        tokio::spawn(serving);
        Self { gateway, address, clock, _folder: folder }
    }

    pub(crate) fn advance(&self, microseconds: u64) {
        self.clock.0.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// Creates an organization of that name, with a project and its key.
    pub(crate) async fn tenant(&self, name: &str) -> Tenant {
        let (database, chance) = (self.gateway.database(), &ThreadRandom);
        let then = || Act::of_gateway(self.gateway.clock().now() - 200 * 24 * HOUR, chance);
        let act = || self.gateway.act();
        let made = organizations::create(database, name, Tier::Two, then(), chance).await.unwrap();
        payments::create(
            database,
            &made.id,
            payments::NewPayment { amount_cents: 6_500, reason: None },
            &[(Tier::One, 500), (Tier::Two, 5_000)],
            act(),
            chance,
        )
        .await
        .unwrap();
        let organization = organizations::get(database, &made.id).await.unwrap().unwrap();
        let name = format!("{name} production");
        let project =
            projects::create(database, &organization.id, &name, None, then(), chance).await;
        let project = project.unwrap().unwrap().project;
        let (admin, text) =
            admin_keys::create(database, &organization.id, "admin", None, act(), chance)
                .await
                .unwrap()
                .unwrap();
        let key = self.key(&project.id, "Production server").await;
        Tenant { organization, project, admin: text.reveal().to_owned(), admin_id: admin.id, key }
    }

    pub(crate) async fn key(&self, project: &str, name: &str) -> String {
        let new =
            keys::NewKey { project, service_account: None, name, expires_at: None, models: None };
        let act = self.gateway.act();
        let made = keys::create(self.gateway.database(), new, act, &ThreadRandom).await;
        made.unwrap().unwrap().1.reveal().to_owned()
    }

    /// Adds spend limits, project limits, live use, and a month of usage.
    pub(crate) async fn fill(&self, tenant: &Tenant) {
        let (database, act) = (self.gateway.database(), || self.gateway.act());
        let (organization, project) = (&*tenant.organization.id, &*tenant.project.id);
        let scope = spend::Scope::Organization(organization);
        spend::set_hard(database, scope, Some(40_000), act()).await.unwrap();
        spend::add_alert(database, scope, 10_000, "null", act(), &ThreadRandom)
            .await
            .unwrap()
            .unwrap();
        spend::add_alert(database, scope, 30_000, "null", act(), &ThreadRandom)
            .await
            .unwrap()
            .unwrap();
        let scope = spend::Scope::Project(project);
        spend::set_hard(database, scope, Some(25_000), act()).await.unwrap();
        let limits = ProjectLimits {
            max_requests_per_1_minute: Some(200),
            max_tokens_per_1_minute: Some(800_000),
            ..ProjectLimits::default()
        };
        project_limits::set(database, project, "atlas", &limits, act()).await.unwrap().unwrap();
        self.record(tenant).await;
        self.queue(tenant, &format!("batch_1_{organization}"), 1_200_000).await;
        self.queue(tenant, &format!("batch_2_{organization}"), 650_000).await;
        let caller = self.gateway.directory().caller(&tenant.key).await.unwrap();
        self.used(&caller, "atlas", 190, 1_500, false).await;
        self.used(&caller, "atlas", 2, 130_000, true).await;
        self.used(&caller, "atlas-2026-02-10", 1, 610_000, false).await;
        self.used(&caller, "atlas-mini", 400, 2_000, false).await;
        self.used(&caller, "canvas-2", 19, 100, false).await;
        self.used(&caller, "scribe-1", 12, 0, false).await;
    }

    /// Adds a month of usage.
    pub(crate) async fn record(&self, tenant: &Tenant) {
        let caller = self.gateway.directory().caller(&tenant.key).await.unwrap();
        self.recorded(&caller, self.gateway.clock().now());
        self.gateway.ledger().flush(std::time::Duration::from_secs(20)).await.unwrap();
    }

    async fn used(&self, caller: &Caller, model: &str, requests: u32, tokens: u64, long: bool) {
        let settings = self.gateway.settings();
        let model = settings.catalog.find(model).unwrap();
        let plan = Plan::new(caller, model, &settings);
        let demand = Demand {
            tokens,
            long_context: long,
            images: u64::from(&*model.name == "canvas-2"),
            audio_milliseconds: if &*model.name == "scribe-1" { 95_000 } else { 0 },
            cost: 0,
        };
        let clock = self.gateway.clock();
        for _ in 0..requests {
            let (draws, now) = (plan.draws(&demand, clock.now()), clock.steady());
            let number = self.gateway.next_request();
            let id = &*caller.organization.id;
            let limits = self.gateway.limits();
            let decision = limits.reserve(id, (number, 0), &draws, now).await.unwrap();
            assert!(matches!(decision, Decision::Admitted(_)), "{} {decision:?}", model.name);
            self.gateway.limits().settle(id, number, &vec![None; draws.len()], now);
        }
    }

    /// Adds a batch with this many queued tokens.
    async fn queue(&self, tenant: &Tenant, id: &str, tokens: u64) {
        let sql = "INSERT INTO batches (id, organization, project, api_key, endpoint, model, \
                   input_file, status, queued_tokens, total, completed, failed, created_at, \
                   expires_at, lease_until) VALUES ($1, $2, $3, 'key_1', '/v1/responses', 'atlas', \
                   'file-1', 'in_progress', $4, 9, 0, 0, $5, $6, 0)";
        let now = self.gateway.clock().now() / 1_000_000;
        let (organization, project) = (&tenant.organization.id, &tenant.project.id);
        let values: [Value; 6] = [
            id.into(),
            organization.into(),
            project.into(),
            tokens.into(),
            now.into(),
            (now + 86_400).into(),
        ];
        self.gateway.database().transact(vec![Statement::new(sql, values)]).await.unwrap();
    }

    /// Usage with a pattern of nights and weekends.
    fn recorded(&self, caller: &Caller, now: u64) {
        let models: [(&str, u64, u64); 5] = [
            ("atlas-2026-08-01", 7, 60_000),
            ("atlas-mini-2026-06-15", 11, 22_000),
            ("atlas-2026-02-10", 2, 30_000),
            ("canvas-2", 1, 4_000),
            ("vector-small", 3, 90_000),
        ];
        for hour in 0..30 * 24_u64 {
            let at = now - hour * HOUR;
            let of_day = at / HOUR % 24;
            let busy =
                [1, 1, 1, 1, 1, 2, 4, 7, 12, 16, 18, 17, 14, 16, 18, 19, 17, 13, 9, 6, 4, 3, 2, 1]
                    [of_day as usize];
            // Day 0 was a Thursday.
            let weekend = (at / HOUR / 24 + 3) % 7 >= 5;
            let busy = if weekend { busy / 4 } else { busy } * (100 - hour / 12) / 100;
            for (model, weight, tokens) in models {
                let input = busy * tokens * weight / 9;
                let output = input / if model == "vector-small" { u64::MAX } else { 5 };
                self.gateway.ledger().record(Entry {
                    at,
                    request: format!("req_{hour}_{model}").into(),
                    organization: caller.organization.id.clone(),
                    project: caller.project.id.clone(),
                    key: caller.key.clone(),
                    model: model.into(),
                    backend: "main".into(),
                    endpoint: Endpoint::Completions,
                    status: 200,
                    ended: gateway_store::ledger::Ended::Complete,
                    batch: false,
                    input_tokens: input,
                    cached_tokens: input / 3,
                    cache_write_tokens: 0,
                    cache_write_1h_tokens: 0,
                    output_tokens: output,
                    web_searches: 0,
                    images: u64::from(model == "canvas-2") * busy,
                    audio_milliseconds: 0,
                    cost: input * weight / 14,
                });
            }
        }
    }

    /// `GET`, with headers.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, "").await
    }

    /// Posts a form.
    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut headers = headers.to_vec();
        headers.push(("content-type", "application/x-www-form-urlencoded"));
        self.send("POST", path, &headers, body).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\
             content-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{body}"));
        let address = self.address;
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            Answer::read(&answer)
        })
        .await
        .unwrap()
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }
}
