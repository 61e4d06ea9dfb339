//! What single scenarios must show beyond the promises that hold in every run.

use session::{
    Author, Effect, Event, Failure, FailureKind, Input, Item, ItemStatus, Mode, ModelEvent,
    ModelNotice, Overrides, Record, ResponseSource, ResponseUsage, Retry, SandboxPolicy, Status,
    TurnStatus, Usage, Verification,
};

use crate::response::{Output, cut, exec, failed, patch, respond, say, tty, write};
use crate::scenarios;
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};

pub(crate) fn run(script: &Script) -> Simulation {
    Simulation::run(script, Order::Timely)
}

pub(crate) fn scenario(name: &str) -> Simulation {
    let (_, script) = scenarios::all().into_iter().find(|(found, _)| *found == name).unwrap();
    run(&script)
}

pub(crate) fn statuses(sim: &Simulation) -> Vec<ItemStatus> {
    sim.items().into_iter().filter_map(Item::status).collect()
}

#[test]
fn plain_text_streams_and_completes() {
    let sim = scenario("plain text");
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let deltas: Vec<&str> = sim
        .events
        .iter()
        .filter_map(|event| match event {
            Event::MessageDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deltas, ["Hello", " there"]);
    assert!(matches!(sim.items()[1], Item::AgentMessage { text, .. } if text == "Hello there"));
    assert!(sim.records.iter().any(|record| matches!(record, Record::Preview(_))));
}

#[test]
fn each_summary_section_boundary_is_reported_once() {
    let sim = scenario("reasoning");
    let boundaries: Vec<usize> = sim
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SummaryPartAdded { index, .. } => Some(*index),
            _ => None,
        })
        .collect();
    assert_eq!(boundaries, [0, 1]);
    let expected = ["first".to_owned(), "second".to_owned()];
    assert!(matches!(sim.items()[1], Item::Reasoning { summary, content, .. }
        if *summary == expected && content == &["raw".to_owned()]));
}

#[test]
fn a_plan_is_a_separate_item() {
    let plan_of = |sim: &Simulation| {
        sim.items().into_iter().find_map(|item| match item {
            Item::Plan { text, .. } => Some(text.clone()),
            _ => None,
        })
    };
    assert_eq!(plan_of(&scenario("plan mode")).as_deref(), Some("1. do"));
    // Also when the provider sends no deltas.
    let whole = "<proposed_plan>\n2. whole\n</proposed_plan>";
    let mut script = Script::new(&[&[Output::Whole(whole.into())]]);
    script.settings.mode = Mode::Plan;
    assert_eq!(plan_of(&run(&script)).as_deref(), Some("2. whole"));
    script.responses[0].insert(
        0,
        ModelEvent::ItemAdded { index: 0, kind: session::ModelItemKind::Message { phase: None } },
    );
    assert_eq!(plan_of(&run(&script)).as_deref(), Some("2. whole"));
}

#[test]
fn commands_run_concurrently_and_answer_in_order() {
    let sim = scenario("parallel commands");
    let order: Vec<bool> = sim
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Run { .. } => Some(true),
            Effect::Emit(Event::ItemCompleted { item: Item::Command(_), .. }) => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(order, [true, true, false, false]);
    assert_eq!(statuses(&sim), [ItemStatus::Completed, ItemStatus::Failed]);
    assert!(sim.output_of("a").contains("exited with code 0\nOutput:\none"));
    assert!(sim.output_of("b").contains("exited with code 2"));
}

#[test]
fn a_patch_runs_alone() {
    let sim = scenario("patch between commands");
    let order: Vec<&str> = sim
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Run { .. } => Some("run"),
            Effect::Apply { .. } => Some("apply"),
            Effect::Emit(Event::DiffUpdated { .. }) => Some("diff"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["run", "apply", "diff", "run"]);
}

#[test]
fn patches_inside_commands_run_in_turn_and_are_prepared_again() {
    let sim = scenario("patches in the shell");
    let prepared = sim.effects.iter().filter(|e| matches!(e, Effect::Prepare { .. })).count();
    assert!(prepared > 3, "prepared once more when alone");
    assert_eq!(statuses(&sim), [ItemStatus::Completed; 3]);
    assert!(sim.output_of("a").contains("Patch applied") && sim.output_of("b").contains("/w/b"));
}

#[test]
fn every_invalid_call_is_answered_with_its_error() {
    let sim = scenario("every tool");
    for (id, expected) in [
        ("a", "Plan updated"),
        ("b", "data:image"),
        ("c", "does not exist"),
        ("d", "no tool `no_such_tool`"),
        ("e", "`cmd` is `7`; give a shell command"),
        ("f", "Patch applied"),
        ("g", "no tool `novel`"),
        ("h", "cannot be run"),
        ("i", "does not fit"),
        ("j", "disk is full"),
        ("k", "not started: no such program"),
        ("l", "a rule forbids"),
    ] {
        let output = sim.output_of(id);
        assert!(output.contains(expected), "{id}: {output}");
    }
    let mut shown: Vec<String> = sim.items().into_iter().filter_map(outcome).collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "command forbid Declined: a rule forbids this command: a rule of the test",
            "command refused Failed: this cannot be run",
            "command unstartable Failed: no such program",
            r#"command {"cmd":7} Failed: exec_command: `cmd` is `7`; give a shell command as a string"#,
            "image /w/a.png: ",
            "image /w/missing.png: /w/missing.png does not exist",
            "patch of 1 Completed: ",
            "patch of 1 Failed: the disk is full",
            "patch of 1 Failed: the patch does not fit",
            "tool no_such_tool {} Failed: there is no tool `no_such_tool`; the tools are exec_command, write_stdin, update_plan, apply_patch, view_image, request_user_input, request_permissions, works, fails, breaks",
            "tool novel \"\" Failed: there is no tool `novel`; the tools are exec_command, write_stdin, update_plan, apply_patch, view_image, request_user_input, request_permissions, works, fails, breaks",
        ]
    );
}

/// How a tool call is shown at its end: kind, status and reason.
fn outcome(item: &Item) -> Option<String> {
    let (kind, reason) = match item {
        Item::Command(command) => {
            let output = command.output.clone().filter(|_| command.exit_code.is_none());
            (format!("command {}", command.command), output)
        }
        Item::FileChange { changes, reason, .. } => {
            (format!("patch of {}", changes.len()), reason.clone())
        }
        Item::ImageView { path, reason, .. } => (format!("image {path}"), reason.clone()),
        Item::DynamicCall(call) => {
            (format!("tool {} {}", call.tool, call.arguments), call.reason.clone())
        }
        _ => return None,
    };
    let status = item.status().map_or_else(String::new, |status| format!(" {status:?}"));
    Some(format!("{kind}{status}: {}", reason.unwrap_or_default()))
}

#[test]
fn early_refusals_are_reported_with_wait_and_attempt() {
    let sim = scenario("refused requests");
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let reported: Vec<&str> = sim
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Error { error, retry: Some(_), .. } => Some(error.message.as_str()),
            _ => None,
        })
        .collect();
    let expected =
        |attempt, wait| format!("the stream broke (retry {attempt} of 4 within {wait} s)");
    assert_eq!(reported, [expected(1, "0.4"), expected(2, "0.8")]);
    let waits: Vec<u128> = sim
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::RetryAfter { wait, .. } => Some(wait.longest().as_millis()),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [400, 800]);
}

#[test]
fn without_a_sandbox_the_turn_fails_with_its_error_kind() {
    let sim = scenario("no sandbox");
    assert_eq!(sim.ends(), [TurnStatus::Failed, TurnStatus::Completed]);
    let kinds = sim.events.iter().filter_map(|event| match event {
        Event::TurnCompleted(view) => view.error.as_ref().map(|error| error.kind),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [FailureKind::SandboxError]);
    assert_eq!(statuses(&sim), [ItemStatus::Failed]);
    assert!(sim.output_of("a").contains("there is no sandbox"));
}

#[test]
fn a_search_starts_with_the_provider_and_fails_when_truncated() {
    for (name, cut) in [("web search", false), ("search cut", true)] {
        let sim = scenario(name);
        let searches: Vec<&Item> = sim
            .events
            .iter()
            .filter_map(|event| match event {
                Event::ItemStarted { item: item @ Item::WebSearch { .. }, .. }
                | Event::ItemCompleted { item: item @ Item::WebSearch { .. }, .. } => Some(item),
                _ => None,
            })
            .collect();
        let [started, completed] = searches.as_slice() else { panic!("{name}: {searches:?}") };
        assert_eq!(started.id(), completed.id(), "{name}");
        assert!(matches!(started, Item::WebSearch { query, .. } if query.is_empty()), "{name}");
        let Item::WebSearch { query, reason, .. } = completed else { unreachable!() };
        assert_eq!((query == "rust", reason.is_some()), (!cut, cut), "{name}");
    }
}

#[test]
fn a_command_may_end_in_a_later_turn() {
    let sim = scenario("polled command");
    let started = sim.output_of("a");
    assert!(started.contains("running with session ID 2"), "{started}");
    assert!(sim.output_of("c").contains("another call waits"));
    let own_turn = sim.events.iter().find_map(|event| match event {
        Event::ItemCompleted { turn, item: Item::Command(item), .. } => {
            Some((turn.to_string(), item.command.contains("60000")))
        }
        _ => None,
    });
    assert!(own_turn.is_some_and(|(turn, _)| turn == "turn-1" || turn == "turn-2"));
}

#[test]
fn the_end_of_a_background_command_waits_for_the_model() {
    // The command ends while no poll waits for it; the next poll still learns how it ended.
    let script = Script::new(&[
        &[exec("a", "after:24000 print:late exit:3")],
        &[exec("b", "after:9000")],
        &[exec("e", "after:9000")],
        &[write("c", 2, "")],
        &[write("d", 2, "")],
    ]);
    let sim = run(&script);
    let output = sim.output_of("c");
    assert!(output.contains("exited with code 3") && output.contains("late"), "{output}");
    assert!(sim.output_of("d").contains("no command with session id 2"));
}

#[test]
fn a_command_can_be_polled_again_after_an_interrupted_poll() {
    let (_, script) =
        scenarios::all().into_iter().find(|(name, _)| *name == "polled in later turns").unwrap();
    let mut done = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        let polled =
            sim.events.iter().any(|event| matches!(event, Event::TerminalInteraction { .. }));
        if polled && !std::mem::replace(&mut done, true) {
            let reply = sim.reply();
            sim.step(Input::Interrupt { reply, turn: "turn-2".into() });
        }
    });
    use TurnStatus::{Completed, Interrupted};
    assert_eq!(sim.ends(), [Completed, Interrupted, Completed]);
    assert!(sim.output_of("b").contains("aborted"));
    assert!(sim.output_of("c").contains("running with session ID 2"));
}

#[test]
fn typing_that_does_not_reach_its_command_fails() {
    let typed = write("b", 2, "unread");
    let script = Script::new(&[&[tty("a", "after:60000")], &[typed], &[write("c", 2, "")]]);
    let sim = run(&script);
    assert!(sim.output_of("b").contains("was not passed on"), "{}", sim.output_of("b"));
    assert!(sim.output_of("c").contains("running with session ID 2"));
    assert!(statuses(&sim).contains(&ItemStatus::Failed));
}

#[test]
fn a_failed_response_is_charged_its_usage() {
    let usage = Usage { input: 5, output: 2, total: 7, ..Usage::default() };
    let failure = Failure {
        usage: Some(Box::new(usage.into())),
        ..Failure::new(FailureKind::Other, "the response is incomplete")
    };
    let mut script = Script::new(&[]);
    script.responses = vec![vec![ModelEvent::Failed(failure)]];
    let sim = run(&script);
    assert_eq!(sim.ends(), [TurnStatus::Failed]);
    let counted = sim.events.iter().find_map(|event| match event {
        Event::TokenUsage { total, last, .. } => Some((*total, *last)),
        _ => None,
    });
    assert_eq!(counted, Some((usage, usage)));
    assert_eq!(sim.machine.usage(), usage);
}

#[test]
fn money_is_counted_by_response_turn_and_thread_until_a_price_is_unknown() {
    let end = |cost| {
        let usage = Usage { input: 1, total: 1, ..Usage::default() };
        let source = ResponseSource { model: "m".into(), ..ResponseSource::default() };
        let usage = ResponseUsage { cost, source, ..ResponseUsage::from(usage) };
        ModelEvent::Completed { usage }
    };
    let failed = |cost| {
        let usage = ResponseUsage { cost, ..ResponseUsage::default() };
        let failure = Failure::new(FailureKind::Other, "cut off");
        ModelEvent::Failed(Failure { usage: Some(Box::new(usage)), ..failure })
    };
    let counted =
        |responses: Vec<Vec<ModelEvent>>| -> Vec<(Option<i64>, Option<i64>, Option<i64>)> {
            let mut script = Script::new(&[]);
            script.responses = responses;
            let sim = run(&script);
            let costs = sim.events.iter().filter_map(|event| match event {
                Event::TokenUsage { cost, .. } => Some((cost.last, cost.turn, cost.thread)),
                _ => None,
            });
            costs.collect()
        };
    assert_eq!(counted(vec![vec![end(Some(5))]]), [(Some(5), Some(5), Some(5))]);
    assert_eq!(counted(vec![vec![failed(Some(3))]]), [(Some(3), Some(3), Some(3))]);
    assert_eq!(counted(vec![vec![end(None)]]), [(None, None, None)]);
    let absurd = counted(vec![vec![failed(Some(i64::MAX))]]);
    assert_eq!(absurd, [(Some(i64::MAX), Some(i64::MAX), Some(i64::MAX))]);
}

#[test]
fn what_a_provider_says_of_the_model_is_passed_on_once_a_turn() {
    let rerouted =
        |to: &str| ModelEvent::Notice(ModelNotice::Rerouted { from: "m".into(), to: to.into() });
    let verify =
        ModelEvent::Notice(ModelNotice::Verification(vec![Verification::TrustedAccessForCyber]));
    let mut script = Script::new(&[]);
    let usage = ResponseUsage::default();
    script.responses = vec![vec![
        rerouted("a"),
        verify.clone(),
        rerouted("a"),
        rerouted("b"),
        verify,
        ModelEvent::Completed { usage },
    ]];
    let sim = run(&script);
    let notices = sim.events.iter().filter(|event| matches!(event, Event::ModelNotice { .. }));
    assert_eq!(notices.count(), 3);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
}

#[test]
fn shell_commands_end_at_their_timeout() {
    let sim = scenario("shell");
    assert!(sim.output_of("a").contains("Output:\nx"));
    assert!(sim.output_of("b").contains("killed at its timeout (exit code 124)"));
}

#[test]
fn limits_are_sent_to_the_model() {
    let sim = scenario("limits");
    assert!(sim.output_of("c").contains("2 commands are running, 2 at most"));
    assert!(sim.output_of("d").contains("more than 3 tool calls"));
}

#[test]
fn overrides_stick_and_the_schema_does_not() {
    let sim = scenario("output schema");
    let schemas: Vec<bool> = sim.prompts.iter().map(|p| p.output_schema.is_some()).collect();
    assert_eq!(schemas, [true, false]);
    let sim = scenario("overrides");
    assert!(sim.prompts.iter().all(|prompt| prompt.model == "other"));
    assert_eq!(sim.machine.settings().sandbox, SandboxPolicy::DangerFullAccess);
    assert_eq!(sim.prompts[0].input.len() + 2, sim.prompts[1].input.len());
}

#[test]
fn the_model_is_informed_of_a_new_working_folder_and_its_writable_roots() {
    let mut script = Script::new(&[]).then("there");
    script.turns[1].overrides = Overrides { cwd: Some("/there".into()), ..Overrides::default() };
    let sim = run(&script);
    let added = sim.prompts[1].input[sim.prompts[0].input.len()..].concat();
    assert!(added.contains("<cwd>/there</cwd>") && added.contains("write in /there"), "{added}");
}

#[test]
fn a_joined_turn_applies_its_overrides_and_schema() {
    let script = Script::new(&[&[say("one")], &[say("two")]]);
    let mut joined = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if sim.steps == 2 && !std::mem::replace(&mut joined, true) {
            let reply = sim.reply();
            sim.step(Input::Start {
                reply,
                author: Author::User,
                content: text("also"),
                overrides: Overrides { model: Some("other".into()), ..Overrides::default() },
                output_schema: Some("{}".into()),
            });
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    let asked: Vec<_> =
        sim.prompts.iter().map(|p| (p.model.as_str(), p.output_schema.is_some())).collect();
    assert_eq!(asked, [("m", false), ("other", true)]);
}

#[test]
fn retries_continue_where_the_stream_broke() {
    let sim = scenario("retries");
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let errors: Vec<String> = sim
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Error { error, retry: Some(_), .. } => Some(error.message.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(errors.len(), 3);
    assert!(errors[2].contains("retry 3 of 5 within 1.6 s"), "{errors:?}");
    assert!(sim.output_of("a").contains("slow"));
}

#[test]
fn a_failed_turn_shows_until_the_next() {
    for (name, ends) in [
        ("fatal failure", [TurnStatus::Failed, TurnStatus::Completed]),
        ("retries used up", [TurnStatus::Failed, TurnStatus::Completed]),
    ] {
        let sim = scenario(name);
        assert_eq!(sim.ends(), ends, "{name}");
        let failed = sim
            .events
            .iter()
            .any(|event| matches!(event, Event::StatusChanged(Status::SystemError)));
        assert!(failed, "{name}");
        assert_eq!(sim.machine.status(), Status::Idle, "{name}");
    }
}

#[test]
fn a_patch_in_flight_survives_an_interrupt_and_the_callers_wait_for_it() {
    let mut script = Script::new(&[]);
    script.responses = vec![cut(&[patch("a", "path:/w/x"), exec("b", "print:b"), say("still")])];
    script.responses[0].push(failed(Retry::Stream));
    let mut done = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        let applying = sim.effects.iter().any(|e| matches!(e, Effect::Apply { .. }));
        if !applying || std::mem::replace(&mut done, true) {
            return;
        }
        let (reply, turn) = (sim.reply(), "turn-1".to_owned());
        sim.step(Input::Interrupt { reply, turn });
        assert!(!sim.replies.contains_key(&reply), "answered before the turn is over");
        let cancelled = sim.effects.iter().any(|e| matches!(e, Effect::CancelSample { .. }));
        assert!(cancelled, "the model talks on");
    });
    assert!(done);
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    assert_eq!(statuses(&sim), [ItemStatus::Completed]);
    assert!(sim.output_of("a").contains("Patch applied"));
    assert!(sim.output_of("b").contains("aborted"));
}

#[test]
fn completions_of_a_truncated_history_are_stored() {
    let sim = scenario("restored");
    let output = sim.output_of("y");
    assert!(output.contains("aborted"), "{output}");
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
}

#[test]
fn an_endless_response_is_bounded() {
    let sim = scenario("response too long");
    assert_eq!(sim.ends(), [TurnStatus::Failed]);
    let mut script = Script::new(&[]);
    script.limits.response_bytes = 10_000;
    script.coherent = false;
    let kind = session::ModelItemKind::Reasoning;
    let mut flood: Vec<_> =
        (0..10_000).map(|index| ModelEvent::ItemAdded { index, kind: kind.clone() }).collect();
    script.responses = vec![std::mem::take(&mut flood)];
    assert_eq!(run(&script).ends(), [TurnStatus::Failed]);
    let parts = (0..10_000).map(|n| ModelEvent::SummaryPartAdded { index: 0, part: n });
    script.responses = vec![parts.collect()];
    assert_eq!(run(&script).ends(), [TurnStatus::Failed]);
}

#[test]
fn items_that_change_their_kind_are_closed() {
    use session::{ModelEvent, ModelItemKind};
    let message = ModelItemKind::Message { phase: None };
    let (call, thought) =
        (exec("a", "print:a"), Output::Reasoning { summary: vec![], content: vec![] });
    for kind in [message, ModelItemKind::Reasoning, ModelItemKind::Other] {
        for output in [&call, &thought, &Output::Whole("text".into()), &Output::Unknown] {
            let mut response = respond(std::slice::from_ref(output));
            response[0] = ModelEvent::ItemAdded { index: 0, kind: kind.clone() };
            response.insert(0, ModelEvent::ItemAdded { index: 0, kind: kind.clone() });
            let mut script = Script::new(&[]);
            script.coherent = false;
            script.responses = vec![response];
            let sim = run(&script);
            assert_eq!(sim.ends(), [TurnStatus::Completed]);
        }
    }
}

#[test]
fn a_refused_start_changes_nothing() {
    let mut script = Script::new(&[&[say("one")]]);
    script.limits.pending_inputs = 1;
    let mut done = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if sim.steps != 2 || std::mem::replace(&mut done, true) {
            return;
        }
        for model in ["second", "third"] {
            let reply = sim.reply();
            let overrides = Overrides { model: Some(model.into()), ..Overrides::default() };
            let content = text("also");
            sim.step(Input::Start {
                reply,
                author: Author::User,
                content,
                overrides,
                output_schema: None,
            });
            assert_eq!(sim.replies[&reply].is_ok(), model == "second");
        }
        let before = sim.effects.len();
        sim.step(Input::Start {
            reply: 1_000,
            author: Author::User,
            content: Vec::new(),
            overrides: Overrides { model: Some("fourth".into()), ..Overrides::default() },
            output_schema: None,
        });
        assert_eq!(sim.effects.len(), before + 1);
    });
    assert_eq!(sim.machine.settings().model, "second");
}

#[test]
fn no_work_starts_after_the_shutdown() {
    let (_, script) =
        scenarios::all().into_iter().find(|(name, _)| *name == "background for ever").unwrap();
    let mut done = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if sim.ends().len() == 1 && !std::mem::replace(&mut done, true) {
            sim.step(Input::Shutdown);
            assert!(sim.machine.is_quiet());
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed], "the second turn was refused");
    assert_eq!(statuses(&sim), [ItemStatus::Failed], "the background command has its end");
}

#[test]
fn the_first_user_text_names_the_thread() {
    let script = Script::new(&[&[exec("a", "print:a")]]);
    let mut sim = Simulation::new(&script, Order::Timely);
    let image = || session::UserContent::Image { url: "data:".into() };
    let content = vec![image()];
    let overrides = Overrides::default();
    sim.step(Input::Start {
        reply: 100,
        author: Author::User,
        content,
        overrides,
        output_schema: None,
    });
    let content =
        vec![image(), session::UserContent::Text { text: "name".into(), elements: Vec::new() }];
    sim.step(Input::Steer { reply: 101, content, expected_turn: "turn-1".into() });
    let named = sim.records.iter().any(|r| matches!(r, Record::Preview(text) if text == "name"));
    assert!(named);
}
