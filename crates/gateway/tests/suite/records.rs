//! Files, batches and the owners of ids, on an embedded file and on a real PostgreSQL; and the loss
//! of the latter.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::both_stores::on_both_stores;
use crate::common::node::{NOW, Node};
use crate::common::servers;
use gateway_policy::price::{Asked, Price, Rates, TokenPrices, UnitPrice};
use gateway_policy::tenants::{ModelPermissions, PermissionMode, SpendAlert};
use gateway_store::ErrorKind;
use gateway_store::ledger::{self, Ended, Endpoint, Entry};
use gateway_store::records::batches::{self, Batch, Status};
use gateway_store::records::files::{self, File, Purpose};
use gateway_store::records::later_answers::{self, LaterAnswer};
use gateway_store::records::outbox::{self, Message};
use gateway_store::records::responses::ObjectOwner;
use gateway_store::records::{
    Page, batch_lines, keys, owned_objects, projects, responses, service_accounts,
};

const SECOND: u64 = 1_000_000;
const AT: i64 = NOW as i64;

on_both_stores!(
    files_come_back_as_they_went_in,
    a_batch_goes_through_its_states_once,
    no_line_is_run_by_two_nodes,
    lines_of_a_dead_node_are_taken_over,
    ids_belong_to_who_made_them,
    an_answer_that_comes_later_is_claimed_and_settled_once,
    lists_of_models_come_back_as_they_went_in,
    an_alert_is_raised_and_its_message_claimed_by_one_node,
);

async fn an_alert_is_raised_and_its_message_claimed_by_one_node(node: &Node) {
    let other = node.another().await;
    let (one, two) = (&*node.database, &*other.database);
    let now = NOW * SECOND;
    let message = |id: &str| Message {
        id: id.into(),
        body: "{\"a\": \"\u{e9}\"}".into(),
        created_at: now,
        due_at: now,
        attempts: 0,
    };
    let alert = SpendAlert { id: "alert_1".into(), threshold: 10_000 };
    let (first, second) = (message("msg_1"), message("msg_2"));
    let raised = tokio::join!(
        outbox::raise(one, &alert, 24_000, Some(&first)),
        outbox::raise(two, &alert, 24_000, Some(&second)),
    );
    assert!(raised.0.unwrap() != raised.1.unwrap(), "one of both raises it");
    assert!(!outbox::raise(one, &alert, 24_000, None).await.unwrap());
    assert!(outbox::raise(one, &alert, 24_001, None).await.unwrap());
    let raised = SpendAlert { threshold: 20_000, ..alert };
    assert!(outbox::raise(one, &raised, 24_000, None).await.unwrap());
    assert_eq!(outbox::due(one, now - 1, 9).await.unwrap(), []);
    let due = outbox::due(one, now, 9).await.unwrap();
    assert_eq!(due.len(), 1, "a mark that exists has no second message");
    let message = &due[0];
    assert_eq!((&message.body, message.attempts), (&first.body, 0));
    let until = now + 60 * SECOND;
    let claims =
        tokio::join!(outbox::claim(one, message, until), outbox::claim(two, message, until));
    let claims = [claims.0.unwrap(), claims.1.unwrap()];
    assert_eq!(claims.iter().flatten().count(), 1, "one of both sends it");
    let claimed = claims.into_iter().flatten().next().unwrap();
    assert_eq!(outbox::due(one, now, 9).await.unwrap(), []);
    // The claim has lapsed: the node that had it postpones nothing.
    let lapsed = outbox::due(two, until, 9).await.unwrap();
    assert_eq!(lapsed, std::slice::from_ref(&claimed));
    let again = outbox::claim(two, &lapsed[0], until + 1).await.unwrap().unwrap();
    outbox::postpone(one, &claimed, now).await.unwrap();
    assert_eq!(outbox::due(one, until, 9).await.unwrap(), []);
    outbox::postpone(two, &again, now + 5).await.unwrap();
    let due = outbox::due(one, now + 5, 9).await.unwrap();
    assert_eq!((due.len(), due[0].attempts), (1, 2));
    assert!(outbox::delete(one, &due[0]).await.unwrap());
    assert!(!outbox::delete(two, &due[0]).await.unwrap());
}

async fn lists_of_models_come_back_as_they_went_in(node: &Node) {
    let database = &node.database;
    let project = node.project().await;
    let (key, _) = node.key(&project).await;
    let organization = projects::get(database, &project).await.unwrap().unwrap().organization;
    let names = vec!["*".into(), "a \"quoted\" na\u{ef}ve name\n".into()];
    let list = ModelPermissions::new(PermissionMode::Allow, names);
    for list in [Some(&list), None] {
        let set = projects::set_models(database, &organization, &project, list, node.act()).await;
        set.unwrap().unwrap();
        keys::set_models(database, &project, &key, list, node.act()).await.unwrap().unwrap();
        let stored = projects::get(database, &project).await.unwrap().unwrap();
        assert_eq!(stored.project.models.as_ref(), list);
        let stored = keys::get(database, &project, &key).await.unwrap().unwrap();
        assert_eq!(stored.models.as_ref(), list);
        // The list of keys has other columns after those of the key.
        let listed =
            service_accounts::list_keys(database, &project, &Page::first(5)).await.unwrap();
        assert_eq!(listed.items[0].0.models.as_ref(), list);
    }
    let other =
        projects::set_models(database, "org-other", &project, Some(&list), node.act()).await;
    assert_eq!(other.unwrap(), None);
}

async fn files_come_back_as_they_went_in(node: &Node) {
    let file = File {
        id: "file-1".into(),
        project: "proj_1".into(),
        purpose: Purpose::Batch.name().into(),
        filename: "in\0put.jsonl".into(),
        bytes: 0,
        created_at: AT,
        expires_at: Some(AT + 10),
    };
    let database = &node.database;
    files::insert(database, &file).await.unwrap();
    let content: Vec<u8> = (0..600_000_u32).map(|at| (at % 251) as u8).collect();
    let mut start = 0;
    for chunk in content.chunks(files::CHUNK) {
        for _ in 0..2 {
            files::append(database, "file-1", start, chunk).await.unwrap().unwrap();
        }
        start += chunk.len() as u64;
    }
    assert_eq!(files::append(database, "file-1", 7, b"x").await.unwrap(), None, "it has no gaps");
    assert_eq!(files::get(database, "proj_1", "file-1", AT).await.unwrap(), None);
    files::complete(database, "file-1").await.unwrap().unwrap();
    assert_eq!(files::append(database, "file-1", start, b"x").await.unwrap(), None);
    let found = files::get(database, "proj_1", "file-1", AT).await.unwrap().unwrap();
    assert_eq!(found.bytes, 600_000);
    assert_eq!(files::get(database, "proj_2", "file-1", AT).await.unwrap(), None);
    let (mut read, mut at) = (Vec::new(), 0);
    while let Some(chunk) = files::read_at(database, "file-1", at).await.unwrap() {
        read.extend_from_slice(&chunk);
        at = read.len() as u64;
    }
    assert!(read == content);
    let part = files::read_at(database, "file-1", 300_000).await.unwrap().unwrap();
    assert_eq!(part[..10], content[300_000..300_010]);
    let page = Page::first(10);
    let of = async |purpose| files::list(database, "proj_1", purpose, &page).await.unwrap().items;
    assert_eq!(of(Some(Purpose::Batch)).await.len(), 1);
    assert_eq!(of(Some(Purpose::BatchOutput)).await, []);
    assert_eq!(files::get(database, "proj_1", "file-1", AT + 11).await.unwrap(), None);
    assert_eq!(files::prune(database, AT + 11).await.unwrap(), 1);
    assert_eq!(files::read_at(database, "file-1", 0).await.unwrap(), None);
}

fn batch(id: &str) -> Batch {
    Batch {
        id: id.into(),
        organization: "org-default".into(),
        project: "proj_1".into(),
        key: "key_1".into(),
        endpoint: "/v1/responses".into(),
        model: "big".into(),
        input_file: "file-1".into(),
        output_file: None,
        error_file: None,
        status: Status::Validating,
        metadata: Some("{\"a\":\"b\"}".into()),
        errors: None,
        queued_tokens: 100,
        total: 0,
        completed: 0,
        failed: 0,
        created_at: AT,
        expires_at: AT + 86_400,
        in_progress_at: None,
        finalizing_at: None,
        cancelling_at: None,
        ended_at: None,
        output_expires_after: None,
        expiring_at: None,
        usage: batches::Usage::default(),
    }
}

async fn a_batch_goes_through_its_states_once(node: &Node) {
    let database = &node.database;
    for id in ["batch_1", "batch_2"] {
        batches::insert(database, &batch(id), "maker", 0).await.unwrap();
    }
    let (now, until) = (NOW * SECOND, (NOW + 5) * SECOND);
    let mine = batches::claim(database, "me", until, now).await.unwrap().unwrap();
    assert_eq!(mine, batch("batch_1"));
    let other = batches::claim(database, "you", until, now).await.unwrap().unwrap();
    assert_eq!(&*other.id, "batch_2");
    assert_eq!(batches::claim(database, "you", until, now).await.unwrap(), None);
    assert_eq!(batches::renew(database, "batch_1", "you", until).await.unwrap(), None);
    let step = async |from: &[Status], to, outcome: &batches::Outcome<'_>| {
        batches::advance(database, "batch_1", from, to, outcome, AT + 1).await.unwrap()
    };
    let nothing = batches::Outcome::default();
    step(&[Status::Validating], Status::InProgress, &nothing).await.unwrap();
    assert_eq!(step(&[Status::Validating], Status::InProgress, &nothing).await, None);
    step(&[Status::InProgress], Status::Finalizing, &nothing).await.unwrap();
    let outcome = batches::Outcome { output_file: Some("file-2"), ..nothing };
    step(&[Status::Finalizing, Status::Cancelling], Status::Completed, &outcome).await.unwrap();
    let ended = batches::get(database, "proj_1", "batch_1").await.unwrap().unwrap();
    let expect = Batch {
        status: Status::Completed,
        output_file: Some("file-2".into()),
        in_progress_at: Some(AT + 1),
        finalizing_at: Some(AT + 1),
        ended_at: Some(AT + 1),
        ..batch("batch_1")
    };
    assert_eq!(ended, expect);
    assert_eq!(batches::renew(database, "batch_1", "me", until).await.unwrap(), None);
    // Any node can take an expired lease; no node takes a batch that has ended.
    let late = (NOW + 6) * SECOND;
    let again = batches::claim(database, "me", late + SECOND, late).await.unwrap().unwrap();
    assert_eq!(&*again.id, "batch_2");
    assert!(!batches::waits(database, late).await.unwrap());
    assert!(batches::waits(database, late + 2 * SECOND).await.unwrap());
    let page = Page { descending: true, ..Page::first(1) };
    let listed = batches::list(database, "proj_1", &page).await.unwrap();
    assert_eq!((&*listed.items[0].id, listed.has_more), ("batch_2", true));
}

fn lines(count: u64) -> Vec<batch_lines::Line> {
    let line = |number| batch_lines::Line {
        number,
        custom_id: format!("c{number}").into(),
        body: "{}".into(),
        tokens: 3,
    };
    (0..count).map(line).collect()
}

async fn no_line_is_run_by_two_nodes(node: &Node) {
    let other = node.another().await;
    batches::insert(&node.database, &batch("batch_1"), "maker", 0).await.unwrap();
    for _ in 0..2 {
        batch_lines::insert(&node.database, "batch_1", &lines(200)).await.unwrap();
    }
    let work = async |node: &Node, owner: &str| {
        let mut ran = Vec::new();
        loop {
            let (now, until) = (NOW * SECOND, (NOW + 60) * SECOND);
            let claimed =
                batch_lines::claim(&node.database, "batch_1", owner, 7, until, now).await.unwrap();
            if claimed.is_empty() {
                return ran;
            }
            for line in claimed {
                let failed = line.number % 10 == 0;
                let usage = batches::Usage { input_tokens: 2, ..batches::Usage::default() };
                let outcome = batch_lines::Outcome { failed, text: "{}".into(), usage };
                let (database, number) = (&node.database, line.number);
                let done = batch_lines::finish(database, "batch_1", number, owner, &outcome);
                done.await.unwrap().unwrap();
                let done = batch_lines::finish(database, "batch_1", number, owner, &outcome);
                assert_eq!(done.await.unwrap(), None, "a result is taken once");
                ran.push(number);
            }
        }
    };
    let (one, two, three) = tokio::join!(work(node, "a"), work(&other, "b"), work(&other, "c"));
    let all: Vec<u64> = [one, two, three].concat();
    assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (200, 200));
    let done = batches::get(&node.database, "proj_1", "batch_1").await.unwrap().unwrap();
    assert_eq!((done.completed, done.failed, done.usage.input_tokens), (180, 20, 400));
    assert_eq!(batch_lines::left(&node.database, "batch_1").await.unwrap(), 0);
    let errors = batch_lines::results(&node.database, "batch_1", true, -1, 15).await.unwrap();
    assert_eq!((errors.len(), errors[1].0), (15, 10));
    let rest = batch_lines::results(&node.database, "batch_1", true, errors[14].0, 15).await;
    assert_eq!(rest.unwrap().len(), 5);
    assert!(!batch_lines::forget(&node.database, "batch_1").await.unwrap());
    assert_eq!(batch_lines::results(&node.database, "batch_1", false, -1, 1).await.unwrap(), []);
}

async fn lines_of_a_dead_node_are_taken_over(node: &Node) {
    let database = &node.database;
    batches::insert(database, &batch("batch_1"), "maker", 0).await.unwrap();
    batch_lines::insert(database, "batch_1", &lines(3)).await.unwrap();
    let claim = async |owner: &str, until: u64, now: u64| {
        let lines = batch_lines::claim(database, "batch_1", owner, 2, until * SECOND, now * SECOND);
        lines.await.unwrap().iter().map(|line| line.number).collect::<Vec<_>>()
    };
    assert_eq!(claim("dead", 10, 1).await, [0, 1]);
    assert_eq!(claim("me", 20, 2).await, [2]);
    batch_lines::release(database, "batch_1", 2, "me").await.unwrap().unwrap();
    assert_eq!(claim("me", 20, 11).await, [0, 1]);
    let outcome = batch_lines::Outcome {
        failed: false,
        text: "late".into(),
        usage: batches::Usage::default(),
    };
    let late = batch_lines::finish(database, "batch_1", 0, "dead", &outcome).await.unwrap();
    assert_eq!(late, None, "who lost the lease has no say");
    let text = |number: u64, id: &str| format!("{number} {id}").into();
    let ended = batch_lines::end_rest(database, "batch_1", "me", 30 * SECOND, 12 * SECOND, text);
    assert_eq!(ended.await.unwrap(), 1, "those that run are left alone");
    let errors = batch_lines::results(database, "batch_1", true, -1, 9).await.unwrap();
    assert_eq!(errors, [(2, "2 c2".into())]);
    assert_eq!(batch_lines::left(database, "batch_1").await.unwrap(), 2);
}

async fn ids_belong_to_who_made_them(node: &Node) {
    let database = &node.database;
    let place = |project: &str| ObjectOwner {
        project: project.into(),
        upstream: "main".into(),
        backend: "b".into(),
    };
    for project in ["proj_1", "proj_2"] {
        responses::insert(database, "resp_1", &place(project), AT).await.unwrap();
        owned_objects::insert(database, "vs_1", &place(project), AT).await.unwrap();
    }
    owned_objects::insert(database, "vs_2", &place("proj_2"), AT).await.unwrap();
    assert_eq!(responses::find(database, "resp_1", AT).await.unwrap(), Some(place("proj_1")));
    assert_eq!(owned_objects::find(database, "vs_1").await.unwrap(), Some(place("proj_1")));
    let owned = owned_objects::owned(database, "proj_2", &["vs_1", "vs_2", "vs_3"]).await;
    assert_eq!(owned.unwrap(), [Box::from("vs_2")]);
    let old = AT + responses::KEPT;
    assert_eq!(responses::find(database, "resp_1", old).await.unwrap(), None);
    assert!(!responses::prune(database, old).await.unwrap());
    owned_objects::delete(database, "vs_1").await.unwrap();
    assert_eq!(owned_objects::find(database, "vs_1").await.unwrap(), None);
}

/// PostgreSQL is killed: known callers continue, unknown ones are refused in time, spend waits in
/// memory; and everything recovers when the server is back.
#[tokio::test]
async fn the_gateway_survives_a_restart_of_postgres() {
    let mut server = servers::Postgres::start();
    let node = Node::postgres(&server.url(), "away").await;
    let project = node.project().await;
    let ((_, known), (_, unknown)) = (node.key(&project).await, node.key(&project).await);
    node.directory.caller(&known).await.unwrap();
    server.kill();
    for _ in 0..3 {
        let started = Instant::now();
        let refused = node.directory.caller(&unknown).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
    }
    node.directory.caller(&known).await.unwrap();
    let path = "GET /v1/organization/projects";
    node.refused(path, serde_json::Value::Null, (503, "store_unavailable", None)).await;
    let entry = Entry {
        at: NOW * SECOND,
        request: "req_1".into(),
        organization: "org-default".into(),
        project: project.as_str().into(),
        key: "key_1".into(),
        model: "big".into(),
        backend: "main".into(),
        endpoint: Endpoint::Completions,
        status: 200,
        ended: Ended::Complete,
        batch: false,
        input_tokens: 1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        output_tokens: 1,
        web_searches: 0,
        images: 0,
        audio_milliseconds: 0,
        cost: 7,
    };
    node.ledger.record(entry);
    assert!(node.ledger.flush(Duration::from_millis(300)).await.is_err());
    server.restart();
    node.ledger.flush(Duration::from_secs(20)).await.unwrap();
    let month = gateway_policy::dates::month(NOW * SECOND);
    let spent = ledger::month_spend_of(&node.database, "org-default", None, month).await;
    assert_eq!(spent.unwrap(), 7);
    node.directory.caller(&unknown).await.unwrap();
}

/// A server that does not respond delays no call beyond its time limit, and an abandoned connection
/// is not reused.
#[tokio::test]
async fn a_slow_statement_times_out() {
    use gateway_store::database::Statement;
    let server = servers::Postgres::start();
    let node = Node::postgres(&server.url(), "slow").await;
    let started = Instant::now();
    let database = Arc::clone(&node.database);
    let slow = (0..20).map(|_| {
        let database = Arc::clone(&database);
        async move { database.query(Statement::new("SELECT CAST(pg_sleep(30) AS TEXT)", [])).await }
    });
    for result in futures_util::future::join_all(slow).await {
        assert!(result.unwrap_err().is_unavailable());
    }
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    database.query(Statement::new("SELECT value FROM change_counter", [])).await.unwrap();
}

/// Long reports leave connections for quick calls.
#[tokio::test]
async fn many_reports_delay_no_other_request() {
    use gateway_store::database::Statement;
    let server = servers::Postgres::start();
    let node = Node::postgres(&server.url(), "reports").await;
    let reports: Vec<_> = (0..20)
        .map(|_| {
            let database = Arc::clone(&node.database);
            let slow = Statement::new("SELECT CAST(pg_sleep(60) AS TEXT)", []);
            tokio::spawn(async move { database.report(slow).await })
        })
        .collect();
    for _ in 0..50 {
        let quick = Statement::new("SELECT value FROM change_counter", []);
        node.database.query(quick).await.unwrap();
    }
    reports.iter().for_each(|report| report.abort());
}

fn later(id: &str, request: &str, project: &str) -> LaterAnswer {
    let short = Rates { input: 1, cached_input: 2, output: 5, ..Rates::default() };
    let large = UnitPrice { size: Some("large".into()), price: 7, ..UnitPrice::default() };
    let price = Price {
        tiers: vec![("flex".into(), TokenPrices { short, long: Some(short) })],
        images: vec![large],
        calls: [Some(6), None, None, None],
        ..Price::from(short)
    };
    let asked = Asked { tier: Some("flex".into()), video_milliseconds: 8, ..Asked::default() };
    LaterAnswer {
        id: id.into(),
        kind: "response".into(),
        request: request.into(),
        organization: "org-1".into(),
        project: project.into(),
        key: "key_1".into(),
        model: "big".into(),
        backend: "b".into(),
        upstream: "main".into(),
        region: Some("eu".into()),
        endpoint: Endpoint::Completions,
        batch: true,
        held: 500,
        tokens: 70,
        long_context: true,
        input_estimate: 7,
        most_output: 100,
        most_reported: u64::from(u32::MAX),
        price: Some(price.into()),
        asked,
        seen_eighths: 8,
        created_at: NOW * SECOND + 1,
        expires_at: (NOW + 60) * SECOND,
        poll_at: (NOW + 5) * SECOND,
        polls: 3,
    }
}

async fn an_answer_that_comes_later_is_claimed_and_settled_once(node: &Node) {
    let database = &node.database;
    let (answer, month) = (later("resp_1", "req_1", "proj_1"), later("", "", "").month());
    let plain = LaterAnswer { region: None, price: None, ..later("resp_2", "req_2", "proj_2") };
    for answer in [&answer, &answer, &plain] {
        assert!(later_answers::keep(database, answer).await.unwrap());
    }
    // Another request's answer does not replace it.
    assert!(!later_answers::keep(database, &later("resp_1", "req_3", "proj_2")).await.unwrap());
    assert_eq!(later_answers::find(database, "resp_1").await.unwrap().as_ref(), Some(&answer));
    assert_eq!(later_answers::find(database, "resp_2").await.unwrap().as_ref(), Some(&plain));
    assert_eq!(later_answers::find(database, "resp_3").await.unwrap(), None);
    // A row of a node of an earlier version has prices of tokens in columns of their own.
    let early = "UPDATE later_answers SET price = NULL, asked = NULL, price_input = 1, \
                 price_cached_input = 2, price_cache_write = 3, price_cache_write_1h = 4, \
                 price_output = 5, price_web_search = 6 WHERE id = 'resp_2'";
    database.transact(vec![gateway_store::database::Statement::new(early, [])]).await.unwrap();
    let found = later_answers::find(database, "resp_2").await.unwrap().unwrap();
    let price = found.price.as_ref().unwrap();
    let expected = Rates {
        input: 1,
        cached_input: 2,
        cache_write: 3,
        cache_write_1h: 4,
        output: 5,
        ..Rates::default()
    };
    assert_eq!((price.tokens.short, price.calls[0]), (expected, Some(6)));
    assert_eq!(found.asked, Asked::default());
    let back = "UPDATE later_answers SET price_input = NULL, asked = $1 WHERE id = 'resp_2'";
    let asked = serde_json::to_string(&plain.asked).unwrap();
    database
        .transact(vec![gateway_store::database::Statement::new(back, [asked.into()])])
        .await
        .unwrap();
    assert_eq!(later_answers::find(database, "resp_2").await.unwrap().as_ref(), Some(&plain));
    let commitment = async |project| {
        ledger::month_commitment_of(database, "org-1", project, month).await.unwrap()
    };
    assert_eq!((commitment(None).await, commitment(Some("proj_1")).await), (1000, 500));
    assert_eq!(ledger::month_spend_of(database, "org-1", None, month).await.unwrap(), 0);
    let other = ledger::month_commitment_of(database, "org-1", None, month + 1).await;
    assert_eq!(other.unwrap(), 0);
    // One of two nodes claims it, and the claim lapses.
    let due = async |seconds: u64| {
        let found = later_answers::due(database, (NOW + seconds) * SECOND, 1).await.unwrap();
        found.into_iter().next()
    };
    assert_eq!(due(4).await, None);
    assert_eq!(due(5).await.as_ref(), Some(&answer));
    let until = (NOW + 65) * SECOND;
    let claims = [
        later_answers::claim(database, &answer, until),
        later_answers::claim(database, &answer, until),
    ];
    let claims = futures_util::future::join_all(claims).await;
    assert_eq!(claims.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count(), 1);
    assert_eq!(due(5).await.as_ref(), Some(&plain));
    later_answers::postpone(database, &plain, (NOW + 99) * SECOND, 4).await.unwrap();
    assert_eq!(due(64).await, None);
    let claimed = due(65).await.unwrap();
    assert_eq!((claimed.poll_at, claimed.polls), (until, 4));
    later_answers::postpone(database, &plain, (NOW + 99) * SECOND, 80).await.unwrap();
    let seen = later_answers::find(database, "resp_2").await.unwrap().unwrap();
    assert_eq!((seen.seen_eighths, seen.polls), (80, 3));
    // One of two nodes settles it, and the sums follow.
    let entry = Entry {
        at: answer.created_at,
        request: answer.request.clone(),
        organization: answer.organization.clone(),
        project: answer.project.clone(),
        key: answer.key.clone(),
        model: answer.model.clone(),
        backend: "main".into(),
        endpoint: answer.endpoint,
        status: 200,
        ended: Ended::Complete,
        batch: false,
        input_tokens: 7,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        output_tokens: 3,
        web_searches: 0,
        images: 0,
        audio_milliseconds: 0,
        cost: 37,
    };
    let settles = [
        later_answers::settle(database, &answer, entry.clone()),
        later_answers::settle(database, &answer, entry.clone()),
    ];
    let settled = futures_util::future::join_all(settles).await;
    assert_eq!(settled.into_iter().filter(|settled| *settled.as_ref().unwrap()).count(), 1);
    assert_eq!((commitment(None).await, commitment(Some("proj_1")).await), (537, 37));
    let cursor = ledger::Cursor::new(0, NOW + 10);
    let (rows, _) = ledger::export(database, "org-1", cursor).await.unwrap();
    assert_eq!(rows.iter().map(|row| &row.entry).collect::<Vec<_>>(), [&entry]);
    // Its id may be used again, and the row of an earlier request settles nothing.
    let again = later("resp_1", "req_4", "proj_1");
    assert!(later_answers::keep(database, &again).await.unwrap());
    assert!(!later_answers::settle(database, &answer, entry).await.unwrap());
    assert_eq!(later_answers::find(database, "resp_1").await.unwrap(), Some(again));
}
