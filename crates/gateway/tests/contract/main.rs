//! The contract of the data path, a test a rule.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "../common/gateway.rs"]
mod harness;
#[path = "../common/upstream.rs"]
mod upstream;

mod edits;
mod estimates;
mod headers;
mod models;
mod money;
mod refusals;
mod tenants;
mod upstreams;
mod usage;

use harness::{TestGateway, config};
use upstream::Upstream;

/// A model with an alias; keys of it, or tables, may follow.
const BIG: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n\
    price = { input = 1.0, cached_input = 0.1, output = 10.0 }\n";

/// A gateway before a model server that answers everything.
async fn start(rest: &str) -> (TestGateway, Upstream) {
    let upstream = Upstream::start().await;
    (TestGateway::start(&config(&upstream, rest)).await, upstream)
}
