//! Providers that refuse a part of the history.

use session::{Event, Failure, FailureKind, ModelEvent, TurnStatus};

use crate::response::{Output, respond, say};
use crate::script::Script;
use crate::simulation::{Order, Simulation};

/// The provider refuses the request.
fn refused(says: &str) -> Vec<ModelEvent> {
    let message = format!("POST http://host answered 400 Bad Request: {says}");
    let failure =
        Failure { http_status: Some(400), ..Failure::new(FailureKind::BadRequest, message) };
    vec![ModelEvent::Failed(failure)]
}

fn thought() -> Output {
    Output::Reasoning { summary: vec!["hm".into()], content: Vec::new() }
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let found = events.iter().filter_map(|event| match event {
        Event::Warning { message } => Some(message.as_str()),
        _ => None,
    });
    found.collect()
}

#[test]
fn a_refused_part_of_the_history_is_left_out_from_then_on() {
    let mut script = Script::new(&[]).then("again").then("and again");
    script.responses = vec![
        respond(&[thought(), say("one")]),
        refused("Unknown item type: reasoning"),
        respond(&[thought(), say("two")]),
        respond(&[say("three")]),
    ];
    let sim = Simulation::run(&script, Order::Timely);
    assert_eq!(sim.ends(), [TurnStatus::Completed; 3]);
    let has_reasoning: Vec<bool> =
        sim.prompts.iter().map(|prompt| prompt.input.concat().contains("\"reasoning\"")).collect();
    assert_eq!(has_reasoning, [false, true, false, false]);
    let [warning] = warnings(&sim.events)[..] else { panic!("{:?}", sim.events) };
    assert!(warning.contains("refused reasoning in the history"), "{warning}");
}

#[test]
fn a_refused_message_of_the_model_does_not_end_the_thread() {
    for says in [
        "Input should be a valid string: input[3].content[0]",
        "assistant message content must be a string",
        "Invalid 'input[3].content[0].type': expected 'input_text'",
    ] {
        let mut script = Script::new(&[]).then("again").then("and again");
        script.responses = vec![
            respond(&[say("one")]),
            refused(says),
            respond(&[say("two")]),
            respond(&[say("three")]),
        ];
        let sim = Simulation::run(&script, Order::Timely);
        assert_eq!(sim.ends(), [TurnStatus::Completed; 3], "{says}");
        assert_eq!(sim.prompts.len(), 4, "{says}");
        let is_plain = |prompt: &session::Prompt| {
            let mut said = prompt.input.iter().filter(|item| item.contains("\"assistant\""));
            said.all(|item| item.contains("\"content\":\""))
        };
        assert!(is_plain(&sim.prompts[2]) && is_plain(&sim.prompts[3]), "{says}");
        assert_eq!(warnings(&sim.events).len(), 1, "{says}");
    }
}

#[test]
fn a_refusal_that_is_not_understood_says_how_to_go_on() {
    let mut script = Script::new(&[]).then("again");
    script.responses = vec![respond(&[thought(), say("one")]), refused("no")];
    let sim = Simulation::run(&script, Order::Timely);
    assert_eq!(sim.ends(), [TurnStatus::Completed, TurnStatus::Failed]);
    assert_eq!(sim.prompts.len(), 2);
    let errors: Vec<&str> = sim
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Error { error, .. } => Some(error.message.as_str()),
            _ => None,
        })
        .collect();
    let [error] = errors[..] else { panic!("{errors:?}") };
    assert!(error.contains("1 × `assistant message`"), "{error}");
    assert!(error.contains("1 × `reasoning`") && error.contains("thread/rollback"), "{error}");
}
