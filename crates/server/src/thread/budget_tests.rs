//! Budgets: what is admitted, when the model is informed, and when everything stops.

#![allow(clippy::unwrap_used)]

use super::*;

fn tokens(max: i64) -> Arc<Budget> {
    Budget::new(BudgetLimits { tokens: Some(max), time: None })
}

#[tokio::test]
async fn requests_in_flight_count_with_what_they_are_expected_to_use() {
    let budget = tokens(100);
    let first = budget.admit(60).unwrap();
    let second = budget.admit(60).unwrap();
    let refused = budget.admit(1).unwrap_err();
    assert_eq!(refused.kind, FailureKind::UsageLimitExceeded);
    assert!(refused.message.contains("100 tokens"), "{}", refused.message);
    drop(first);
    budget.charge(30);
    let third = budget.admit(60).unwrap();
    drop((second, third));
    budget.charge(70);
    assert!(budget.admit(0).is_err());
    assert_eq!(budget.account().used, 100);
}

#[tokio::test]
async fn the_model_is_informed_from_four_fifths_on() {
    let budget = tokens(1_000);
    budget.charge(799);
    assert!(budget.admit(0).unwrap().notice.is_none());
    budget.charge(1);
    let notice = budget.admit(0).unwrap().notice.clone().unwrap();
    assert!(notice.contains("800 of 1000 tokens"), "{notice}");
}

#[tokio::test(start_paused = true)]
async fn time_is_limited_too() {
    let limits = BudgetLimits { tokens: None, time: Some(Duration::from_secs(100)) };
    let budget = Budget::new(limits);
    assert!(budget.admit(i64::MAX).unwrap().notice.is_none());
    tokio::time::advance(Duration::from_secs(80)).await;
    let notice = budget.admit(0).unwrap().notice.clone().unwrap();
    assert!(notice.contains("80 of 100 seconds"), "{notice}");
    let started = Instant::now();
    assert!(budget.exceeded().await.message.contains("100 s"));
    assert_eq!(started.elapsed().as_secs(), 20);
    assert!(budget.admit(0).is_err());
}

#[tokio::test]
async fn reaching_or_lowering_the_limit_stops_who_waits() {
    let charge = |budget: &Budget| {
        budget.charge(5);
    };
    for reach in [charge, |budget: &Budget| budget.lower(10)] {
        let budget = tokens(20);
        budget.charge(15);
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.exceeded().await }
        });
        reach(&budget);
        assert_eq!(waiting.await.unwrap().kind, FailureKind::UsageLimitExceeded);
    }
    let budget = tokens(20);
    budget.lower(30);
    budget.charge(25);
    assert!(budget.admit(0).is_err(), "a budget is never raised");
}

#[tokio::test]
async fn numbers_of_a_provider_cannot_overflow_or_refund() {
    let budget = tokens(i64::MAX);
    budget.charge(-50);
    assert_eq!(budget.account().used, 0);
    budget.charge(i64::MAX);
    budget.charge(i64::MAX);
    assert_eq!(budget.account().used, i64::MAX);
    let budget = Budget::new(BudgetLimits::default());
    let held: Vec<_> = (0..3).map(|_| budget.admit(i64::MAX).unwrap()).collect();
    drop(held);
    assert_eq!(budget.account().reserved, 0);
}
