//! Text for running commands: outside of the sandbox each needs an approval of its own, inside of it
//! none does. And commands that hold what was granted for a turn only.

use serde_json::{Value, json};
use session::{
    ApprovalPolicy, Ask, Decision, Effect, GrantScope, Granular, Input, Item, ItemStatus,
    Overrides, SandboxPolicy, TurnStatus,
};

use crate::permission_stories::grant;
use crate::response::{Output, call, request, tty, write};
use crate::script::{Review, Script, Start, judged, verdict};
use crate::simulation::Simulation;
use crate::stories::{run, statuses};

/// A terminal outside of the sandbox: session 2.
pub(crate) fn outside(cmd: &str) -> Output {
    call(
        "a",
        "exec_command",
        json!({
            "cmd": cmd, "tty": true, "yield_time_ms": 250, "justification": "needed",
            "sandbox_permissions": "require_escalated",
        }),
    )
}

fn typed(sim: &Simulation) -> Vec<&str> {
    let typed = sim.effects.iter().filter_map(|effect| match effect {
        Effect::Write { text, .. } => Some(text.as_str()),
        _ => None,
    });
    typed.collect()
}

/// What clients were asked, each with its reason.
fn asked(sim: &Simulation) -> Vec<(&str, &str)> {
    let asks = sim.effects.iter().filter_map(|effect| match effect {
        Effect::Ask { ask: Ask::Command { command, reason, .. }, .. } => {
            Some((command.as_str(), reason.as_deref().unwrap_or_default()))
        }
        _ => None,
    });
    asks.collect()
}

#[test]
fn text_for_a_command_outside_of_the_sandbox_is_asked_about_exactly() {
    use ItemStatus::{Completed, Declined};
    let text = "rm -rf /\u{202e}\r";
    for (decision, then, end, types) in [
        (Decision::Accept, Completed, TurnStatus::Completed, true),
        (Decision::AcceptForSession, Completed, TurnStatus::Completed, true),
        (Decision::AcceptWithAmendment(vec!["rm".into()]), Completed, TurnStatus::Completed, true),
        (Decision::Decline, Declined, TurnStatus::Completed, false),
        (Decision::Undecided("nobody".into()), Declined, TurnStatus::Completed, false),
        (Decision::Cancel, Declined, TurnStatus::Interrupted, false),
    ] {
        let script = Script::new(&[&[outside("forever")], &[write("b", 2, text)]])
            .deciding(&[Decision::Accept, decision.clone()]);
        let sim = run(&script);
        let asked = asked(&sim);
        assert_eq!(asked.len(), 2, "{decision:?}");
        assert_eq!(asked[1].0, "rm -rf /\\u{202e}\\u{d}");
        assert!(asked[1].1.contains("session 2") && asked[1].1.contains("forever"), "{asked:?}");
        assert_eq!(typed(&sim), if types { vec![text] } else { vec![] }, "{decision:?}");
        assert_eq!(sim.ends(), [end], "{decision:?}");
        assert!(statuses(&sim).contains(&then), "{decision:?} {:?}", statuses(&sim));
        assert!(!sim.effects.iter().any(|effect| matches!(effect, Effect::Allow { .. })));
    }
}

#[test]
fn only_the_same_text_for_the_same_command_is_allowed_again() {
    let script = Script::new(&[
        &[outside("forever")],
        &[write("b", 2, "y\n")],
        &[write("c", 2, "y\n")],
        &[write("d", 2, "n\n")],
        &[write("e", 2, "")],
    ])
    .deciding(&[Decision::Accept, Decision::AcceptForSession, Decision::Decline]);
    let sim = run(&script);
    let asked: Vec<&str> = asked(&sim).into_iter().map(|(command, _)| command).collect();
    assert_eq!(asked, ["forever", "y\n", "n\n"], "waiting for output is not asked about");
    assert_eq!(typed(&sim), ["y\n", "y\n"]);
    assert_eq!(sim.output_of("d"), "the user declined this");
}

#[test]
fn terminals_inside_of_the_sandbox_and_without_one_take_text_unasked() {
    use ApprovalPolicy::{Never, OnRequest};
    let confined = crate::script::settings().sandbox;
    for (approval, sandbox) in
        [(OnRequest, &confined), (Never, &confined), (OnRequest, &SandboxPolicy::DangerFullAccess)]
    {
        let mut script =
            Script::new(&[&[tty("a", "forever")], &[write("b", 2, "hello\n")]]).asking(approval);
        script.settings.sandbox = sandbox.clone();
        let sim = run(&script);
        assert_eq!((sim.asks(), typed(&sim)), (0, vec!["hello\n"]), "{approval:?} {sandbox:?}");
    }
}

#[test]
fn without_an_approver_nothing_is_typed_outside_of_the_sandbox() {
    let granular = ApprovalPolicy::Granular(Granular {
        sandbox_approval: false,
        rules: true,
        mcp_elicitations: true,
        request_permissions: true,
        skill_approval: true,
    });
    for (approval, expected) in [
        (ApprovalPolicy::Never, "no approval can be requested"),
        (granular, "such prompts are switched off"),
    ] {
        // The user asks for other rules after the command was approved.
        let overrides = Overrides { approval: Some(approval), ..Overrides::default() };
        let mut script =
            Script::new(&[&[outside("forever")], &[], &[write("b", 2, "x\n")]]).then("type");
        script.turns[1] = Start { text: "type".into(), overrides, output_schema: None };
        let sim = run(&script);
        assert_eq!((sim.asks(), typed(&sim).len()), (1, 0), "{approval:?}");
        assert!(sim.output_of("b").contains(expected), "{}", sim.output_of("b"));
        assert!(statuses(&sim).contains(&ItemStatus::Declined));
    }
    // A terminal of a thread without a sandbox, which has one by now.
    let overrides = Overrides {
        sandbox: Some(crate::script::settings().sandbox),
        approval: Some(ApprovalPolicy::Never),
        ..Overrides::default()
    };
    let mut script =
        Script::new(&[&[tty("a", "forever")], &[], &[write("b", 2, "x\n")]]).then("type");
    script.settings.sandbox = SandboxPolicy::DangerFullAccess;
    script.turns[1] = Start { text: "type".into(), overrides, output_schema: None };
    assert!(typed(&run(&script)).is_empty());
}

#[test]
fn a_reviewer_decides_about_text_and_sees_it_exactly() {
    let document = |sim: &Simulation, at: usize| -> Value {
        let message: Value = serde_json::from_str(&sim.reviews[at].input[0]).unwrap();
        let text = message["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    };
    let good = || judged(verdict("approve", "low", "high"));
    for (review, types) in
        [(good(), true), (judged(verdict("deny", "high", "low")), false), (Review::Fails, false)]
    {
        let row = format!("{review:?}");
        let script = Script::new(&[&[outside("forever")], &[write("b", 2, "y\u{200b}\n")]])
            .reviewed(&[good(), review]);
        let sim = run(&script);
        assert_eq!((sim.asks(), typed(&sim).len()), (0, usize::from(types)), "{row}");
        let action = document(&sim, 1)["data"]["action"].clone();
        for (member, expected) in [
            ("type", json!("input")),
            ("text", json!("y\u{200b}\n")),
            ("session", json!(2)),
            ("command", json!("forever")),
            ("cwd", json!("/w")),
            ("leavesSandbox", json!(true)),
        ] {
            assert_eq!(action[member], expected, "{row} {member}");
        }
        assert!(sim.reviews[1].input[0].contains(r"\\u200b"), "{}", sim.reviews[1].input[0]);
    }
    // Where an administrator forbids full access, only the user can.
    let mut script = Script::new(&[&[tty("a", "allow forever")], &[write("b", 2, "x\n")]])
        .reviewed(&[good(), good()]);
    script.limits.reviewer_leaves_sandbox = false;
    let escalated = outside("allow forever");
    script.responses[0] = crate::response::respond(&[escalated]);
    let sim = run(&script);
    assert!(typed(&sim).is_empty());
    assert!(sim.output_of("b").contains("only the user may"), "{}", sim.output_of("b"));
}

#[test]
fn text_that_is_approved_after_the_end_of_its_command_is_typed_nowhere() {
    let script = Script::new(&[&[outside("after:253")], &[write("b", 2, "x\n")]]);
    let mut late = None;
    let sim = Simulation::run_with(&script, crate::simulation::Order::Timely, |sim| {
        if late.is_none() && sim.asks() == 2 {
            let end = session::ProcessEnd::Code(0);
            late = Some(());
            sim.step(Input::Exited { process: 2, end });
        }
    });
    assert!(late.is_some());
    assert!(typed(&sim).is_empty());
    let output = sim.output_of("b");
    assert!(output.contains("the command has ended"), "{output}");
    assert!(output.contains("exited with code 0"), "{output}");
}

/// The session of a command that was started with a grant.
const GRANTED: u64 = 7;

/// Two terminals, one of them started with a grant, in a turn that ends; then the next turn asks for
/// both.
pub(crate) fn granted(scope: GrantScope) -> Script {
    Script::new(&[
        &[tty("a", "forever")],
        &[request("b", &["/a"], false)],
        &[call(
            "c",
            "exec_command",
            json!({ "cmd": "forever print:hi", "tty": true, "yield_time_ms": 250 }),
        )],
        &[],
        &[write("d", 2, "hello\n"), write("e", GRANTED, "hello\n")],
    ])
    .deciding(&[grant(&["/a"], false, scope)])
    .then("again")
}

#[test]
fn a_command_with_a_grant_of_the_turn_ends_with_the_turn() {
    for (scope, ends) in [(GrantScope::Turn, true), (GrantScope::Session, false)] {
        let sim = run(&granted(scope));
        assert_eq!(sim.ends(), [TurnStatus::Completed; 2], "{scope:?}");
        let kills = sim.effects.iter().filter_map(|effect| match effect {
            Effect::Kill { process } => Some(*process),
            _ => None,
        });
        assert_eq!(
            kills.collect::<Vec<_>>(),
            if ends { vec![GRANTED] } else { vec![] },
            "{scope:?}"
        );
        assert_eq!(typed(&sim).len(), if ends { 1 } else { 2 }, "{scope:?}");
        let output = sim.output_of("e");
        assert_eq!(output.contains("granted until the end of the turn"), ends, "{output}");
        let item = sim.items().into_iter().find_map(|item| match item {
            Item::Command(command) if command.command.contains("print:hi") => Some(command.clone()),
            _ => None,
        });
        let shown = item.and_then(|item| item.output);
        let why = "granted until the end of the turn";
        assert_eq!(shown.is_some_and(|shown| shown.contains(why)), ends, "{scope:?}");
    }
}
