//! Tests of what the directory caches, forgets and follows.

#![allow(clippy::unwrap_used)]
use std::sync::atomic::AtomicU64;

use super::*;
use crate::ErrorKind;
use crate::records::audit::Act;
use crate::records::keys::NewKey;
use crate::records::{organizations, projects, responses, spend};
use gateway_policy::environment::Random;
use gateway_policy::settings::{Secret, StoreUrl};
use gateway_policy::tenants::{ModelPermissions, PermissionMode};

/// The wall clock, and how far the monotonic clock lags.
#[derive(Debug)]
struct TestSources(AtomicU64, AtomicU64);

impl Clock for TestSources {
    fn now(&self) -> Micros {
        self.0.load(Ordering::Relaxed)
    }

    fn steady(&self) -> SteadyTime {
        let behind = self.1.load(Ordering::Relaxed);
        SteadyTime::from_micros(self.0.load(Ordering::Relaxed) - behind)
    }
}

impl Random for TestSources {
    fn fill(&self, bytes: &mut [u8]) {
        rand::Rng::fill(&mut rand::rng(), bytes);
    }
}

fn act(sources: &TestSources) -> Act {
    Act::of_gateway(sources.now(), sources)
}

struct Fixture {
    sources: Arc<TestSources>,
    url: StoreUrl,
    database: Arc<Database>,
    project: Box<str>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources =
            Arc::new(TestSources(AtomicU64::new(1_700_000_000_000_000), AtomicU64::new(0)));
        let url = StoreUrl::Sqlite(folder.path().join("gateway.db"));
        let database = Arc::new(Database::open(&url).await.unwrap());
        organizations::ensure_default(&database, act(&sources)).await.unwrap();
        let made = projects::create(&database, "org-default", "p", None, act(&sources), &*sources);
        let project = made.await.unwrap().unwrap().project.id;
        Self { sources, url, database, project, _folder: folder }
    }

    async fn node(&self) -> Arc<Directory> {
        let database = Arc::new(Database::open(&self.url).await.unwrap());
        let clock = Arc::clone(&self.sources) as Arc<dyn Clock>;
        Directory::open(database, clock, 1000).await.unwrap()
    }

    async fn key(&self) -> (keys::Key, Secret) {
        let new = NewKey {
            project: &self.project,
            service_account: None,
            name: "k",
            expires_at: None,
            models: None,
        };
        let made = keys::create(&self.database, new, act(&self.sources), &*self.sources).await;
        made.unwrap().unwrap()
    }
}

/// A clock that is set forward by a year deletes nothing before it has stood there for a day.
#[tokio::test]
async fn upkeep_does_not_believe_a_year_at_once() {
    const DAY: u64 = 86_400_000_000;
    let fixture = Fixture::new().await;
    let node = fixture.node().await;
    let owner = responses::ObjectOwner {
        project: fixture.project.clone(),
        upstream: "main".into(),
        backend: "".into(),
    };
    let now = seconds(fixture.sources.now());
    responses::insert(&fixture.database, "resp_1", &owner, now).await.unwrap();
    let is_kept = async || {
        node.keep_up().await.unwrap();
        responses::find(&fixture.database, "resp_1", now).await.unwrap().is_some()
    };
    let step = 365 * DAY;
    fixture.sources.0.fetch_add(step, Ordering::Relaxed);
    fixture.sources.1.fetch_add(step, Ordering::Relaxed);
    assert!(is_kept().await);
    fixture.sources.0.fetch_add(DAY - 1, Ordering::Relaxed);
    assert!(is_kept().await);
    fixture.sources.0.fetch_add(1, Ordering::Relaxed);
    assert!(!is_kept().await, "it is the time");
}

#[tokio::test]
async fn a_cached_key_resolves_consistently_without_the_store() {
    let fixture = Fixture::new().await;
    let (node, (key, text)) = (fixture.node().await, fixture.key().await);
    let text = text.reveal();
    assert!(node.cached(text).is_none());
    let caller = node.caller(text).await.unwrap();
    assert_eq!((&caller.key, &caller.project.id), (&key.id, &fixture.project));
    assert!(Arc::ptr_eq(&caller, &node.cached(text).unwrap().unwrap()));
    let other = node.caller(fixture.key().await.1.reveal()).await.unwrap();
    assert!(Arc::ptr_eq(&caller.project, &other.project), "projects are shared");
    node.write_last_used().await.unwrap();
    let stored = keys::get(&fixture.database, &fixture.project, &key.id).await.unwrap().unwrap();
    assert_eq!(stored.last_used_at, Some(seconds(fixture.sources.now())));
}

#[tokio::test]
async fn changes_reach_other_nodes_within_a_second() {
    let fixture = Fixture::new().await;
    let (node, (key, text)) = (fixture.node().await, fixture.key().await);
    let text = text.reveal();
    let before = node.caller(text).await.unwrap();
    let scope = spend::Scope::Organization("org-default");
    spend::set_hard(&fixture.database, scope, Some(500), act(&fixture.sources))
        .await
        .unwrap()
        .unwrap();
    let changed = within_a_second(|| {
        let caller = node.cached(text).unwrap().unwrap();
        (caller.organization.spend.hard == Some(5_000_000)).then_some(caller)
    });
    let after = changed.await;
    assert!(!Arc::ptr_eq(&before, &after) && Arc::ptr_eq(&before.project, &after.project));
    keys::revoke(&fixture.database, &fixture.project, &key.id, act(&fixture.sources))
        .await
        .unwrap()
        .unwrap();
    within_a_second(|| node.cached(text).is_none().then_some(())).await;
    assert_eq!(node.caller(text).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    let (_, text) = fixture.key().await;
    node.caller(text.reveal()).await.unwrap();
    projects::archive(&fixture.database, "org-default", &fixture.project, act(&fixture.sources))
        .await
        .unwrap();
    within_a_second(|| node.cached(text.reveal()).unwrap().err()).await;
}

async fn within_a_second<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = std::time::Instant::now() + Duration::from_secs(1);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(std::time::Instant::now() < until, "it took longer than a second");
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep the other node's poll
    }
}

#[tokio::test]
async fn grace_and_expiry_of_a_key_need_no_store() {
    let fixture = Fixture::new().await;
    let (node, (key, text)) = (fixture.node().await, fixture.key().await);
    let (database, sources) = (&fixture.database, &fixture.sources);
    node.caller(text.reveal()).await.unwrap();
    let rotated = keys::rotate(
        database,
        &fixture.project,
        &key.id,
        5_000_000,
        act(&fixture.sources),
        &**sources,
    );
    let (_, new) = rotated.await.unwrap().unwrap();
    node.catch_up().await.unwrap();
    node.caller(text.reveal()).await.unwrap();
    node.caller(new.reveal()).await.unwrap();
    sources.0.fetch_add(4_999_999, Ordering::Relaxed);
    node.caller(text.reveal()).await.unwrap();
    sources.0.fetch_add(1, Ordering::Relaxed);
    assert_eq!(node.caller(text.reveal()).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    node.caller(new.reveal()).await.unwrap();
}

#[tokio::test]
async fn without_the_store_known_keys_work_and_others_are_unavailable() {
    let fixture = Fixture::new().await;
    let (node, (_, text), (_, other)) =
        (fixture.node().await, fixture.key().await, fixture.key().await);
    node.caller(text.reveal()).await.unwrap();
    let away = Arc::new(Database::open(&fixture.url).await.unwrap());
    let take_away = crate::database::Statement::new("ALTER TABLE keys RENAME TO gone", []);
    away.transact(vec![take_away]).await.unwrap();
    let refused = node.caller(other.reveal()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Failed, "the key is not called unknown: {refused}");
    node.caller(text.reveal()).await.unwrap();
    let back = crate::database::Statement::new("ALTER TABLE gone RENAME TO keys", []);
    away.transact(vec![back]).await.unwrap();
    node.caller(other.reveal()).await.unwrap();
}

#[tokio::test]
async fn unknown_keys_are_cached_for_a_second_and_malformed_keys_are_not_looked_up() {
    let fixture = Fixture::new().await;
    let node = fixture.node().await;
    let text = key_text::new(key_text::Kind::Project, &*fixture.sources);
    assert_eq!(node.caller(text.reveal()).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    assert!(node.is_unknown(&key_text::hash(text.reveal())));
    fixture.sources.0.fetch_add(1_000_000, Ordering::Relaxed);
    assert!(!node.is_unknown(&key_text::hash(text.reveal())));
    for nonsense in ["", "sk-proj-", "sk-proj-abc", "Bearer x", "\u{e9}"] {
        assert_eq!(node.caller(nonsense).await.unwrap_err().kind(), ErrorKind::UnknownKey);
        assert!(!node.is_unknown(&key_text::hash(nonsense)));
    }
    let admin = key_text::new(key_text::Kind::Admin, &*fixture.sources);
    assert_eq!(node.caller(admin.reveal()).await.unwrap_err().kind(), ErrorKind::UnknownKey);
}

#[tokio::test]
async fn the_cache_is_bounded_and_concurrent_misses_share_one_lookup() {
    let fixture = Fixture::new().await;
    let node = fixture.node().await;
    let (_, text) = fixture.key().await;
    let asks = (0..100).map(|_| node.caller(text.reveal()));
    let callers = futures_util::future::join_all(asks).await;
    let first = callers[0].as_ref().unwrap();
    assert!(callers.iter().all(|caller| Arc::ptr_eq(caller.as_ref().unwrap(), first)));
    assert!(lock(&node.loading).is_empty());
    let small = Directory::open(
        Arc::clone(&fixture.database),
        Arc::clone(&fixture.sources) as Arc<dyn Clock>,
        SHARDS,
    );
    let small = small.await.unwrap();
    for _ in 0..200 {
        small.caller(fixture.key().await.1.reveal()).await.unwrap();
    }
    assert!(small.len() <= SHARDS);
}

#[tokio::test]
async fn a_node_that_missed_changes_clears_its_cache() {
    let fixture = Fixture::new().await;
    let (node, (key, text)) = (fixture.node().await, fixture.key().await);
    node.caller(text.reveal()).await.unwrap();
    let guard = node.applied.lock().await;
    keys::revoke(&fixture.database, &fixture.project, &key.id, act(&fixture.sources))
        .await
        .unwrap()
        .unwrap();
    crate::records::changes::prune(&fixture.database, i64::MAX).await.unwrap();
    drop(guard);
    node.catch_up().await.unwrap();
    assert!(node.is_empty());
    assert_eq!(node.caller(text.reveal()).await.unwrap_err().kind(), ErrorKind::UnknownKey);
}

#[tokio::test]
async fn models_change_on_other_nodes_like_revoked_keys() {
    let fixture = Fixture::new().await;
    let (key, text) = fixture.key().await;
    let node = fixture.node().await;
    let list = |mode, name: &str| ModelPermissions::new(mode, vec![name.into()]);
    let seen = async || {
        node.catch_up().await.unwrap();
        let caller = node.caller(text.reveal()).await.unwrap();
        (caller.project.models.clone(), caller.models.clone())
    };
    assert_eq!(seen().await, (None, None));
    let (database, project) = (&fixture.database, &fixture.project);
    let of_project = list(PermissionMode::Deny, "a");
    projects::set_models(
        database,
        "org-default",
        project,
        Some(&of_project),
        act(&fixture.sources),
    )
    .await
    .unwrap()
    .unwrap();
    assert_eq!(seen().await, (Some(of_project.clone()), None));
    let of_key = list(PermissionMode::Allow, "b");
    keys::set_models(database, project, &key.id, Some(&of_key), act(&fixture.sources))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seen().await, (Some(of_project), Some(of_key.clone())));
    // Work on behalf of the key has its list too.
    let caller = node.on_behalf(&key.id, project).await.unwrap();
    assert_eq!(caller.models, Some(of_key.clone()));
    projects::set_models(database, "org-default", project, None, act(&fixture.sources))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seen().await, (None, Some(of_key)));
    keys::set_models(database, project, &key.id, None, act(&fixture.sources))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seen().await, (None, None));
    let missing = keys::set_models(database, "proj_other", &key.id, None, act(&fixture.sources))
        .await
        .unwrap();
    assert_eq!(missing, None);
}

#[tokio::test]
async fn keys_of_an_earlier_version_are_found_once_the_directory_is_open() {
    let fixture = Fixture::new().await;
    fixture.key().await;
    let sql = "UPDATE keys SET search_text = NULL, organization = NULL";
    fixture.database.transact(vec![crate::database::Statement::new(sql, [])]).await.unwrap();
    let _node = fixture.node().await;
    let sql = "SELECT id FROM keys WHERE search_text IS NULL OR organization IS NULL";
    while !fixture
        .database
        .query(crate::database::Statement::new(sql, []))
        .await
        .unwrap()
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
}
