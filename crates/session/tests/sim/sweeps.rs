//! Sweeps: one thing done to every scenario at every step, in several orders of delivery.

use session::{Author, Decision, Effect, Input, ModelEvent, Overrides, Retry};

use crate::response::failed;
use crate::scenarios;
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};

/// In the order of time, and in an order that differs from step to step.
fn orders(at: usize) -> [Order; 2] {
    [Order::Timely, Order::Shuffled(at as u64)]
}

/// Runs every scenario with `inject` called once, before every possible step.
fn at_every_step(inject: impl Fn(&mut Simulation)) {
    for (name, script) in scenarios::all() {
        let steps = Simulation::run(&script, Order::Timely).steps;
        for at in 0..=steps {
            for order in orders(at) {
                // The note names the run when an assertion in it fails.
                let _note = PanicNote(format!("{name}, {order:?}, step {at}"));
                let mut done = false;
                Simulation::run_with(&script, order, |sim| {
                    if sim.steps == at && !done {
                        done = true;
                        inject(sim);
                    }
                });
            }
        }
    }
}

/// Says which run panicked.
struct PanicNote(String);

impl Drop for PanicNote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failing sweep says where it was")]
            {
                eprintln!("in: {}", self.0);
            }
        }
    }
}

fn active(sim: &Simulation) -> String {
    sim.machine.active_turn().map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[test]
fn every_scenario_ends_in_every_order() {
    for (name, script) in scenarios::all() {
        let _note = PanicNote(name.to_owned());
        Simulation::run(&script, Order::Timely);
        for seed in 0..40 {
            let _note = PanicNote(format!("seed {seed}"));
            Simulation::run(&script, Order::Shuffled(seed));
        }
    }
}

#[test]
fn interrupt_at_every_step() {
    at_every_step(|sim| {
        let (reply, turn) = (sim.reply(), active(sim));
        sim.step(Input::Interrupt { reply, turn });
    });
}

#[test]
fn a_double_interrupt_at_every_step() {
    at_every_step(|sim| {
        let (first, second, turn) = (sim.reply(), sim.reply(), active(sim));
        sim.step(Input::Interrupt { reply: first, turn: turn.clone() });
        sim.step(Input::Interrupt { reply: second, turn });
    });
}

#[test]
fn interrupt_and_restart_at_every_step() {
    at_every_step(|sim| {
        let (reply, turn) = (sim.reply(), active(sim));
        sim.step(Input::Interrupt { reply, turn });
        start(sim);
    });
}

#[test]
fn steer_at_every_step() {
    at_every_step(|sim| {
        let (reply, expected_turn) = (sim.reply(), active(sim));
        sim.step(Input::Steer { reply, content: text("left!"), expected_turn });
    });
}

#[test]
fn a_second_turn_at_every_step() {
    at_every_step(|sim| {
        start(sim);
        let (reply, expected_turn) = (sim.reply(), active(sim));
        sim.step(Input::Steer { reply, content: text("and right!"), expected_turn });
    });
}

fn start(sim: &mut Simulation) {
    let reply = sim.reply();
    let overrides = Overrides { cwd: Some("/elsewhere".into()), ..Overrides::default() };
    sim.step(Input::Start {
        reply,
        author: Author::User,
        content: text("also"),
        overrides,
        output_schema: None,
    });
}

#[test]
fn shutdown_at_every_step() {
    at_every_step(|sim| sim.step(Input::Shutdown));
}

/// Whatever is running when a thread begins to drain: the model is not asked again, no response is cut
/// short, and the turn comes to its end by itself.
#[test]
fn drain_at_every_step() {
    for (name, script) in scenarios::all() {
        let undisturbed = Simulation::run(&script, Order::Timely);
        // Users who cancel, limits that are passed and a missing sandbox cut a response, whatever
        // the thread is about.
        let cuts = name == "no sandbox"
            || undisturbed.effects.iter().any(|e| matches!(e, Effect::CancelSample { .. }))
            || script.decisions.contains(&Decision::Cancel)
            || script.second_answer == Some(Decision::Cancel);
        for at in 0..=undisturbed.steps {
            for order in orders(at) {
                let _note = PanicNote(format!("{name}, {order:?}, step {at}"));
                let mut drained = None;
                let sim = Simulation::run_with(&script, order, |sim| {
                    if sim.steps == at && drained.is_none() {
                        drained = Some(sim.effects.len());
                        sim.step(Input::Drain);
                    }
                });
                let Some(drained) = drained else { continue };
                for effect in &sim.effects[drained..] {
                    let begun = matches!(effect, Effect::Sample { .. });
                    let cut = matches!(effect, Effect::CancelSample { .. }) && !cuts;
                    assert!(!begun && !cut, "{effect:?}");
                }
                assert_eq!(sim.machine.active_turn(), None);
            }
        }
    }
}

#[test]
fn store_failure_at_every_step() {
    at_every_step(|sim| sim.step(Input::StoreFailed { message: "the disk is full".into() }));
}

#[test]
fn the_model_fails_at_every_event() {
    for (name, script) in scenarios::all() {
        let events: usize = script.responses.iter().map(Vec::len).sum();
        for at in 0..events {
            for retry in [Retry::Request, Retry::Stream, Retry::Never] {
                for keep in [true, false] {
                    let _note = PanicNote(format!("{name}, event {at}, {retry:?}, keep {keep}"));
                    let script = failing(&script, at, retry, keep);
                    for order in orders(at) {
                        Simulation::run(&script, order);
                    }
                }
            }
        }
    }
}

/// `script` with its `at`-th model event replaced by a failure; with `keep`, what was cut off
/// comes with the next response, as a provider does that answers the same request again.
fn failing(script: &Script, at: usize, retry: Retry, keep: bool) -> Script {
    let mut script = script.clone();
    let mut at = at;
    for index in 0..script.responses.len() {
        let length = script.responses[index].len();
        if at >= length {
            at -= length;
            continue;
        }
        let whole = script.responses[index].clone();
        script.responses[index].truncate(at);
        script.responses[index].push(failed(retry));
        if keep {
            script.responses.insert(index + 1, again(whole));
        }
        break;
    }
    script
}

/// The response of a second try: its calls have new ids.
fn again(events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    use session::ModelItem::{CustomToolCall, FunctionCall};
    events
        .into_iter()
        .map(|event| {
            let ModelEvent::ItemDone { index, raw, mut item } = event else { return event };
            let mut value: serde_json::Value = serde_json::from_str(&raw).unwrap();
            if let FunctionCall { call_id, .. } | CustomToolCall { call_id, .. } = &mut item {
                call_id.push_str("-again");
                value["call_id"] = call_id.as_str().into();
            }
            ModelEvent::ItemDone { index, raw: value.to_string().into(), item }
        })
        .collect()
}

#[test]
fn an_approval_is_answered_after_its_turn_ended() {
    for (name, script) in scenarios::all() {
        for end in [true, false] {
            let _note = PanicNote(name.to_owned());
            let mut asked = Vec::new();
            Simulation::run_with(&script, Order::Timely, |sim| {
                let request = sim.effects.iter().rev().find_map(|effect| match effect {
                    Effect::Ask { request, .. } => Some(*request),
                    _ => None,
                });
                let Some(request) = request.filter(|request| !asked.contains(request)) else {
                    return;
                };
                asked.push(request);
                let (reply, turn) = (sim.reply(), active(sim));
                if end {
                    sim.step(Input::Interrupt { reply, turn });
                } else {
                    sim.step(Input::StoreFailed { message: "gone".into() });
                }
                let before = sim.effects.len();
                for decision in decisions() {
                    sim.step(Input::Decided { request, decision });
                }
                assert_eq!(sim.effects.len(), before, "a late answer had effects");
            });
        }
    }
}

#[test]
fn two_clients_answer_the_same_request() {
    for first in decisions() {
        for second in decisions() {
            for (name, script) in scenarios::all() {
                let _note = PanicNote(format!("{name}: {first:?}, then {second:?}"));
                let mut script = script;
                script.decisions = vec![first.clone(); 8];
                script.second_answer = Some(second.clone());
                for order in orders(7) {
                    Simulation::run(&script, order);
                }
            }
        }
    }
}

fn decisions() -> [Decision; 5] {
    [
        Decision::Accept,
        Decision::AcceptForSession,
        Decision::AcceptWithAmendment(vec!["make".into()]),
        Decision::Decline,
        Decision::Cancel,
    ]
}
