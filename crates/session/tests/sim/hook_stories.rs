//! What hooks must be able to do, event by event, and what they must not.

use hooks::{Event as HookEvent, EventName, Outcome, Permission, Refusal, StartSource};
use serde_json::json;
use session::{
    ApprovalPolicy, Author, Decision, Effect, Event, Input, Item, ItemStatus, Limits, Mode,
    Overrides, ThreadStart, TurnStatus,
};

use crate::response::{call, escalated, exec, patch, say};
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

fn context(text: &str) -> Outcome {
    Outcome { context: vec![text.to_owned()], ..Outcome::default() }
}

fn refusal(reason: &str) -> Outcome {
    let refusal = Refusal { run: "run".into(), reason: reason.to_owned() };
    Outcome { refusals: vec![refusal], ..Outcome::default() }
}

fn say_of(permission: Permission) -> Outcome {
    Outcome { permission: Some(permission), ..Outcome::default() }
}

fn deny(reason: &str) -> Outcome {
    say_of(Permission::Deny(reason.to_owned()))
}

fn stop() -> Outcome {
    let stop = Refusal { run: "run".into(), reason: "enough".into() };
    Outcome { stops: vec![stop], ..Outcome::default() }
}

/// The events of which hooks ran, in order.
fn events(sim: &Simulation) -> Vec<HookEvent> {
    let event = |effect: &Effect| match effect {
        Effect::RunHooks { event, .. } => Some((**event).clone()),
        _ => None,
    };
    sim.effects.iter().filter_map(event).collect()
}

fn names(sim: &Simulation) -> Vec<EventName> {
    events(sim).iter().map(HookEvent::name).collect()
}

fn failure(sim: &Simulation) -> String {
    let error = |event: &Event| match event {
        Event::Error { error, retry: None, .. } => Some(error.message.clone()),
        _ => None,
    };
    sim.events.iter().find_map(error).unwrap_or_default()
}

/// Whether the model got the text with its request `place`.
fn was_sent(sim: &Simulation, place: usize, text: &str) -> bool {
    sim.prompts[place].input.iter().any(|item| item.contains(text))
}

#[test]
fn a_turn_with_a_call_runs_the_hooks_of_its_events_in_order() {
    use EventName::{
        PostModelRequest, PostToolUse, PreModelRequest, PreToolUse, SessionStart, Stop,
        UserPromptSubmit,
    };
    let sim = run(&Script::new(&[&[exec("a", "print:hello")]]).then("again").hooked(&[]));
    let turn = [PreModelRequest, PostModelRequest];
    let mut expected = vec![SessionStart, UserPromptSubmit];
    expected.extend([PreModelRequest, PreToolUse, PostModelRequest, PostToolUse]);
    expected.extend(turn);
    expected.push(Stop);
    // The thread begins once.
    expected.push(UserPromptSubmit);
    expected.extend(turn);
    expected.push(Stop);
    assert_eq!(names(&sim), expected);
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    let events = events(&sim);
    assert_eq!(events[0], HookEvent::SessionStart { source: StartSource::Startup });
    assert_eq!(events[1], HookEvent::UserPromptSubmit { prompt: "go".into() });
    let HookEvent::PreToolUse(tool) = &events[3] else { panic!("{:?}", events[3]) };
    assert_eq!((tool.name.as_str(), &tool.input), ("Bash", &json!({"command": "print:hello"})));
    let HookEvent::PostToolUse { response, .. } = &events[5] else { panic!("{:?}", events[5]) };
    assert!(response.as_str().unwrap().contains("hello"), "{response}");
    let last_message = Some("that is all".to_owned());
    assert_eq!(events[8], HookEvent::Stop { last_message, is_continued: false });
}

#[test]
fn events_without_hooks_ask_nothing_of_the_driver() {
    let sim = run(&Script::new(&[&[exec("a", "print:hello")]]));
    assert_eq!(names(&sim), []);
    let mut script = Script::new(&[&[exec("a", "print:hello")]]);
    script.hook_events = vec![EventName::Stop];
    assert_eq!(names(&run(&script)), [EventName::Stop]);
}

#[test]
fn context_reaches_the_model_behind_what_it_is_about() {
    let hooks = [
        (EventName::SessionStart, context("at the start")),
        (EventName::UserPromptSubmit, context("with the prompt")),
        (EventName::PreToolUse, context("before the call")),
        (EventName::PostToolUse, context("after the call")),
    ];
    let sim = run(&Script::new(&[&[exec("a", "print:hello")]]).hooked(&hooks));
    let input: Vec<&str> = sim.prompts[0].input.iter().map(|item| &**item).collect();
    let place = |text: &str| input.iter().position(|item| item.contains(text)).unwrap();
    assert!(place(r#""go""#) < place("at the start"), "{input:?}");
    assert!(place("at the start") < place("with the prompt"));
    assert!(input[place("at the start")].contains(r#"<hook_context event=\"SessionStart\">"#));
    assert!(was_sent(&sim, 1, "before the call") && was_sent(&sim, 1, "after the call"));
    assert!(!was_sent(&sim, 0, "before the call"));
    // What was sent once stays as it is: the prompt's prefix is kept.
    let (first, second) = (&sim.prompts[0].input, &sim.prompts[1].input);
    assert!(first.iter().zip(second.iter()).all(|(one, other)| one == other));
}

#[test]
fn a_refused_prompt_is_shown_and_never_sent() {
    let script = Script::new(&[]).hooked(&[(EventName::UserPromptSubmit, refusal("no secrets"))]);
    let sim = run(&script.then("harmless"));
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    assert_eq!(sim.prompts.len(), 1);
    assert!(!was_sent(&sim, 0, r#""go""#) && was_sent(&sim, 0, "harmless"));
    assert!(matches!(sim.items()[0], Item::UserMessage { .. }));
    let Item::HookPrompt { fragments, .. } = sim.items()[1] else { panic!("{:?}", sim.items()) };
    assert_eq!(fragments[0].reason, "no secrets");
    // The end of a turn without a response has no hooks.
    assert_eq!(names(&sim).iter().filter(|name| **name == EventName::Stop).count(), 1);
}

#[test]
fn steered_input_passes_the_hooks_as_well() {
    for (outcome, is_sent) in [(Outcome::default(), true), (refusal("no"), false)] {
        let hooks = [
            (EventName::UserPromptSubmit, Outcome::default()),
            (EventName::UserPromptSubmit, outcome),
        ];
        let script = Script::new(&[&[exec("a", "print:b after:30")]]).hooked(&hooks);
        let mut done = false;
        let sim = Simulation::run_with(&script, Order::Timely, |sim| {
            let runs = sim.effects.iter().any(|effect| matches!(effect, Effect::Run { .. }));
            if runs && !std::mem::replace(&mut done, true) {
                let reply = sim.reply();
                let expected_turn = sim.machine.active_turn().unwrap().to_string();
                sim.step(Input::Steer { reply, content: text("faster"), expected_turn });
            }
        });
        assert_eq!(sim.ends(), [TurnStatus::Completed]);
        let sent = sim.prompts.iter().flat_map(|prompt| prompt.input.iter());
        assert_eq!(sent.into_iter().any(|item| item.contains("faster")), is_sent);
    }
}

#[test]
fn the_input_of_another_agent_is_no_prompt_of_the_user() {
    let mut script = Script::new(&[]).hooked(&[]);
    script.author = Author::Agent;
    script.restored.start = ThreadStart::Agent;
    let sim = run(&script);
    use EventName::{PostModelRequest, PreModelRequest, SubagentStart, SubagentStop};
    assert_eq!(names(&sim), [SubagentStart, PreModelRequest, PostModelRequest, SubagentStop]);
}

#[test]
fn a_refused_call_is_shown_answered_and_not_run() {
    let hooks = [(EventName::PreToolUse, deny("not on a Friday"))];
    let script = Script::new(&[&[exec("a", "print:a"), exec("b", "print:b")]]).hooked(&hooks);
    let sim = run(&script);
    assert_eq!(sim.output_of("a"), "a hook refused the call: not on a Friday");
    assert!(sim.output_of("b").contains('b'));
    assert_eq!(statuses(&sim), [ItemStatus::Failed, ItemStatus::Completed]);
    let answered = names(&sim).into_iter().filter(|name| *name == EventName::PostToolUse);
    assert_eq!(answered.count(), 1, "only what ran has a result");
}

#[test]
fn a_hook_changes_the_arguments_of_a_call() {
    let outcome = |updated| Outcome { updated_input: Some(updated), ..Outcome::default() };
    let hooks = [(EventName::PreToolUse, outcome(json!({"command": "print:changed"})))];
    let sim = run(&Script::new(&[&[exec("a", "print:original")]]).hooked(&hooks));
    assert!(sim.output_of("a").contains("changed"), "{}", sim.output_of("a"));
    let hooks = [(EventName::PreToolUse, outcome(json!({"cmd": "x"})))];
    let sim = run(&Script::new(&[&[exec("a", "print:original")]]).hooked(&hooks));
    assert!(sim.output_of("a").contains("a hook changed the call"), "{}", sim.output_of("a"));
    let hooks = [(EventName::PreToolUse, outcome(json!({"plan": 7})))];
    let sim = run(&Script::new(&[&[call("a", "update_plan", json!({"plan": []}))]]).hooked(&hooks));
    let output = sim.output_of("a");
    assert!(output.starts_with("a hook changed the arguments of the call: "), "{output}");
}

#[test]
fn the_consent_of_a_hook_answers_what_the_user_would_be_asked() {
    for event in [EventName::PreToolUse, EventName::PermissionRequest] {
        let script = Script::new(&[&[escalated("a", "print:a")]]);
        let sim = run(&script.clone().hooked(&[(event, say_of(Permission::Allow))]));
        assert_eq!((sim.asks(), statuses(&sim)), (0, vec![ItemStatus::Completed]), "{event}");
        let sim = run(&script.clone().hooked(&[(event, deny("no"))]));
        let expected =
            if event == EventName::PreToolUse { ItemStatus::Failed } else { ItemStatus::Declined };
        assert_eq!((sim.asks(), statuses(&sim)), (0, vec![expected]), "{event}");
        assert!(sim.output_of("a").ends_with(": no"));
        let sim = run(&script.hooked(&[]).deciding(&[Decision::Decline]));
        assert_eq!((sim.asks(), statuses(&sim)), (1, vec![ItemStatus::Declined]), "{event}");
    }
}

#[test]
fn consent_does_not_reach_beyond_the_policy() {
    let hooks = [(EventName::PreToolUse, say_of(Permission::Allow))];
    let script = Script::new(&[&[exec("a", "forbid print:a")]]).hooked(&hooks);
    let sim = run(&script);
    assert_eq!(statuses(&sim), [ItemStatus::Declined]);
    // What a hook said about one call says nothing about another.
    let script = Script::new(&[&[escalated("a", "print:a"), escalated("b", "print:b")]]);
    let sim = run(&script.hooked(&hooks));
    assert_eq!(sim.asks(), 1);
}

#[test]
fn a_hook_has_the_user_asked() {
    let hooks = [(EventName::PreToolUse, say_of(Permission::Ask(None)))];
    let script = Script::new(&[&[exec("a", "safe print:a")]]).hooked(&hooks);
    assert_eq!(run(&script).asks(), 1);
    let sim = run(&script.clone().deciding(&[Decision::Decline]));
    assert_eq!(statuses(&sim), [ItemStatus::Declined]);
    let never = run(&script.asking(ApprovalPolicy::Never));
    assert_eq!((never.asks(), statuses(&never)), (0, vec![ItemStatus::Declined]));
    assert!(never.output_of("a").contains("the approval policy does not allow"));
}

#[test]
fn settings_that_change_meanwhile_void_the_consent_of_a_hook() {
    let hooks = [(EventName::PermissionRequest, say_of(Permission::Allow))];
    let script = Script::new(&[&[escalated("a", "print:a")]]).hooked(&hooks);
    let mut done = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        let is_asked = names(sim).contains(&EventName::PermissionRequest);
        if is_asked && !std::mem::replace(&mut done, true) {
            let mode = Some((Mode::Plan, None));
            let overrides = Overrides { mode, ..Overrides::default() };
            sim.step(Input::Override { overrides });
        }
    });
    assert_eq!(sim.asks(), 1, "the user is asked after all");
}

#[test]
fn feedback_and_other_results_reach_the_model() {
    let hooks = [(EventName::PostToolUse, refusal("the tests fail"))];
    let sim = run(&Script::new(&[&[exec("a", "print:done")]]).hooked(&hooks));
    let output = sim.output_of("a");
    assert!(output.contains("done"), "{output}");
    assert!(output.ends_with("<hook_feedback>\nthe tests fail\n</hook_feedback>"), "{output}");

    let updated = Outcome { updated_output: Some(json!("redacted")), ..Outcome::default() };
    let script = Script::new(&[&[call("a", "mcp__s__reads", json!({})), exec("b", "print:done")]]);
    let hooks = [(EventName::PostToolUse, updated.clone()), (EventName::PostToolUse, updated)];
    let sim = run(&script.with_server().hooked(&hooks));
    assert_eq!(sim.output_of("a"), "redacted");
    assert!(sim.output_of("b").contains("done"), "only results of MCP servers can be replaced");
}

#[test]
fn a_turn_goes_on_when_a_hook_refuses_its_end() {
    let hooks = [(EventName::Stop, refusal("run the tests"))];
    let sim = run(&Script::new(&[&[say("done")]]).hooked(&hooks));
    assert_eq!((sim.ends(), sim.prompts.len()), (vec![TurnStatus::Completed], 2));
    assert!(was_sent(&sim, 1, "run the tests"));
    let prompts: Vec<&Item> =
        sim.items().into_iter().filter(|item| matches!(item, Item::HookPrompt { .. })).collect();
    let [Item::HookPrompt { fragments, .. }] = prompts.as_slice() else { panic!("{prompts:?}") };
    assert_eq!((fragments[0].run.as_str(), fragments[0].reason.as_str()), ("run", "run the tests"));
    let is_continued: Vec<bool> = events(&sim)
        .iter()
        .filter_map(|event| match event {
            HookEvent::Stop { is_continued, .. } => Some(*is_continued),
            _ => None,
        })
        .collect();
    assert_eq!(is_continued, [false, true]);
}

#[test]
fn a_hook_that_never_lets_a_turn_end_does_not_keep_it() {
    let hooks = vec![(EventName::Stop, refusal("more")); 100];
    let sim = run(&Script::new(&[]).hooked(&hooks));
    assert_eq!((sim.ends(), sim.prompts.len()), (vec![TurnStatus::Completed], 17));
}

#[test]
fn every_hook_can_end_the_turn() {
    use EventName::{
        PermissionRequest, PostModelRequest, PostToolUse, PreModelRequest, PreToolUse,
        SessionStart, Stop, UserPromptSubmit,
    };
    let events = [
        SessionStart,
        UserPromptSubmit,
        PreModelRequest,
        PostModelRequest,
        PreToolUse,
        PermissionRequest,
        PostToolUse,
        Stop,
    ];
    for event in events {
        let script = Script::new(&[&[escalated("a", "print:a")]]).hooked(&[(event, stop())]);
        for order in [Order::Timely, Order::Shuffled(7)] {
            let sim = Simulation::run(&script, order);
            let [end] = sim.ends()[..] else { panic!("{event}: {:?}", sim.ends()) };
            // Whether a call is cut short can depend on the order.
            let is_cut = matches!(event, PreToolUse | PermissionRequest | PostToolUse);
            let may_be_cut = is_cut || event == PostModelRequest;
            assert!(end == TurnStatus::Completed || may_be_cut, "{event}: {end:?}");
            let expected = if event == Stop { 2 } else { 1 };
            assert!(sim.prompts.len() <= expected, "{event}");
        }
    }
}

#[test]
fn a_refused_request_fails_the_turn() {
    let hooks = [(EventName::PreModelRequest, refusal("over budget"))];
    let sim = run(&Script::new(&[]).hooked(&hooks));
    assert_eq!((sim.ends(), sim.prompts.len()), (vec![TurnStatus::Failed], 0));
    assert_eq!(failure(&sim), "a hook refused a request to the model: over budget");
}

#[test]
fn hooks_of_a_compaction() {
    let compact = |hooks: &[(EventName, Outcome)]| {
        let mut sim =
            Simulation::new(&Script::new(&[&[say("hello")]]).hooked(hooks), Order::Timely);
        sim.run_out();
        sim.respond_with(&[say("the summary")]);
        let reply = sim.reply();
        sim.step(Input::Compact { reply });
        sim.run_out();
        sim
    };
    let sim = compact(&[
        (EventName::SessionStart, Outcome::default()),
        (EventName::SessionStart, context("remember me")),
    ]);
    let last = &names(&sim)[names(&sim).len() - 4..];
    let expected = [
        EventName::PreCompact,
        EventName::PreModelRequest,
        EventName::PostCompact,
        EventName::SessionStart,
    ];
    assert_eq!(last, expected);
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    // The model gets it with the next turn.
    let stored = format!("{:?}", sim.records);
    assert!(stored.contains("remember me"), "{stored}");

    let sim = compact(&[(EventName::PreCompact, refusal("keep it all"))]);
    assert_eq!(sim.ends(), [TurnStatus::Completed, TurnStatus::Failed]);
    assert_eq!(failure(&sim), "a hook refused the compaction of the history: keep it all");
    assert_eq!(sim.prompts.len(), 1);

    // The request for the summary is one of those that hooks look at.
    let sim = compact(&[
        (EventName::PreModelRequest, Outcome::default()),
        (EventName::PreModelRequest, refusal("not this one")),
    ]);
    assert_eq!(sim.ends(), [TurnStatus::Completed, TurnStatus::Failed]);
    assert_eq!(failure(&sim), "a hook refused a request to the model: not this one");
    assert_eq!(sim.prompts.len(), 1);
}

#[test]
fn a_refused_compaction_by_itself_leaves_the_turn_alone() {
    let mut script = Script::new(&[&[exec("a", &format!("print:{}", "x".repeat(4_000)))]])
        .hooked(&[(EventName::PreCompact, refusal("keep it all"))]);
    script.limits = Limits { compact_at_tokens: Some(300), ..Limits::default() };
    let sim = run(&script);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    assert!(names(&sim).contains(&EventName::PreCompact));
    assert!(!sim.items().iter().any(|item| matches!(item, Item::ContextCompaction { .. })));
}

#[test]
fn an_interrupt_runs_its_hooks_and_cancels_the_others() {
    let script = Script::new(&[]).hooked(&[]);
    let mut done = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        let begun = names(sim).len() == 2;
        if begun && !std::mem::replace(&mut done, true) {
            let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
            sim.step(Input::Interrupt { reply, turn });
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    use EventName::{Interrupt, SessionStart, UserPromptSubmit};
    assert_eq!(names(&sim), [SessionStart, UserPromptSubmit, Interrupt]);
    let cancelled = sim.effects.iter().filter(|it| matches!(it, Effect::CancelHooks { .. }));
    assert_eq!(cancelled.count(), 2);
    assert_eq!(sim.prompts.len(), 0);
}

#[test]
fn a_patch_that_hooks_look_at_runs_alone() {
    let script = Script::new(&[&[exec("a", "print:a after:50"), patch("b", "*** Begin Patch")]]);
    let sim = run(&script.hooked(&[]));
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
}
