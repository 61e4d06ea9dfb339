//! Responses that break off in the middle of a text, and what a user sends while a text streams.

use session::{Effect, Event, Input, Item, ModelEvent, ModelItemKind, Record, Retry, TurnStatus};

use crate::response::{failed, respond, say};
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};

/// A message of which `part` came.
fn begun(part: &str) -> Vec<ModelEvent> {
    let added = ModelEvent::ItemAdded { index: 0, kind: ModelItemKind::Message { phase: None } };
    vec![added, ModelEvent::TextDelta { index: 0, text: part.to_owned() }]
}

fn messages(sim: &Simulation) -> Vec<(&str, Option<&str>)> {
    let mut messages = Vec::new();
    for item in sim.items() {
        if let Item::AgentMessage { text, reason, .. } = item {
            messages.push((text.as_str(), reason.as_deref()));
        }
    }
    messages
}

#[test]
fn a_text_that_was_cut_off_says_why() {
    let mut cut = begun("The answer");
    cut.push(failed(Retry::Stream));
    let mut script = Script::new(&[]);
    script.responses = vec![cut, respond(&[say("The answer is 42.")])];
    let sim = Simulation::run(&script, Order::Timely);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let expected = [("The answer", Some("the stream broke")), ("The answer is 42.", None)];
    assert_eq!(messages(&sim), expected);
}

#[test]
fn a_text_that_an_interruption_cut_off_is_no_attempt() {
    let mut script = Script::new(&[]);
    script.responses = vec![begun("The answer")];
    let mut sim = Simulation::new(&script, Order::Timely);
    stream(&mut sim);
    let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(messages(&sim), [("The answer", None)]);
}

/// Until the model writes.
fn stream(sim: &mut Simulation) {
    while !sim.events.iter().any(|event| matches!(event, Event::MessageDelta { .. })) {
        sim.advance();
    }
}

#[test]
fn a_message_sent_meanwhile_is_stored_behind_the_text_that_streams() {
    let mut script = Script::new(&[]);
    script.responses = vec![respond(&[say("The answer is 42.")]), respond(&[say("And more.")])];
    let mut sim = Simulation::new(&script, Order::Timely);
    stream(&mut sim);
    let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
    sim.step(Input::Steer { reply, content: text("and that"), expected_turn: turn });
    sim.run_out();
    let mut stored = Vec::new();
    for effect in &sim.effects {
        if let Effect::Persist(Record::Item { item, .. }) = effect
            && !stored.contains(item.id())
        {
            stored.push(item.id().clone());
        }
    }
    // The first words, the answer, what was sent meanwhile, the second answer.
    assert_eq!(stored.len(), 4);
    let started: Vec<_> = sim
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ItemStarted { item, .. } => Some(item.id().clone()),
            _ => None,
        })
        .collect();
    assert_eq!(stored, started);
}
