//! Budgets: what is admitted, what waits, when the model is informed, and when everything stops.

#![allow(clippy::unwrap_used)]

use http_client::FailureKind;
use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

fn tokens(max: i64) -> Budgets {
    Budgets::new(BudgetLimits { tokens: Some(max), time: None })
}

fn size(input: i64, most: i64) -> RequestSize {
    RequestSize { input, most }
}

fn admit(budgets: &Budgets, most: i64) -> Result<Option<Admission>, Failure> {
    budgets.admit(size(0, most))
}

/// Counts the use of a request that is the only one.
fn spend(budgets: &Budgets, tokens: i64) {
    admit(budgets, 0).unwrap().unwrap().settle(tokens);
}

fn used(budgets: &Budgets) -> i64 {
    budgets.0[0].state().0
}

#[tokio::test]
async fn requests_share_a_budget_until_one_of_them_could_pass_the_limit() {
    let budgets = tokens(100);
    let first = admit(&budgets, 50).unwrap().unwrap();
    let second = admit(&budgets, 50).unwrap().unwrap();
    assert!(admit(&budgets, 1).unwrap().is_none(), "admitted beside two that may use all");
    let waiting = tokio::spawn({
        let budgets = budgets.clone();
        async move { budgets.admitted::<session::Usage>(size(0, 1_000)).await }
    });
    first.settle(30);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "it is not alone");
    second.settle(30);
    let alone = waiting.await.unwrap().unwrap();
    assert!(admit(&budgets, 1).unwrap().is_none(), "admitted beside one that may pass the limit");
    alone.settle(70);
    let refused = admit(&budgets, 1).unwrap_err();
    assert_eq!(refused.kind, FailureKind::UsageLimitExceeded);
    assert!(refused.message.contains("100 tokens"), "{}", refused.message);
    assert!(refused.message.contains("130 used"), "{}", refused.message);
}

#[test]
fn a_hundred_agents_far_from_the_limit_do_not_wait() {
    let budgets = tokens(100 * 20_000);
    let requests: Vec<_> = (0..100).map(|_| admit(&budgets, 20_000).unwrap().unwrap()).collect();
    drop(requests);
    assert_eq!(budgets.0[0].state(), (0, 0, 0));
}

#[test]
fn a_request_that_is_cut_off_is_charged_the_estimate() {
    let budgets = tokens(1_000);
    let mut cut = budgets.admit::<session::Usage>(size(40, 500)).unwrap().unwrap();
    cut.receive(7);
    drop(cut);
    assert_eq!(budgets.0[0].state(), (47, 0, 0));
}

#[test]
fn a_request_counts_against_every_budget_whose_work_it_carries() {
    let (mut turn, sender) = (tokens(1_000), tokens(100));
    spend(&turn, 10);
    turn.join(&sender);
    turn.join(&sender.share());
    spend(&turn, 60);
    assert_eq!((used(&turn), used(&sender)), (70, 60));
    assert_eq!(sender.used_with_agents(), Some(60));
    // The sender has a request of its own in flight, which may use the rest.
    let own = admit(&sender, 40).unwrap().unwrap();
    assert!(admit(&turn, 1).unwrap().is_none());
    assert_eq!(turn.0[0].state(), (70, 0, 0), "reserved, though it waits");
    own.settle(40);
    assert!(admit(&turn, 1).unwrap_err().message.contains("100 tokens"));
}

#[tokio::test]
async fn the_model_is_informed_from_four_fifths_on() {
    let budgets = tokens(1_000);
    spend(&budgets, 799);
    assert!(admit(&budgets, 0).unwrap().unwrap().notice.is_none());
    spend(&budgets, 1);
    let notice = admit(&budgets, 0).unwrap().unwrap().notice.clone().unwrap();
    assert!(notice.contains("800 of 1000 tokens"), "{notice}");
}

#[tokio::test(start_paused = true)]
async fn time_is_limited_too() {
    let limits = BudgetLimits { tokens: None, time: Some(Duration::from_secs(100)) };
    let budgets = Budgets::new(limits);
    assert!(admit(&budgets, i64::MAX).unwrap().unwrap().notice.is_none());
    tokio::time::advance(Duration::from_secs(80)).await;
    let notice = admit(&budgets, 0).unwrap().unwrap().notice.clone().unwrap();
    assert!(notice.contains("80 of 100 seconds"), "{notice}");
    let started = Instant::now();
    assert!(budgets.exceeded().await.message.contains("100 s"));
    assert_eq!(started.elapsed().as_secs(), 20);
    assert!(admit(&budgets, 0).is_err());
}

#[tokio::test]
async fn reaching_or_lowering_a_limit_stops_who_waits() {
    let charge = |budgets: &Budgets| spend(budgets, 5);
    for reach in [charge, |budgets: &Budgets| budgets.lower(10)] {
        let budgets = tokens(20);
        spend(&budgets, 15);
        let mut turn = tokens(1_000);
        turn.join(&budgets);
        let waiting = tokio::spawn(async move { turn.exceeded().await });
        tokio::task::yield_now().await;
        reach(&budgets);
        assert_eq!(waiting.await.unwrap().kind, FailureKind::UsageLimitExceeded);
    }
    let budgets = tokens(20);
    budgets.lower(30);
    spend(&budgets, 25);
    assert!(admit(&budgets, 0).is_err(), "a budget is never raised");
}

#[test]
fn numbers_of_a_provider_cannot_overflow_or_refund() {
    let budgets = tokens(i64::MAX);
    spend(&budgets, -50);
    assert_eq!(used(&budgets), 0);
    spend(&budgets, i64::MAX);
    assert_eq!(used(&budgets), i64::MAX);
    let budgets = Budgets::new(BudgetLimits::default());
    let held: Vec<_> = (0..3).map(|_| admit(&budgets, i64::MAX).unwrap().unwrap()).collect();
    held.into_iter().for_each(|request| request.settle(i64::MAX));
    assert_eq!(budgets.0[0].state(), (i64::MAX, 0, 0));
}

/// What happens to one of the agents of a tree.
#[derive(Clone, Debug)]
enum Happening {
    /// It sends a request that has so much input and can use so much.
    Sends { input: i64, output: i64 },
    /// Its request ends, after a share of what it can use, in percent.
    Ends { percent: i64 },
    /// Its request is cut off after such a share.
    IsCutOff { percent: i64 },
    /// It gets input of the turn of another tree.
    Joins { tree: usize },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..200i64, 0..2_000i64).prop_map(|(input, output)| Happening::Sends { input, output }),
        3 => (0..=100i64).prop_map(|percent| Happening::Ends { percent }),
        1 => (0..=100i64).prop_map(|percent| Happening::IsCutOff { percent }),
        1 => (0..3usize).prop_map(|tree| Happening::Joins { tree }),
    ]
}

proptest! {
    /// Agents of three trees, some of which work for several.
    #[test]
    fn no_budget_is_passed_by_more_than_one_request(
        limits in prop::collection::vec(1..20_000i64, 3),
        events in prop::collection::vec((0..12usize, happening()), 1..300),
    ) {
        let trees: Vec<Budgets> = limits.iter().map(|limit| tokens(*limit)).collect();
        let mut agents: Vec<(Budgets, Option<Admission>)> =
            (0..12).map(|agent| (trees[agent % 3].clone(), None)).collect();
        for (agent, happening) in events {
            let (budgets, request) = &mut agents[agent];
            let before: Vec<i64> = trees.iter().map(used).collect();
            match happening {
                Happening::Sends { input, output } if request.is_none() => {
                    let states: Vec<_> = budgets.0.iter().map(|budget| budget.state()).collect();
                    match budgets.admit::<session::Usage>(size(input, input + output)) {
                        Ok(None) => prop_assert!(
                            states.iter().any(|(.., in_flight)| *in_flight > 0),
                            "it waits for nothing"
                        ),
                        Ok(admitted) => *request = admitted,
                        Err(_) => {}
                    }
                }
                Happening::Ends { percent } => {
                    if let Some(request) = request.take() {
                        let most = request.size.most;
                        request.settle(most * percent / 100);
                    }
                }
                Happening::IsCutOff { percent } => {
                    if let Some(mut request) = request.take() {
                        let output = request.size.most - request.size.input;
                        request.receive(output * percent / 100);
                    }
                }
                Happening::Joins { tree } => budgets.join(&trees[tree]),
                Happening::Sends { .. } => {}
            }
            for ((tree, limit), before) in trees.iter().zip(&limits).zip(before) {
                let (used, _, in_flight) = tree.0[0].state();
                if used > before && used > *limit {
                    prop_assert!(before < *limit, "a second request passed the limit");
                    prop_assert_eq!(in_flight, 0, "others can still pass the limit");
                }
            }
        }
        drop(agents);
        for tree in &trees {
            let (_, reserved, in_flight) = tree.0[0].state();
            prop_assert_eq!((reserved, in_flight), (0, 0));
        }
    }
}
