//! Pages of threads: filters, order, and cursors that remain valid while threads are added.

use crate::common::Backend;
use crate::common::{create, listed, record};
use proptest::prelude::*;
use store::{Direction, ListQuery, SortKey, Store, StoreError, ThreadRecord};

async fn ids(store: &Store, query: ListQuery) -> Vec<String> {
    let page = store.threads(ListQuery { limit: 100, ..query }).await.unwrap();
    page.rows.into_iter().map(|row| row.record.id).collect()
}

fn thread(id: &str, at: i64, change: impl FnOnce(&mut ThreadRecord)) -> ThreadRecord {
    let mut record = record(id, at);
    change(&mut record);
    record
}

fn list(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[tokio::test]
async fn filters_apply_before_paging() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        let records = [
            thread("a", 1, |r| r.source_kind = "editor".into()),
            thread("b", 2, |r| r.model_provider = "other".into()),
            thread("c", 3, |r| {
                r.cwd = "/elsewhere".into();
                r.updated_at = 99;
            }),
            thread("d", 4, |r| r.name = Some("Straße nach ÖSTERREICH 100%".into())),
            thread("e", 5, |r| r.archived = true),
            thread("f", 5, |r| r.source_kind = "exec".into()),
        ];
        for record in records {
            store.commit(listed(record)).await.unwrap();
        }
        store.commit(vec![create(record("no turn", 9))]).await.unwrap();
        let all = ListQuery::default;
        let check = async |query: ListQuery, expected: &[&str]| {
            assert_eq!(ids(&store, query.clone()).await, expected, "{query:?}");
        };
        check(all(), &["f", "d", "c", "b", "a"]).await;
        check(ListQuery { direction: Direction::Ascending, ..all() }, &["a", "b", "c", "d", "f"])
            .await;
        check(ListQuery { sort: SortKey::Updated, ..all() }, &["c", "f", "d", "b", "a"]).await;
        check(ListQuery { archived: true, ..all() }, &["e"]).await;
        check(ListQuery { providers: list(&["other", "none"]), ..all() }, &["b"]).await;
        let sources = list(&["cli", "editor", "cli"]);
        check(ListQuery { sources, ..all() }, &["d", "c", "b", "a"]).await;
        check(ListQuery { cwds: list(&["/elsewhere", "/x"]), ..all() }, &["c"]).await;
        let (cwds, sources) = (list(&["/work", "/elsewhere"]), list(&["editor", "exec"]));
        check(ListQuery { cwds, sources, ..all() }, &["f", "a"]).await;
        for (term, expected) in [
            ("österreich", &["d"][..]),
            ("PREVIEW OF C", &["c"]),
            ("100%", &["d"]),
            ("%", &["d"]),
            ("_", &[]),
            ("", &["f", "d", "c", "b", "a"]),
        ] {
            check(ListQuery { search: Some(term.into()), ..all() }, expected).await;
        }
    }
}

#[tokio::test]
async fn terms_of_any_length_find_what_contains_them() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        let texts: Vec<String> = (0..240)
            .map(|n| match n % 20 {
                7 => format!("öl \"{n}\" \u{1f600}"),
                11 => format!("{n}% of_a\nline"),
                13 => "x".to_owned(),
                _ => format!("thread {n} is common"),
            })
            .collect();
        for (n, text) in texts.iter().enumerate() {
            let record = ThreadRecord {
                preview: text.clone(),
                ..record(&format!("t{n:03}"), i64::try_from(n).unwrap())
            };
            store.commit(listed(record)).await.unwrap();
        }
        let terms = [
            "c",
            "on",
            "n",
            "x",
            "ö",
            "Öl",
            "l ",
            "\"",
            "\"2",
            "7\"",
            "\u{1f600}",
            "%",
            "_a",
            "ne",
            "e",
            "9",
            "59",
            "z",
            "zz",
            "common",
            "is common",
            "is commons",
            "thread 7",
            "thread 23",
            "thread 159 is",
            "thread 999",
            "d 1",
            "7\" ",
            "*",
            "\u{1f}",
            "\u{1f}\u{1f}",
            "\u{10ffff}",
        ];
        for term in terms {
            let folded = term.to_lowercase();
            let matches =
                |text: &&String| format!("\u{1f}{}", text.to_lowercase()).contains(&folded);
            // A page at most.
            let expected = texts.iter().filter(matches).count().min(100);
            let query =
                ListQuery { search: Some(term.to_owned()), limit: 100, ..ListQuery::default() };
            assert_eq!(ids(&store, query).await.len(), expected, "{term:?}");
        }
    }
}

/// More matches than are looked up one by one, all older than the threads that a search looks at first.
#[tokio::test]
async fn many_old_matches_are_found_page_by_page() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        // PostgreSQL looks nothing up one by one.
        let (all, matching) = if backend == Backend::Postgres { (640, 230) } else { (6400, 2300) };
        let records: Vec<ThreadRecord> = (0..all)
            .map(|n| {
                let word = if n < matching { "request" } else { "answer" };
                thread(&format!("t{n:04}"), n, |r| {
                    r.preview = format!("a {word} of many");
                    r.updated_at = all + n * 7 % all;
                    r.source_kind = (if n % 3 == 0 { "editor" } else { "cli" }).into();
                    r.cwd = format!("/work/{}", n % 2);
                })
            })
            .collect();
        store.commit(records.iter().cloned().flat_map(listed).collect()).await.unwrap();
        for (cwds, sources) in [(&["/work/0"][..], &["editor"][..]), (&[], &["editor"]), (&[], &[])]
        {
            let (cwds, sources) = (list(cwds), list(sources));
            let mut expected: Vec<&ThreadRecord> = records
                .iter()
                .filter(|r| r.preview.contains("request"))
                .filter(|r| cwds.is_empty() || cwds.contains(&r.cwd))
                .filter(|r| sources.is_empty() || sources.contains(&r.source_kind))
                .collect();
            expected.sort_unstable_by_key(|r| -r.updated_at);
            let expected: Vec<&str> = expected.iter().map(|r| &*r.id).collect();
            let search = Some("request of".to_owned());
            let mut query = ListQuery {
                limit: 100,
                sort: SortKey::Updated,
                search,
                cwds,
                sources,
                ..ListQuery::default()
            };
            let mut found = Vec::new();
            loop {
                let page = store.threads(query.clone()).await.unwrap();
                found.extend(page.rows.into_iter().map(|row| row.record.id));
                query.cursor = page.next_cursor;
                if query.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{query:?}");
        }
    }
}

#[tokio::test]
async fn cursors_belong_to_their_order() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        for n in 0..3 {
            store.commit(listed(record(&format!("t{n}"), n))).await.unwrap();
        }
        let page = store.threads(ListQuery { limit: 1, ..ListQuery::default() }).await.unwrap();
        let query = ListQuery {
            cursor: page.next_cursor.clone(),
            sort: SortKey::Updated,
            ..ListQuery::default()
        };
        let error = store.threads(query).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::BadCursor { cursor } if Some(cursor) == page.next_cursor.as_ref())
        );
        let back = ListQuery {
            limit: 5,
            cursor: store
                .threads(ListQuery { limit: 1, cursor: page.next_cursor, ..ListQuery::default() })
                .await
                .unwrap()
                .backwards_cursor,
            direction: Direction::Ascending,
            ..ListQuery::default()
        };
        assert_eq!(ids(&store, back).await, ["t2"]);
        let empty = ListQuery { archived: true, ..ListQuery::default() };
        let page = store.threads(empty).await.unwrap();
        assert_eq!((page.next_cursor, page.backwards_cursor), (None, None));
    }
}

/// The second and the source kind of a thread. The range of seconds is small, so that many
/// coincide.
fn new_thread() -> impl Strategy<Value = (i64, &'static str)> {
    (0..6_i64, prop::sample::select(vec!["cli", "editor", "exec"]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Paging while threads are added returns each thread that existed at the start once, every
    /// other at most once, and all in order.
    #[test]
    fn a_walk_shows_each_thread_once(
        before in prop::collection::vec(new_thread(), 0..24),
        between in prop::collection::vec(prop::collection::vec(new_thread(), 0..3), 30),
        limit in 1..6_u32,
        ascending: bool,
        some_sources: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for backend in Backend::ALL {
        if backend.is_skipped(before.len()) {
            continue;
        }
        runtime.block_on(async {
            let store = backend.empty().await;
            let mut count = 0;
            let mut add = async |(at, kind): (i64, &str)| {
                count += 1;
                let record = thread(&format!("{at}-{count}"), at, |r| r.source_kind = kind.into());
                store.commit(listed(record)).await.unwrap();
            };
            for new in &before {
                add(*new).await;
            }
            let direction =
                if ascending { Direction::Ascending } else { Direction::Descending };
            let sources = if some_sources { list(&["cli", "exec"]) } else { Vec::new() };
            let mut query = ListQuery { limit, direction, sources, ..ListQuery::default() };
            let there = ids(&store, query.clone()).await;
            let mut seen: Vec<(i64, u64)> = Vec::new();
            let mut additions = between.clone().into_iter();
            loop {
                let page = store.threads(query.clone()).await.unwrap();
                assert!(page.rows.len() <= limit as usize);
                for row in page.rows {
                    let (at, number) = row.record.id.split_once('-').unwrap();
                    seen.push((at.parse().unwrap(), number.parse().unwrap()));
                }
                let Some(cursor) = page.next_cursor else { break };
                query.cursor = Some(cursor);
                for new in additions.next().unwrap_or_default() {
                    add(new).await;
                }
            }
            let in_order = |pair: &[(i64, u64)]| {
                if ascending { pair[0] < pair[1] } else { pair[0] > pair[1] }
            };
            assert!(seen.windows(2).all(in_order), "{seen:?}");
            let shown: Vec<_> = seen.iter().map(|(at, number)| format!("{at}-{number}")).collect();
            assert!(there.iter().all(|id| shown.contains(id)), "{there:?} in {shown:?}");
        });
        }
    }
}
