//! Every kind of write is refused without the lease of its thread, and without the turn.

use crate::common::{Backend, append, create, finish, put, record, start};
use store::{
    JobItemOutcome, JobStatus, JobWrite, NewJobItem, QueueWrite, QueuedEntry, Store, StoreError,
    UsageRecord, Write, transfer,
};

/// The rights that a write needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Nothing: the write creates its thread.
    Nothing,
    /// The lease of the thread.
    Lease,
    /// The lease, and the turn in progress.
    Turn,
}

/// The samples of each kind of write. A kind that is not in the table does not compile.
macro_rules! kinds_of_writes {
    ($($kind:pat => $needs:ident [$($sample:expr),+ $(,)?],)+) => {
        fn samples() -> Vec<(Needs, Write)> {
            let mut samples = Vec::new();
            $($({
                let sample = $sample;
                assert!(matches!(&sample, $kind), "{sample:?} is in the row of another kind");
                samples.push((Needs::$needs, sample));
            })+)+
            samples
        }

        const _: fn(&Write) = |write| match write {
            $($kind => {})+
        };
    };
}

kinds_of_writes! {
    Write::Queue { .. } => Lease [Write::Queue {
        thread: "a".into(),
        write: QueueWrite::Add(QueuedEntry { id: "q".into(), payload: "{}".into() }),
    }],
    Write::CreateThread(_) => Nothing [create(record("new", 1))],
    Write::Fork { .. } => Nothing [Write::Fork {
        record: Box::new(record("new", 1)),
        parent: "a".into(),
        last_turn: None,
    }],
    Write::UpdateThread { .. } => Lease [Write::UpdateThread {
        thread: "a".into(),
        changes: Box::default(),
    }],
    Write::StartTurn { .. } => Lease [start("a", "another", 1)],
    Write::PutItem { .. } => Turn [put("a", "t", "i", "{}"), put("a", "t", "j", "{}")],
    Write::AppendHistory { turn: Some(_), .. } => Turn [append("a", Some("t"), &["x"])],
    Write::AppendHistory { turn: None, .. } => Lease [append("a", None, &["x"])],
    Write::FinishTurn { .. } => Turn [finish("a", "t")],
    Write::RollBack { .. } => Lease [Write::RollBack { thread: "a".into(), turns: 0 }],
    Write::DeleteThread { .. } => Lease [Write::DeleteThread { thread: "a".into() }],
    Write::AddUsage { .. } => Lease [Write::AddUsage {
        thread: "a".into(),
        token_usage: "{}".into(),
        usage: Box::new(UsageRecord::default()),
    }],
    Write::Job { write: JobWrite::Create { .. }, .. } => Lease [job(JobWrite::Create {
        id: "job".into(),
        fingerprint: [2; 32],
        created_at_ms: 1,
        detail: "{}".into(),
    })],
    Write::Job { write: JobWrite::AddItems { .. }, .. } => Lease [
        job(JobWrite::AddItems { job: 1, items: vec![item(2)] })
    ],
    Write::Job { write: JobWrite::Reopen { .. }, .. } => Lease [
        job(JobWrite::Reopen { job: 1, detail: "{}".into() })
    ],
    Write::Job { write: JobWrite::Describe { .. }, .. } => Lease [
        job(JobWrite::Describe { job: 1, detail: "{}".into() })
    ],
    Write::Job { write: JobWrite::StartItem { .. }, .. } => Lease [
        job(JobWrite::StartItem { job: 1, number: 1, worker: "w".into() })
    ],
    Write::Job { write: JobWrite::FinishItem { .. }, .. } => Lease [job(JobWrite::FinishItem {
        job: 1,
        number: 1,
        worker: "w".into(),
        outcome: JobItemOutcome::Failed("no".into()),
    })],
    Write::Job { write: JobWrite::Finish { .. }, .. } => Lease [
        job(JobWrite::Finish { job: 1, status: JobStatus::Completed, ended_at_ms: 2 })
    ],
}

fn job(write: JobWrite) -> Write {
    Write::Job { thread: "a".into(), write }
}

fn item(number: u32) -> NewJobItem {
    NewJobItem { number, id: number.to_string(), row: "{}".into() }
}

/// Stores a thread `a` with a turn `t` in progress and a job with one row.
async fn fill(store: &Store) {
    let created = JobWrite::Create {
        id: "first".into(),
        fingerprint: [1; 32],
        created_at_ms: 1,
        detail: "{}".into(),
    };
    let writes = vec![
        create(record("a", 1)),
        start("a", "t", 1),
        put("a", "t", "i", "{\"before\":1}"),
        append("a", Some("t"), &["1"]),
        job(created),
        job(JobWrite::AddItems { job: 1, items: vec![item(1)] }),
    ];
    store.commit(writes).await.unwrap();
}

/// All that is stored of the thread.
async fn content(store: &Store) -> String {
    let mut lines = String::new();
    let write = |line: &str| {
        lines.push_str(line);
        Ok(())
    };
    transfer::export(store, "a", write).await.unwrap();
    let jobs = store.jobs("a").await.unwrap();
    let items = store.job_items(1, 0, None, 9).await.unwrap();
    format!("{lines}{jobs:?}{items:?}")
}

fn samples_on_shared_backends() -> impl Iterator<Item = (Backend, Needs, Write)> {
    let on = |backend| samples().into_iter().map(move |(needs, write)| (backend, needs, write));
    Backend::SHARED.into_iter().flat_map(on)
}

fn assert_lost(outcome: Result<(), StoreError>, write: &Write) {
    let lost = matches!(&outcome, Err(StoreError::LeaseLost { thread }) if thread == "a");
    assert!(lost, "{write:?}: {outcome:?}");
}

#[tokio::test]
async fn every_kind_of_write_needs_the_lease_of_its_thread() {
    for (backend, needs, write) in samples_on_shared_backends() {
        let holder = backend.fresh().await;
        let other = holder.another().await;
        fill(&holder).await;
        let before = content(&holder).await;
        let without = other.commit(vec![write.clone()]).await;
        if needs == Needs::Nothing {
            without.unwrap();
            continue;
        }
        assert_lost(without, &write);
        let unloaded = other.write_unloaded("a", vec![write.clone()]).await;
        assert!(matches!(unloaded, Err(StoreError::LeasedBy { .. })), "{write:?}: {unloaded:?}");
        // The store that had the lease, and runs the turn.
        holder.release("a").await.unwrap();
        assert_lost(holder.commit(vec![write.clone()]).await, &write);
        // Another store has it since.
        other.open_thread("a").await.unwrap();
        assert_lost(holder.commit(vec![write.clone()]).await, &write);
        assert_eq!(content(&other).await, before, "{write:?}");
    }
}

#[tokio::test]
async fn no_backend_writes_without_the_lease() {
    for backend in Backend::ALL {
        for (needs, write) in samples() {
            let store = backend.fresh().await;
            fill(&store).await;
            store.release("a").await.unwrap();
            let before = content(&store).await;
            let without = store.commit(vec![write.clone()]).await;
            if needs == Needs::Nothing {
                without.unwrap();
                continue;
            }
            assert_lost(without, &write);
            assert_eq!(content(&store).await, before, "{backend:?}: {write:?}");
            let opened = store.open_thread("a").await.unwrap();
            assert_eq!((opened.stored.turn_count, opened.orphans.len()), (1, 1));
            assert_eq!(opened.last_turn.unwrap().id, "t");
        }
    }
}

#[tokio::test]
async fn writes_to_a_turn_need_the_turn() {
    for (backend, needs, write) in samples_on_shared_backends() {
        if needs != Needs::Turn {
            continue;
        }
        let first = backend.fresh().await;
        let second = first.another().await;
        fill(&first).await;
        first.release("a").await.unwrap();
        let opened = second.open_thread("a").await.unwrap();
        assert_eq!(opened.orphans.len(), 1, "a thread that is free has no turn that runs");
        second.release("a").await.unwrap();
        let before = content(&first).await;
        // It gets the lease, and not the turn, which the other store has claimed.
        assert_lost(first.write_unloaded("a", vec![write.clone()]).await, &write);
        assert_eq!(content(&first).await, before, "{write:?}");
        second.write_unloaded("a", vec![write]).await.unwrap();
    }
}

#[tokio::test]
async fn an_ended_turn_needs_the_lease_only() {
    for backend in Backend::ALL {
        let store = backend.fresh().await;
        fill(&store).await;
        store.commit(vec![finish("a", "t")]).await.unwrap();
        store.commit(vec![put("a", "t", "i", "{}"), append("a", Some("t"), &["2"])]).await.unwrap();
        store.release("a").await.unwrap();
        let late = put("a", "t", "i", "late");
        assert_lost(store.commit(vec![late.clone()]).await, &late);
    }
}

#[tokio::test]
async fn a_write_to_an_unloaded_thread_leaves_its_lease_as_it_was() {
    for backend in Backend::SHARED {
        let one = backend.fresh().await;
        let two = one.another().await;
        fill(&one).await;
        one.write_unloaded("a", vec![finish("a", "t")]).await.unwrap();
        one.commit(vec![append("a", None, &["still its own"])]).await.unwrap();
        one.release("a").await.unwrap();
        let refused = vec![append("a", None, &["2"]), start("nothing", "t", 1)];
        assert!(two.write_unloaded("a", refused).await.is_err());
        two.write_unloaded("a", vec![append("a", None, &["3"])]).await.unwrap();
        one.open_thread("a").await.unwrap();
        assert_eq!(crate::common::history(&one, "a").await, ["1", "still its own", "3"]);
        let missing = one.write_unloaded("nothing", Vec::new()).await;
        assert!(matches!(missing, Err(StoreError::ThreadNotFound { .. })), "{missing:?}");
    }
}

#[tokio::test]
async fn only_own_turns_are_in_progress() {
    for backend in Backend::SHARED {
        let one = backend.fresh().await;
        let two = one.another().await;
        fill(&one).await;
        let running = one.turns_in_progress("a").await.unwrap();
        assert_eq!((running.len(), running[0].turn.as_str(), running[0].items.len()), (1, "t", 1));
        let error = two.turns_in_progress("a").await.unwrap_err();
        assert!(matches!(error, StoreError::LeaseLost { .. }), "{error}");
        one.commit(vec![finish("a", "t")]).await.unwrap();
        assert_eq!(one.turns_in_progress("a").await.unwrap(), []);
    }
}

#[tokio::test]
async fn releases_that_wait_together_free_their_own_threads_only() {
    for backend in Backend::ALL {
        let store = backend.fresh().await;
        let ids: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
        for id in &ids {
            store.commit(vec![create(record(id, 1))]).await.unwrap();
        }
        let (released, kept) = ids.split_at(15);
        // A thread that does not exist has no lease to release.
        let names = released.iter().cloned().chain(["nothing".to_owned()]);
        let waiting: Vec<_> = names
            .map(|id| {
                let store = store.clone();
                tokio::spawn(async move { store.release(&id).await })
            })
            .collect();
        for release in waiting {
            release.await.unwrap().unwrap();
        }
        for id in &ids {
            let write = start(id, "t", 1);
            let is_lost = store.commit(vec![write]).await.is_err();
            assert_eq!(is_lost, !kept.contains(id), "{backend:?}: {id}");
        }
    }
}
