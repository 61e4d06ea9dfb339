//! Calls that share an id: which of them run, and what the next request has.

use std::collections::BTreeSet;

use serde_json::Value;
use session::{Effect, Item, ItemStatus, Retry, ToolRequest, TurnStatus};

use crate::response::{Output, Response, cut, exec, failed, respond, say};
use crate::script::Script;
use crate::simulation::{Order, Simulation};

fn run(responses: Vec<Response>) -> Simulation {
    let mut script = Script::new(&[]);
    script.responses = responses;
    let sim = Simulation::run(&script, Order::Timely);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    sim
}

fn ran(sim: &Simulation) -> Vec<&str> {
    let requests = sim.effects.iter().filter_map(|effect| match effect {
        Effect::Run { spec, .. } => Some(&spec.request),
        _ => None,
    });
    let mut scripts = Vec::new();
    for request in requests {
        let ToolRequest::Script { script, .. } = request else { panic!("{request:?}") };
        scripts.push(script.as_str());
    }
    scripts
}

/// The ids of the calls in the last request: different ones, each with one output.
fn calls(sim: &Simulation) -> Vec<String> {
    let (mut calls, mut outputs) = (Vec::new(), Vec::new());
    for item in sim.prompts.last().unwrap().input.iter() {
        let item: Value = serde_json::from_str(item).unwrap();
        let Some(id) = item["call_id"].as_str() else { continue };
        let is_output = item["type"].as_str().unwrap().ends_with("_output");
        if is_output { &mut outputs } else { &mut calls }.push(id.to_owned());
    }
    assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len(), "{calls:?}");
    assert_eq!(calls, outputs);
    calls
}

/// The reasons of failed items.
fn reasons(sim: &Simulation) -> Vec<String> {
    let failed = |item: &&Item| item.status() == Some(ItemStatus::Failed);
    sim.items().into_iter().filter(failed).map(|item| format!("{item:?}")).collect()
}

#[test]
fn a_call_id_counts_once_in_a_response() {
    let custom = Output::Custom { id: "dup".into(), name: "apply_patch".into(), input: "x".into() };
    let outputs = [
        exec("dup", "safe print:one"),
        exec("dup", "safe print:one"),
        exec("other", "safe print:two"),
        custom,
        exec("dup", "safe print:three"),
    ];
    let sim = run(vec![respond(&outputs)]);
    assert_eq!(ran(&sim), ["safe print:one", "safe print:two"]);
    assert_eq!(calls(&sim), ["dup", "other"]);
    let reasons = reasons(&sim);
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("a call with the id `dup` in this response already;"));
}

#[test]
fn a_call_that_comes_again_after_a_cut_does_not_run_again() {
    let first = || exec("a", "safe print:one");
    let broken = |outputs: &[Output]| {
        cut(outputs).into_iter().chain([failed(Retry::Stream)]).collect::<Response>()
    };
    let sim = run(vec![broken(&[first()]), broken(&[first()]), respond(&[first()])]);
    assert_eq!(ran(&sim), ["safe print:one"]);
    assert_eq!(calls(&sim), ["a"]);
    let reasons = reasons(&sim);
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("before it was cut"));
    // After the repetition the model is asked again, as it has not answered.
    assert_eq!(sim.prompts.len(), 4);

    // Another call under the same id is another call.
    let other = exec("a", "safe print:two");
    let sim = run(vec![broken(&[first()]), respond(&[other])]);
    assert_eq!(ran(&sim), ["safe print:one", "safe print:two"]);
    assert_eq!(calls(&sim), ["a", "a-2"]);
    // A request that was refused has returned no call.
    let mut refused = vec![vec![failed(Retry::Request)], respond(&[first()])];
    assert_eq!(ran(&run(refused.clone())), ["safe print:one"]);
    refused.push(respond(&[first()]));
    assert_eq!(ran(&run(refused)).len(), 2, "a response of its own");
}

#[test]
fn model_servers_may_count_calls_from_zero_in_each_response() {
    let response = |print: &str| {
        respond(&[exec("call_0", &format!("safe print:{print}")), exec("call_1", "safe print:x")])
    };
    let sim = run(vec![response("one"), response("two"), response("two")]);
    assert_eq!(ran(&sim).len(), 6);
    assert_eq!(reasons(&sim), [""; 0]);
    let ids = ["call_0", "call_1", "call_0-3", "call_1-4", "call_0-5", "call_1-6"];
    assert_eq!(calls(&sim), ids);
    assert!(sim.output_of("call_0-3").contains("two"));
}

#[test]
fn calls_without_an_id_get_one() {
    let outputs = [exec("", "safe print:one"), exec("", "safe print:two"), say("Wait.")];
    let sim = run(vec![respond(&outputs)]);
    assert_eq!(ran(&sim), ["safe print:one", "safe print:two"]);
    assert_eq!(calls(&sim), ["call-1", "call-2"]);
    assert!(sim.output_of("call-2").contains("two"));
}
