//! Approvals that a model reviews in the user's place: what each answer leads to, what the reviewer
//! is sent, and what no reviewer can let happen.

use serde_json::{Value, json};
use session::{
    ApprovalPolicy, ApprovalReview, ApprovalsReviewer, Author, Decision, Effect, Event, Input,
    ItemStatus, Mode, Overrides, ReviewStatus, TurnStatus,
};

use crate::response::{Output, call, escalated, exec, patch};
use crate::script::{Review, Script, Start, judged, text, verdict};
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

/// The reviews that ended.
pub(crate) fn reviews(sim: &Simulation) -> Vec<ApprovalReview> {
    let ended = sim.events.iter().filter_map(|event| match event {
        Event::ApprovalReview(review) if review.status != ReviewStatus::InProgress => {
            Some((**review).clone())
        }
        _ => None,
    });
    ended.collect()
}

pub(crate) fn warnings(sim: &Simulation) -> Vec<&str> {
    let warnings = sim.events.iter().filter_map(|event| match event {
        Event::ReviewerWarning { message } => Some(message.as_str()),
        _ => None,
    });
    warnings.collect()
}

pub(crate) fn runs(sim: &Simulation) -> usize {
    sim.effects.iter().filter(|effect| matches!(effect, Effect::Run { .. })).count()
}

/// The text of the message to the reviewer.
fn request_text(sim: &Simulation, at: usize) -> String {
    let [message] = &*sim.reviews[at].input else { panic!("one message") };
    let message: Value = serde_json::from_str(message).unwrap();
    assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("user")));
    let [part] = &**message["content"].as_array().unwrap() else { panic!("one part") };
    part["text"].as_str().unwrap().to_owned()
}

pub(crate) fn request(sim: &Simulation, at: usize) -> Value {
    serde_json::from_str(&request_text(sim, at)).unwrap()
}

/// One command that needs an approval, reviewed like this.
pub(crate) fn one_command(review: Review) -> Script {
    Script::new(&[&[exec("a", "print:a")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&[review])
}

#[test]
fn an_approved_action_runs_and_no_client_is_asked() {
    let outputs = [exec("a", "print:a"), patch("b", "path:/w/x"), exec("c", "safe")];
    let script = Script::new(&[&outputs]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&[]);
    let sim = run(&script);
    assert_eq!(sim.asks(), 0);
    assert_eq!(sim.reviews.len(), 2, "the harmless command costs no review");
    assert_eq!(statuses(&sim), [ItemStatus::Completed; 3]);
    assert!(reviews(&sim).iter().all(|review| review.status == ReviewStatus::Approved));
    assert!(warnings(&sim).is_empty());
    // Two responses of 13 tokens, two reviews of 7.
    assert_eq!(sim.machine.usage().total, 2 * 13 + 2 * 7);
}

#[test]
fn everything_but_one_clear_approval_is_a_refusal() {
    let good = || verdict("approve", "low", "high");
    let says = |texts: &[String]| Review::Says(7, texts.to_vec());
    for (review, status, expected) in [
        (judged(verdict("deny", "high", "low")), ReviewStatus::Denied, "denied this: because"),
        (Review::IsSilent, ReviewStatus::TimedOut, "did not answer within 90 s"),
        (Review::Says(90_000, vec![good()]), ReviewStatus::TimedOut, "within 90 s"),
        (Review::Fails, ReviewStatus::Denied, "the provider is busy"),
        (Review::Calls, ReviewStatus::Denied, "called a tool"),
        (says(&[]), ReviewStatus::Denied, "gave no answer"),
        (says(&[good(), good()]), ReviewStatus::Denied, "2 answers"),
        (says(&[good() + &good()]), ReviewStatus::Denied, "not the JSON object"),
        (says(&[format!("Sure: {}", good())]), ReviewStatus::Denied, "not the JSON object"),
        (says(&["I approve.".into()]), ReviewStatus::Denied, "not the JSON object"),
        (says(&[good().replace("ID", "other")]), ReviewStatus::Denied, "about another action"),
        (says(&[good().replace("}", ",\"run\":\"rm\"}")]), ReviewStatus::Denied, "unknown field"),
        (judged(verdict("approve", "critical", "high")), ReviewStatus::Denied, "critical risk"),
        (judged(verdict("approve", "high", "low")), ReviewStatus::Denied, "high risk"),
        (judged(verdict("approve", "medium", "unknown")), ReviewStatus::Denied, "medium risk"),
    ] {
        let row = format!("{review:?}");
        let is_opinion = expected.starts_with("denied");
        let sim = run(&one_command(review));
        assert_eq!(sim.ends(), [TurnStatus::Completed], "{row}");
        assert_eq!((sim.asks(), runs(&sim)), (0, 0), "{row}");
        assert_eq!(statuses(&sim), [ItemStatus::Declined], "{row}");
        let output = sim.output_of("a");
        assert!(output.contains(expected), "{row}: {output}");
        let [ended] = &*reviews(&sim) else { panic!("{row}") };
        assert_eq!(ended.status, status, "{row}");
        assert_eq!(ended.risk.is_some(), is_opinion, "{row}");
        assert_eq!(warnings(&sim).len(), usize::from(!is_opinion), "{row}");
    }
}

#[test]
fn an_answer_just_in_time_counts() {
    let good = verdict("approve", "low", "high");
    let sim = run(&one_command(Review::Says(89_999, vec![good])));
    assert_eq!(statuses(&sim), [ItemStatus::Completed]);
}

#[test]
fn what_a_review_costs_counts_however_it_ends() {
    for review in [Review::Fails, judged("prose".into()), judged(verdict("deny", "low", "low"))] {
        let row = format!("{review:?}");
        assert_eq!(run(&one_command(review)).machine.usage().total, 2 * 13 + 7, "{row}");
    }
}

#[test]
fn an_interrupt_ends_the_review_with_the_turn() {
    let mut sim = Simulation::new(&one_command(Review::IsSilent), Order::Timely);
    while sim.reviews.is_empty() {
        sim.advance();
    }
    assert_eq!(sim.machine.open_reviews().count(), 1);
    let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    assert_eq!(reviews(&sim)[0].status, ReviewStatus::Aborted);
    let cancels = |effect: &&Effect| matches!(effect, Effect::CancelReview { .. });
    assert_eq!(sim.effects.iter().filter(cancels).count(), 1);
    sim.run_out();
    assert_eq!(runs(&sim), 0);
}

#[test]
fn a_client_cannot_decide_what_is_under_review() {
    let mut sim = Simulation::new(&one_command(Review::IsSilent), Order::Timely);
    while sim.reviews.is_empty() {
        sim.advance();
    }
    for request in 0..20 {
        sim.step(Input::Decided { request, decision: Decision::Accept });
    }
    assert_eq!(sim.machine.open_reviews().count(), 1);
    sim.run_out();
    assert_eq!(runs(&sim), 0);
}

#[test]
fn a_reviewer_grants_nothing_for_later() {
    let again = [exec("a", "print:a"), patch("b", "path:/w/x")];
    let script = Script::new(&[&again, &again]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&[]);
    let sim = run(&script);
    assert_eq!(sim.reviews.len(), 4);
    assert!(!sim.effects.iter().any(|effect| matches!(effect, Effect::Allow { .. })));
}

#[test]
fn hosts_are_reviewed() {
    let allowed = |sim: &Simulation| -> Vec<bool> {
        let answers = sim.effects.iter().filter_map(|effect| match effect {
            Effect::NetworkAnswer { allowed, .. } => Some(*allowed),
            _ => None,
        });
        answers.collect()
    };
    let script = |command: &str, review: Review| {
        Script::new(&[&[exec("a", command)]]).asking(ApprovalPolicy::OnRequest).reviewed(&[review])
    };
    let good = judged(verdict("approve", "low", "high"));
    let sim = run(&script("reach:a after:50", good.clone()));
    assert_eq!((allowed(&sim), sim.asks()), (vec![true], 0));
    let action = request(&sim, 0)["data"]["action"].clone();
    assert_eq!(
        action,
        json!({
            "type": "network", "host": "a", "port": 443, "protocol": "https",
            "command": "reach:a after:50", "cwd": "/w",
        })
    );
    let sim = run(&script("reach:a after:50", judged(verdict("deny", "high", "unknown"))));
    assert_eq!(allowed(&sim), [false]);
    assert!(sim.output_of("a").contains("a:443 was not allowed: the approvals reviewer denied"));
    // The command ends, or the connection does, before the answer.
    for command in ["reach:a after:2", "reach:a gives-up after:50"] {
        let sim = run(&script(command, good.clone()));
        assert_eq!(allowed(&sim), [false], "{command}");
        assert_eq!(reviews(&sim)[0].status, ReviewStatus::Aborted, "{command}");
    }
    // The prompt is put again for the other command that waits.
    let both = [exec("a", "reach:a after:2"), exec("b", "reach:a after:50")];
    let sim = run(&Script::new(&[&both]).asking(ApprovalPolicy::OnRequest).reviewed(&[good]));
    assert_eq!((allowed(&sim), sim.reviews.len()), (vec![false, true], 2));
    // A prompt that is refused at once.
    let silent = vec![Review::IsSilent; 16];
    let many: Vec<Output> = (0..16).map(|at| exec(&format!("c{at}"), "print:x")).collect();
    let mut outputs = vec![exec("a", "safe reach:a after:50")];
    outputs.extend(many);
    let script = Script::new(&[&outputs]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&silent);
    assert_eq!(allowed(&run(&script)), [false]);
}

#[test]
fn the_reviewer_sees_the_action_exactly_as_it_would_run() {
    let script = Script::new(&[&[
        escalated("a", "print:a"),
        call("b", "shell", json!({ "command": ["print:b", "x y"], "workdir": "/v" })),
        patch("c", "path:/w/x real:/etc/x to:/w/y outside"),
    ]])
    .asking(ApprovalPolicy::UnlessTrusted)
    .reviewed(&[]);
    let sim = run(&script);
    let data = |at: usize| request(&sim, at)["data"].clone();
    let first = data(0);
    assert_eq!(
        first["action"],
        json!({
            "type": "script", "script": "print:a", "shell": null, "loginShell": false, "cwd": "/w",
            "realCwd": "/w", "terminal": false, "leavesSandbox": true,
        })
    );
    assert_eq!((&first["reason"], &first["leavesSandbox"]), (&json!("needed"), &json!(true)));
    assert!(first["sandbox"].as_str().unwrap().contains("write in /w"));
    assert_eq!(
        data(1)["action"],
        json!({
            "type": "argv", "argv": ["print:b", "x y"], "cwd": "/v", "realCwd": "/v",
            "leavesSandbox": false,
        })
    );
    let change = json!({
        "path": "/w/x", "kind": "update", "moveTo": "/w/y", "diff": "@@\n-a\n+b\n",
    });
    assert_eq!(
        data(2)["action"],
        json!({
            "type": "patch", "cwd": "/w", "changes": [change], "leavesSandbox": true,
            "targets": [
                { "path": "/w/x", "realPath": "/etc/x" }, { "path": "/w/y", "realPath": "/w/y" },
            ],
        })
    );
    // Nothing of the thread but the user's words, and no tools.
    for prompt in &sim.reviews {
        assert_eq!((prompt.input.len(), &*prompt.tools), (1, "[]"));
        assert!(prompt.output_schema.as_deref().unwrap().contains("\"reviewId\""));
        assert_eq!(prompt.instructions, sim.reviews[0].instructions);
        assert_ne!(prompt.instructions, sim.prompts[0].instructions);
    }
}

#[test]
fn only_the_users_words_are_shown_as_the_users() {
    let script = Script::new(&[&[exec("a", "safe print:SAID-BY-A-TOOL")], &[exec("b", "print:b")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&[]);
    let mut sim = Simulation::new(&script, Order::Timely);
    let (reply, fragment) = (sim.reply(), |text: &str| session::Fragment {
        text: json!({
            "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }],
        })
        .to_string()
        .into(),
        mark: session::Mark::Pinned,
        stored: None,
        is_waiting: false,
    });
    sim.step(Input::Inject { reply, fragments: vec![fragment("SAID-BY-A-CLIENT")] });
    while sim.prompts.len() < 2 {
        sim.advance();
    }
    // While the model answers: the newest words are not in the history yet.
    let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
    sim.step(Input::Steer { reply, content: text("but carefully"), expected_turn: turn });
    sim.run_out();
    let shown = request(&sim, 0);
    assert_eq!(
        shown["user"],
        json!({ "messages": [{ "text": "go" }, { "text": "but carefully" }] })
    );
    let text = request_text(&sim, 0);
    assert!(!text.contains("SAID-BY"), "{text}");
}

#[test]
fn the_input_of_another_agent_is_not_the_users() {
    let mut script = one_command(judged(verdict("approve", "medium", "unknown")));
    script.author = Author::Agent;
    let sim = run(&script);
    assert_eq!(request(&sim, 0)["user"], json!({ "messages": [] }));
    assert_eq!(statuses(&sim), [ItemStatus::Declined]);
}

#[test]
fn a_reviewer_cannot_widen_what_is_excluded() {
    let forbidden = || {
        [
            exec("a", "forbid"),
            escalated("b", "print:b"),
            patch("c", "path:/etc/x outside"),
            exec("d", "print:d"),
        ]
    };
    // Requirements forbid full access.
    let mut script =
        Script::new(&[&forbidden()]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&[]);
    script.limits.reviewer_leaves_sandbox = false;
    let sim = run(&script);
    use ItemStatus::{Completed, Declined};
    assert_eq!(statuses(&sim), [Declined, Declined, Declined, Completed]);
    assert_eq!(sim.reviews.len(), 1, "nothing is asked of a reviewer that may not approve it");
    assert!(sim.output_of("a").contains("a rule forbids"));
    assert!(sim.output_of("b").contains("only the user may approve"));
    // A policy under which nothing is asked, and plan mode.
    let script = Script::new(&[&forbidden()]).asking(ApprovalPolicy::Never).reviewed(&[]);
    let sim = run(&script);
    assert_eq!((sim.reviews.len(), statuses(&sim)[1]), (0, Declined));
    let mut script =
        Script::new(&[&forbidden()]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&[]);
    script.turns[0].overrides.mode = Some((Mode::Plan, None));
    let sim = run(&script);
    assert_eq!(statuses(&sim), [Declined, ItemStatus::Failed, ItemStatus::Failed, Completed]);
}

#[test]
fn what_cannot_be_shown_whole_is_refused() {
    let long = format!("print:{}", "x".repeat(200_000));
    let script = Script::new(&[&[exec("a", &long), patch("b", "path:/w/x")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&[]);
    let sim = run(&script);
    assert_eq!(statuses(&sim), [ItemStatus::Declined, ItemStatus::Completed]);
    assert!(sim.output_of("a").contains("too large to be shown to it whole"));
    assert_eq!(sim.reviews.len(), 1);
    let reasoned = json!({
        "cmd": "print:a", "sandbox_permissions": "require_escalated",
        "justification": "x".repeat(200_000),
    });
    let script = Script::new(&[&[call("a", "exec_command", reasoned)]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&[]);
    let sim = run(&script);
    assert_eq!((statuses(&sim), sim.reviews.len()), (vec![ItemStatus::Declined], 0));
}

#[test]
fn an_agent_that_insists_is_not_reviewed_for_ever() {
    let deny = judged(verdict("deny", "high", "unknown"));
    let calls: Vec<Output> = (0..14).map(|at| exec(&format!("c{at}"), "print:x")).collect();
    let calls: Vec<&[Output]> = calls.chunks(1).collect();
    let mut script =
        Script::new(&calls).asking(ApprovalPolicy::UnlessTrusted).reviewed(&vec![deny; 20]);
    script.responses.push(crate::response::respond(&[crate::response::say("I stop.")]));
    script.responses.push(crate::response::respond(&[exec("d", "print:y")]));
    let sim = run(&script.then("and now?"));
    // Ten in the first turn, and the next turn begins anew.
    assert_eq!(sim.reviews.len(), 11);
    assert!(sim.output_of("c13").contains("10 actions of this turn were refused already"));
}

#[test]
fn too_many_reviews_at_once_are_refused() {
    let calls: Vec<Output> = (0..20).map(|at| exec(&format!("c{at}"), "print:x")).collect();
    let slow = Review::Says(1_000, vec![verdict("approve", "low", "high")]);
    let script =
        Script::new(&[&calls]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&vec![slow; 20]);
    let sim = run(&script);
    let declined = statuses(&sim).iter().filter(|it| **it == ItemStatus::Declined).count();
    assert_eq!((sim.reviews.len(), declined), (16, 4));
}

/// A thread whose reviewer denies a command and a patch, at rest.
pub(crate) fn after_denials() -> Simulation {
    let deny = judged(verdict("deny", "high", "unknown"));
    let script = Script::new(&[&[exec("a", "print:a"), patch("b", "path:/w/x")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&vec![deny; 60]);
    let mut sim = Simulation::new(&script, Order::Timely);
    sim.run_out();
    assert_eq!(reviews(&sim).len(), 2);
    sim
}

pub(crate) fn approve(sim: &mut Simulation, review: &ApprovalReview) -> Result<(), String> {
    let reply = sim.reply();
    let (review, action) = (review.id.to_string(), review.action.clone());
    sim.step(Input::ApproveDenied { reply, review, action });
    sim.replies[&reply].clone().map(drop).map_err(|refusal| refusal.message)
}

/// Runs a turn whose model makes these calls, and then says a closing word.
pub(crate) fn turn(sim: &mut Simulation, outputs: &[Output]) {
    sim.respond_with(outputs);
    let reply = sim.reply();
    let (content, overrides) = (text("again"), Overrides::default());
    sim.step(Input::Start { reply, author: Author::User, content, overrides, output_schema: None });
    sim.run_out();
}

#[test]
fn the_user_can_approve_what_a_review_refused_once() {
    let mut sim = after_denials();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    assert!(approve(&mut sim, &denied[0]).unwrap_err().contains("approved already"));
    assert_eq!(approve(&mut sim, &denied[1]), Ok(()));
    turn(
        &mut sim,
        &[
            exec("c", "print:a"),
            patch("d", "path:/w/x"),
            exec("e", "print:a"),
            exec("f", "print:ab"),
        ],
    );
    let last = &sim.prompts[sim.prompts.len() - 2];
    assert!(last.input.iter().any(|item| item.contains("The user approved an action")));
    use ItemStatus::{Completed, Declined};
    let statuses = statuses(&sim);
    assert_eq!(statuses[2..], [Completed, Completed, Declined, Declined], "{statuses:?}");
    assert!(approve(&mut sim, &denied[0]).unwrap_err().contains("no refused action"));
}

#[test]
fn an_approval_is_for_exactly_the_action_that_was_refused() {
    let mut sim = after_denials();
    let denied = reviews(&sim);
    let exchanged = ApprovalReview { action: denied[1].action.clone(), ..denied[0].clone() };
    assert!(approve(&mut sim, &exchanged).unwrap_err().contains("not the one"));
    let unknown = ApprovalReview { id: "item-99".into(), ..denied[0].clone() };
    assert!(approve(&mut sim, &unknown).unwrap_err().contains("no refused action"));
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    // The same words in another folder, as another kind of call, or out of the sandbox.
    turn(
        &mut sim,
        &[
            call("c", "exec_command", json!({ "cmd": "print:a", "workdir": "/v" })),
            call("d", "shell", json!({ "command": ["print:a"] })),
            escalated("e", "print:a"),
            call("f", "exec_command", json!({ "cmd": "print:a", "tty": true })),
        ],
    );
    assert_eq!(runs(&sim), 0);
    turn(&mut sim, &[exec("g", "print:a")]);
    assert_eq!(runs(&sim), 1);
}

#[test]
fn an_approval_gives_way_to_rules_policy_and_time() {
    let hour = 60 * 60 * 1000;
    let mut sim = after_denials();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    let overrides = Overrides { approval: Some(ApprovalPolicy::Never), ..Overrides::default() };
    sim.step(Input::Override { overrides });
    turn(&mut sim, &[escalated("c", "print:a")]);
    assert_eq!(runs(&sim), 0, "nothing is asked under this policy, so nothing was approved");
    // Too late to use it.
    let mut sim = after_denials();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    sim.wait(hour);
    turn(&mut sim, &[exec("c", "print:a")]);
    assert_eq!(runs(&sim), 0);
    // Too late to give it.
    let mut sim = after_denials();
    let denied = reviews(&sim);
    sim.wait(hour);
    assert!(approve(&mut sim, &denied[0]).unwrap_err().contains("no refused action"));
}

#[test]
fn the_reviewer_can_change_between_turns() {
    let outputs = [exec("a", "print:a")];
    let mut script = Script::new(&[&outputs, &[], &[exec("b", "print:b")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&[]);
    let reviewer = Some(ApprovalsReviewer::User);
    let overrides = Overrides { reviewer, ..Overrides::default() };
    script.turns.push(Start { text: "more".into(), overrides, output_schema: None });
    let sim = run(&script);
    assert_eq!((sim.reviews.len(), sim.asks()), (1, 1));
}

/// Whatever an action says, it stays inside of the member `data`, and that member is what the action
/// is. Patches are checked with the real server (`server/tests/suite/auto_review.rs`).
#[test]
fn injected_text_stays_inside_the_data() {
    let all: Vec<Value> = serde_json::from_str(include_str!("injections.json")).unwrap();
    assert_eq!(all.len(), 60);
    for injected in all.iter().filter(|injected| injected.get("patch").is_none()) {
        let output = match injected {
            _ if injected["script"].is_string() => {
                call("a", "exec_command", json!({ "cmd": injected["script"] }))
            }
            _ if injected["argv"].is_array() => {
                call("a", "shell", json!({ "command": injected["argv"] }))
            }
            _ => {
                let host = injected["host"].as_str().unwrap();
                exec("a", &format!("safe reach:{host} after:50"))
            }
        };
        let script = Script::new(&[&[output]])
            .asking(ApprovalPolicy::UnlessTrusted)
            .reviewed(&[judged(verdict("deny", "high", "unknown"))]);
        let sim = run(&script);
        assert_eq!(sim.reviews.len(), 1, "{injected}");
        // On the wire the message is JSON in JSON: printable ASCII and letters, nothing else.
        let wire = &sim.reviews[0].input[0];
        let is_plain = |c: char| matches!(c, ' '..='~') || c.is_alphanumeric();
        assert!(wire.chars().all(|c| is_plain(c) && c != '<' && c != '>'), "{wire}");
        let text = request_text(&sim, 0);
        let id = request(&sim, 0)["reviewId"].as_str().unwrap().to_owned();
        let user = r#"{"messages":[{"text":"go"}]}"#;
        let before = format!(r#"{{"reviewId":"{id}","user":{user},"data":"#);
        let data = text.strip_prefix(&before).and_then(|rest| rest.strip_suffix('}')).unwrap();
        // One whole value: nothing of it ends early.
        let data: Value = serde_json::from_str(data).unwrap();
        let members: Vec<&String> = data.as_object().unwrap().keys().collect();
        assert_eq!(members, ["action", "sandbox", "leavesSandbox", "reason"], "{injected}");
        let action = &data["action"];
        match injected {
            _ if injected["script"].is_string() => assert_eq!(action["script"], injected["script"]),
            _ if injected["argv"].is_array() => assert_eq!(action["argv"], injected["argv"]),
            _ => assert_eq!(action["host"], injected["host"]),
        }
    }
}
