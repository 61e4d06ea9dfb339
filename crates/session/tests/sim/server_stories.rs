//! What scenarios with tools of MCP servers must show beyond the promises that hold in every run.

use serde_json::json;
use session::{
    ApprovalPolicy, Ask, Decision, Effect, Event, Granular, Input, Item, ItemStatus, Mode,
    ReviewedAction, ServerCall, TurnStatus,
};

use crate::response::{Output, call, say};
use crate::script::{Script, judged, verdict};
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

fn server_call(id: &str, tool: &str) -> Output {
    call(id, &format!("mcp__s__{tool}"), json!({ "x": 1 }))
}

fn script(calls: &[Output]) -> Script {
    Script::new(&[calls, &[say("done")]]).with_server()
}

fn server_calls(sim: &Simulation) -> Vec<&ServerCall> {
    sim.items()
        .into_iter()
        .filter_map(|item| match item {
            Item::ServerCall(call) => Some(&**call),
            _ => None,
        })
        .collect()
}

fn called(sim: &Simulation) -> Vec<String> {
    sim.effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::CallServer { call, .. } => Some(call.target.tool.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_call_goes_to_the_tool_that_was_offered_and_is_answered() {
    let sim = run(&script(&[
        server_call("a", "reads"),
        server_call("b", "breaks"),
        call("c", "mcp__s__other", json!({})),
        call("d", "mcp__s__reads", json!([1])),
    ]));
    assert_eq!(called(&sim), ["reads", "breaks"]);
    let target = &server_calls(&sim)[1].target;
    assert_eq!((target.server.as_str(), target.digest), ("s", [0; 16]));
    assert_eq!(sim.output_of("a"), r#"{"x":1}"#);
    assert_eq!(sim.output_of("b"), "the server has ended");
    assert!(sim.output_of("c").contains("there is no tool `mcp__s__other`"));
    assert!(sim.output_of("d").contains("must be a JSON object"), "{}", sim.output_of("d"));
    let broken = server_calls(&sim).into_iter().find(|call| call.target.tool == "breaks").unwrap();
    assert_eq!(broken.error.as_deref(), Some("the server has ended"));
    let progress = |event: &&Event| matches!(event, Event::CallProgress { .. });
    assert_eq!(sim.events.iter().filter(progress).count(), 2);
}

#[test]
fn approvals_follow_the_effect() {
    let calls = ["reads", "adds", "asks", "destroys"].map(|tool| server_call(tool, tool));
    let sim = run(&script(&calls).asking(ApprovalPolicy::OnRequest));
    let asked: Vec<(String, bool)> = sim
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Ask { ask: Ask::ServerTool { target, can_remember, .. }, .. } => {
                Some((target.tool.clone(), *can_remember))
            }
            _ => None,
        })
        .collect();
    assert_eq!(asked, [("asks".to_owned(), true), ("destroys".to_owned(), false)]);
    assert_eq!(called(&sim).len(), 4);
    assert_eq!(sim.output_of("destroys"), "the tool reports that it failed:\nnot today");
    // The tool itself reports a failure.
    let destroys = server_calls(&sim).into_iter().find(|it| it.target.tool == "destroys").unwrap();
    assert_eq!(
        (destroys.status, destroys.error.as_deref()),
        (ItemStatus::Failed, Some("not today"))
    );
}

#[test]
fn a_declined_call_is_an_error_for_the_client_and_the_model() {
    let declined = script(&[server_call("a", "asks")])
        .asking(ApprovalPolicy::OnRequest)
        .deciding(&[Decision::Decline]);
    let sim = run(&declined);
    assert_eq!(called(&sim), Vec::<String>::new());
    assert_eq!(server_calls(&sim)[0].error.as_deref(), Some("the user declined the call"));
    assert_eq!(sim.output_of("a"), "the user declined this");
    let cancelled = script(&[server_call("a", "asks")])
        .asking(ApprovalPolicy::OnRequest)
        .deciding(&[Decision::Cancel]);
    let sim = run(&cancelled);
    assert_eq!(
        (sim.ends(), statuses(&sim)),
        (vec![TurnStatus::Interrupted], vec![ItemStatus::Declined])
    );
}

#[test]
fn without_prompts_the_reason_names_the_remedy() {
    let sim = run(&script(&[server_call("a", "asks"), server_call("b", "adds")])
        .asking(ApprovalPolicy::Never));
    assert_eq!(called(&sim), ["adds"]);
    let output = sim.output_of("a");
    assert!(output.contains("mcp_servers.s.tools.asks.approval_mode = \"approve\""), "{output}");
    let switched_off = ApprovalPolicy::Granular(Granular {
        sandbox_approval: true,
        rules: true,
        mcp_elicitations: false,
        request_permissions: true,
        skill_approval: true,
    });
    let sim = run(&script(&[server_call("a", "asks")]).asking(switched_off));
    assert_eq!((called(&sim).len(), sim.asks()), (0, 0));
    assert!(sim.output_of("a").contains("switched off"));
}

#[test]
fn a_tool_is_allowed_for_the_session_unless_it_destroys() {
    let calls = [server_call("a", "asks"), server_call("b", "destroys")];
    let again = [server_call("c", "asks"), server_call("d", "destroys")];
    let sim = run(&Script::new(&[&calls, &again, &[say("done")]])
        .with_server()
        .asking(ApprovalPolicy::OnRequest)
        .deciding(&[Decision::AcceptForSession, Decision::AcceptForSession]));
    assert_eq!((called(&sim).len(), sim.asks()), (4, 3));
}

#[test]
fn plan_mode_reads_only() {
    let mut script = script(&[server_call("a", "reads"), server_call("b", "adds")]);
    script.settings.mode = Mode::Plan;
    let sim = run(&script);
    assert_eq!(called(&sim), ["reads"]);
    assert!(sim.output_of("b").contains("plan mode changes nothing"));
}

#[test]
fn a_reviewer_sees_the_call_as_it_would_run() {
    let sim = run(&script(&[server_call("a", "asks")])
        .asking(ApprovalPolicy::OnRequest)
        .reviewed(&[judged(verdict("approve", "low", "high"))]));
    assert_eq!((called(&sim), sim.asks()), (vec!["asks".to_owned()], 0));
    let sent = sim.reviews[0].input.iter().any(|item| {
        item.contains("serverTool") && item.contains("\\\"arguments\\\":{\\\"x\\\":1}")
    });
    assert!(sent, "{:?}", sim.reviews[0].input);
    let shown = sim.events.iter().find_map(|event| match event {
        Event::ApprovalReview(review) => Some(review.action.clone()),
        _ => None,
    });
    let expected = ReviewedAction::ServerTool {
        server: "s".to_owned(),
        tool: "asks".to_owned(),
        title: None,
        connector: None,
    };
    assert_eq!(shown, Some(expected));
}

#[test]
fn a_long_output_is_read_in_pieces() {
    let whole = "line\n".repeat(10_000);
    let read =
        |offset: usize| call("b", "read_tool_output", json!({ "output_id": 1, "offset": offset }));
    let sim = run(&Script::new(&[&[server_call("a", "floods")], &[read(40_000)], &[say("done")]])
        .with_server());
    let (first, rest) = (sim.output_of("a"), sim.output_of("b"));
    let beginning = first.split_once("\n[bytes 0 to 40000 of 50000; ").unwrap().0;
    let end = rest.split_once("\n[bytes 40000 to 50000 of 50000: the end]").unwrap().0;
    assert_eq!(format!("{beginning}{end}"), whole);
    // Clients get all of it.
    let flood = server_calls(&sim)[0].result.as_ref().unwrap();
    assert!(flood.content.len() > 50_000);
    let unknown = run(&Script::new(&[&[read(0)], &[say("done")]]).with_server());
    assert!(unknown.output_of("b").contains("the output 1 is not kept"));
}

#[test]
fn the_end_of_a_turn_cancels_the_call() {
    let script = script(&[server_call("a", "reads")]);
    let mut is_stopped = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if !is_stopped && !called(sim).is_empty() {
            is_stopped = true;
            let (reply, turn) = (sim.reply(), "turn-1".to_owned());
            sim.step(Input::Interrupt { reply, turn });
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    assert!(sim.effects.iter().any(|effect| matches!(effect, Effect::CancelServerCall { .. })));
    assert_eq!(statuses(&sim), [ItemStatus::Failed]);
}
