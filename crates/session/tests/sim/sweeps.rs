//! Sweeps: one thing done to every scenario at every step, in several orders of delivery.

use session::{Decision, Effect, Input, ModelEvent, Overrides, Retry};

use crate::response::failed;
use crate::scenarios;
use crate::script::{Script, text};
use crate::world::{Order, World};

/// In the order of time, and in an order that differs from step to step.
fn orders(at: usize) -> [Order; 2] {
    [Order::Timely, Order::Shuffled(at as u64)]
}

/// Runs every scenario with `inject` called once, before every possible step.
fn at_every_step(inject: impl Fn(&mut World)) {
    for (name, script) in scenarios::all() {
        let steps = World::run(&script, Order::Timely).steps;
        for at in 0..=steps {
            for order in orders(at) {
                // The note names the run when an assertion in it fails.
                let _note = Note(format!("{name}, {order:?}, step {at}"));
                let mut done = false;
                World::run_with(&script, order, |world| {
                    if world.steps == at && !done {
                        done = true;
                        inject(world);
                    }
                });
            }
        }
    }
}

/// Says which run panicked.
struct Note(String);

impl Drop for Note {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failing sweep says where it was")]
            {
                eprintln!("in: {}", self.0);
            }
        }
    }
}

fn active(world: &World) -> String {
    world.machine.active_turn().map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[test]
fn every_scenario_ends_in_every_order() {
    for (name, script) in scenarios::all() {
        let _note = Note(name.to_owned());
        World::run(&script, Order::Timely);
        for seed in 0..40 {
            let _note = Note(format!("seed {seed}"));
            World::run(&script, Order::Shuffled(seed));
        }
    }
}

#[test]
fn interrupt_at_every_step() {
    at_every_step(|world| {
        let (reply, turn) = (world.reply(), active(world));
        world.step(Input::Interrupt { reply, turn });
    });
}

#[test]
fn a_double_interrupt_at_every_step() {
    at_every_step(|world| {
        let (first, second, turn) = (world.reply(), world.reply(), active(world));
        world.step(Input::Interrupt { reply: first, turn: turn.clone() });
        world.step(Input::Interrupt { reply: second, turn });
    });
}

#[test]
fn interrupt_and_restart_at_every_step() {
    at_every_step(|world| {
        let (reply, turn) = (world.reply(), active(world));
        world.step(Input::Interrupt { reply, turn });
        start(world);
    });
}

#[test]
fn steer_at_every_step() {
    at_every_step(|world| {
        let (reply, expected_turn) = (world.reply(), active(world));
        world.step(Input::Steer { reply, content: text("left!"), expected_turn });
    });
}

#[test]
fn a_second_turn_at_every_step() {
    at_every_step(|world| {
        start(world);
        let (reply, expected_turn) = (world.reply(), active(world));
        world.step(Input::Steer { reply, content: text("and right!"), expected_turn });
    });
}

fn start(world: &mut World) {
    let reply = world.reply();
    let overrides = Overrides { cwd: Some("/elsewhere".into()), ..Overrides::default() };
    world.step(Input::Start { reply, content: text("also"), overrides, output_schema: None });
}

#[test]
fn shutdown_at_every_step() {
    at_every_step(|world| world.step(Input::Shutdown));
}

/// Whatever goes on when a thread begins to drain: the model is not asked again, no response is cut
/// short, and the turn comes to its end by itself.
#[test]
fn drain_at_every_step() {
    for (name, script) in scenarios::all() {
        let undisturbed = World::run(&script, Order::Timely);
        // Users who cancel, limits that are passed and a missing sandbox cut a response, whatever
        // the thread is about.
        let cuts = name == "no sandbox"
            || undisturbed.effects.iter().any(|e| matches!(e, Effect::CancelSample { .. }))
            || script.decisions.contains(&Decision::Cancel)
            || script.second_answer == Some(Decision::Cancel);
        for at in 0..=undisturbed.steps {
            for order in orders(at) {
                let _note = Note(format!("{name}, {order:?}, step {at}"));
                let mut drained = None;
                let world = World::run_with(&script, order, |world| {
                    if world.steps == at && drained.is_none() {
                        drained = Some(world.effects.len());
                        world.step(Input::Drain);
                    }
                });
                let Some(drained) = drained else { continue };
                for effect in &world.effects[drained..] {
                    let begun = matches!(effect, Effect::Sample { .. });
                    let cut = matches!(effect, Effect::CancelSample { .. }) && !cuts;
                    assert!(!begun && !cut, "{effect:?}");
                }
                assert_eq!(world.machine.active_turn(), None);
            }
        }
    }
}

#[test]
fn store_failure_at_every_step() {
    at_every_step(|world| world.step(Input::StoreFailed { message: "the disk is full".into() }));
}

#[test]
fn the_model_fails_at_every_event() {
    for (name, script) in scenarios::all() {
        let events: usize = script.responses.iter().map(Vec::len).sum();
        for at in 0..events {
            for retry in [Retry::Request, Retry::Stream, Retry::Never] {
                for keep in [true, false] {
                    let _note = Note(format!("{name}, event {at}, {retry:?}, keep {keep}"));
                    let script = failing(&script, at, retry, keep);
                    for order in orders(at) {
                        World::run(&script, order);
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
            let _note = Note(name.to_owned());
            let mut asked = Vec::new();
            World::run_with(&script, Order::Timely, |world| {
                let request = world.effects.iter().rev().find_map(|effect| match effect {
                    Effect::Ask { request, .. } => Some(*request),
                    _ => None,
                });
                let Some(request) = request.filter(|request| !asked.contains(request)) else {
                    return;
                };
                asked.push(request);
                let (reply, turn) = (world.reply(), active(world));
                if end {
                    world.step(Input::Interrupt { reply, turn });
                } else {
                    world.step(Input::StoreFailed { message: "gone".into() });
                }
                let before = world.effects.len();
                for decision in decisions() {
                    world.step(Input::Decided { request, decision });
                }
                assert_eq!(world.effects.len(), before, "a late answer had effects");
            });
        }
    }
}

#[test]
fn two_clients_answer_the_same_request() {
    for first in decisions() {
        for second in decisions() {
            for (name, script) in scenarios::all() {
                let _note = Note(format!("{name}: {first:?}, then {second:?}"));
                let mut script = script;
                script.decisions = vec![first.clone(); 8];
                script.second_answer = Some(second.clone());
                for order in orders(7) {
                    World::run(&script, order);
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
