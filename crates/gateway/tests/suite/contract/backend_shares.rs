//! Shares of the places of a backend with `max_concurrency`.

use std::sync::Arc;

use serde_json::Value;

use super::backends::several;
use crate::common::gateway::{SECOND, TestGateway};
use crate::common::upstream::{Gate, Script, Step, Upstream, chat, usage};

/// A project whose requests are slow does not take the last place from one that uses the backend as well.
#[tokio::test]
async fn another_project_finds_a_place_while_one_holds_its_share() {
    let a = Upstream::start().await;
    let gateway =
        Arc::new(TestGateway::start(&several("max_concurrency = 4", &[("a", &a, "")], "")).await);
    let slow = gateway.tenant("free").await;
    let quick = gateway.project(&slow.organization, Value::Null).await;
    let gate = Gate::closed();
    let held = Script::json(&chat(&usage(3, 2))).before(Step::Wait(gate.clone()));
    assert_eq!(gateway.chat(&quick).await.status, 200);
    a.script([held.clone(), held.clone(), held]);
    let open: Vec<_> = (0..3)
        .map(|_| {
            let (gateway, slow) = (Arc::clone(&gateway), slow.clone());
            tokio::spawn(async move { gateway.chat(&slow).await })
        })
        .collect();
    a.has_received(4).await;
    assert_eq!(gateway.chat(&slow).await.error().1, "upstream_busy");
    for _ in 0..3 {
        assert_eq!(gateway.chat(&quick).await.status, 200);
    }
    gate.open(3);
    for sent in open {
        assert_eq!(sent.await.unwrap().status, 200);
    }
    // Alone again, it may hold them all.
    gateway.is_idle().await;
    gateway.clock.advance(60 * SECOND);
    let gate = Gate::closed();
    let held = Script::json(&chat(&usage(3, 2))).before(Step::Wait(gate.clone()));
    let before = a.count();
    a.script([held.clone(), held.clone(), held.clone(), held]);
    let all: Vec<_> = (0..4)
        .map(|_| {
            let (gateway, slow) = (Arc::clone(&gateway), slow.clone());
            tokio::spawn(async move { gateway.chat(&slow).await })
        })
        .collect();
    a.has_received(before + 4).await;
    gate.open(4);
    for sent in all {
        assert_eq!(sent.await.unwrap().status, 200);
    }
}
