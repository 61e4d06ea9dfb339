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

/// The deltas of messages, a text for each item.
fn deltas(sim: &Simulation) -> Vec<String> {
    let mut shown: Vec<(&str, String)> = Vec::new();
    for event in &sim.events {
        if let Event::MessageDelta { item, text, .. } = event {
            match shown.iter_mut().find(|(id, _)| *id == &**item) {
                Some((_, all)) => all.push_str(text),
                None => shown.push((item, text.clone())),
            }
        }
    }
    shown.into_iter().map(|(_, text)| text).collect()
}

const BROKE: Option<&str> = Some("the stream broke");

#[test]
fn a_text_that_broke_off_goes_on_where_the_next_response_repeats_it() {
    type Messages<'a> = &'a [(&'a str, Option<&'a str>)];
    // What came of each response that broke off, the last one, and the items.
    let cases: [(&[&str], &str, Messages<'_>); 7] = [
        (&["The answer"], "The answer is 42.", &[("The answer is 42.", None)]),
        (&["The answer"], "The answer", &[("The answer", None)]),
        (&["The", "The answer"], "The answer is 42.", &[("The answer is 42.", None)]),
        (&["The answer", "The"], "The answer is 42.", &[("The answer is 42.", None)]),
        // Another text has an item of its own.
        (&["The answer"], "The solution", &[("The answer", BROKE), ("The solution", None)]),
        (&["The answer"], "The", &[("The answer", BROKE), ("The", None)]),
        (&["Où"], "Or", &[("Où", BROKE), ("Or", None)]),
    ];
    for (broken, last, expect) in cases {
        let mut script = Script::new(&[]);
        script.responses = broken
            .iter()
            .map(|part| begun(part).into_iter().chain([failed(Retry::Stream)]).collect())
            .chain([respond(&[say(last)])])
            .collect();
        let sim = Simulation::run(&script, Order::Timely);
        assert_eq!(sim.ends(), [TurnStatus::Completed], "{broken:?}");
        assert_eq!(messages(&sim), expect, "{broken:?}");
        let texts: Vec<&str> = expect.iter().map(|(text, _)| *text).collect();
        assert_eq!(deltas(&sim), texts, "{broken:?}: each text is shown once");
    }
}

#[test]
fn a_whole_message_completes_the_text_that_broke_off() {
    for (last, expect) in [
        ("The answer is 42.", vec![("The answer is 42.", None)]),
        ("No.", vec![("The answer", BROKE), ("No.", None)]),
    ] {
        let mut script = Script::new(&[]);
        let cut = begun("The answer").into_iter().chain([failed(Retry::Stream)]).collect();
        // Without deltas.
        let whole = respond(&[say(last)]).into_iter();
        let whole = whole.filter(|event| !matches!(event, ModelEvent::TextDelta { .. })).collect();
        script.responses = vec![cut, whole];
        let sim = Simulation::run(&script, Order::Timely);
        assert_eq!(messages(&sim), expect);
    }
}

#[test]
fn a_text_that_no_response_goes_on_with_says_why() {
    let cut = || begun("The answer").into_iter().chain([failed(Retry::Stream)]).collect();
    let mut script = Script::new(&[]);
    script.responses = vec![cut(), respond(&[crate::response::exec("c", "safe print:1 after:0")])];
    let sim = Simulation::run(&script, Order::Timely);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    assert_eq!(messages(&sim)[0], ("The answer", BROKE));
    // No further try, and an interruption during the wait.
    let mut script = Script::new(&[]);
    script.limits.stream_retries = 1;
    script.responses = vec![cut(), cut()];
    let sim = Simulation::run(&script, Order::Timely);
    assert_eq!(sim.ends(), [TurnStatus::Failed]);
    let [(text, Some(reason))] = messages(&sim)[..] else { panic!("{:?}", messages(&sim)) };
    assert!(text == "The answer" && reason.starts_with("the stream broke"), "{reason}");
    let mut sim = Simulation::new(&script, Order::Timely);
    while !sim.effects.iter().any(|effect| matches!(effect, Effect::RetryAfter { .. })) {
        sim.advance();
    }
    let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(messages(&sim), [("The answer", BROKE)]);
}

#[test]
fn reasoning_that_broke_off_goes_on_likewise() {
    for (last, expect) in [("hm, yes", vec!["hm, yes"]), ("so", vec!["hm", "so"])] {
        let part = |text: &str| {
            let text = text.to_owned();
            ModelEvent::SummaryDelta { index: 0, part: 0, text }
        };
        let mut script = Script::new(&[]);
        let added = ModelEvent::ItemAdded { index: 0, kind: ModelItemKind::Reasoning };
        let thought = crate::response::Output::Reasoning {
            summary: vec![last.to_owned()],
            content: Vec::new(),
        };
        script.responses =
            vec![vec![added, part("hm"), failed(Retry::Stream)], respond(&[thought, say("ok")])];
        let sim = Simulation::run(&script, Order::Timely);
        let texts: Vec<String> = sim
            .items()
            .into_iter()
            .filter_map(|item| match item {
                Item::Reasoning { summary, .. } => Some(summary.concat()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, expect);
        let shown: String = sim
            .events
            .iter()
            .filter_map(|event| match event {
                Event::SummaryDelta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(shown, expect.concat());
    }
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
