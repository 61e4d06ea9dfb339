//! Random scripts, random client inputs at random moments, and garbage: whatever comes, the
//! promises hold and every turn ends.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use session::{
    ApprovalPolicy, ApprovalsReviewer, Assessment, Attempted, Author, Decision, Failure,
    FailureKind, Fragment, GeneratedImage, GoalChange, GoalStatus, Grant, GrantScope, Granular,
    Input, Mark, Mode, ModelEvent, ModelItem, ModelItemKind, Overrides, PatchPlan, Permissions,
    PolicyBound, Prepared, ProcessEnd, Retry, ReviewResponse, SandboxPolicy, ToolError, Usage,
    UserAnswers,
};

use crate::response::{
    Output, ask, call, completed, cut, escalated, exec, failed, patch, request, say, write,
};
use crate::script::{Review, SERVER_TOOLS, Script, Start, judged, settings, text, verdict};
use crate::simulation::{Order, Simulation};

/// The same cases in every run.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x5EED),
        ..ProptestConfig::default()
    }
}

/// An output item but for its call id.
fn output() -> impl Strategy<Value = Output> {
    let command = prop::sample::select(vec![
        "safe",
        "print:abc",
        "after:15000",
        "after:60000 print:x",
        "reach:a",
        "reach:a reach:b after:50",
        "reach:a gives-up after:9000",
        "reach:b forever",
        "exit:1",
        "dangerous",
        "prompt",
        "forbid",
        "allow",
        "amend",
        "refused",
        "unstartable",
        "forever",
        "patch",
        "patch outside",
        "patch breaks",
        "patch bad",
    ]);
    let change = prop::sample::select(vec![
        "path:/w/a",
        "path:/w/a to:/w/b",
        "path:/etc/x outside",
        "bad",
        "breaks",
    ]);
    prop_oneof![
        1 => prop::sample::select(vec!["works", "fails", "breaks"])
            .prop_map(|name| call("", name, json!({ "x": 1 }))),
        2 => prop::sample::select(SERVER_TOOLS.to_vec())
            .prop_map(|name| call("", &format!("mcp__s__{name}"), json!({ "x": 1 }))),
        1 => (0_u64..4, 0_u64..60_000).prop_map(|(output, offset)| {
            call("", "read_tool_output", json!({ "output_id": output, "offset": offset }))
        }),
        3 => "[a-z<>/_ \n]{0,40}".prop_map(|words| say(&words)),
        1 => "[a-z ]{0,20}(<proposed_plan>[a-z\n]{0,9}(</proposed_plan>)?)?[a-z]{0,9}"
            .prop_map(|words| say(&words)),
        1 => "[a-z]{0,20}".prop_map(Output::Whole),
        1 => (vec("[a-z]{0,9}", 0..3), vec("[a-z]{0,9}", 0..3))
            .prop_map(|(summary, content)| Output::Reasoning { summary, content }),
        4 => command.clone().prop_map(|words| exec("", words)),
        1 => command.clone().prop_map(|words| escalated("", words)),
        2 => (command, 1_u64..20_000).prop_map(|(words, ms)| {
            let argv: Vec<_> = words.split(' ').collect();
            call("", "shell", json!({ "command": argv, "timeout_ms": ms }))
        }),
        3 => change.prop_map(|words| patch("", words)),
        2 => (0_u64..12, prop::sample::select(vec!["", "x", "quit"]))
            .prop_map(|(session, chars)| write("", session, chars)),
        1 => prop::sample::select(vec![
            call("", "spawn_agent", json!({ "message": "go", "fork_context": true })),
            call("", "wait_agent", json!({ "targets": ["agent"], "timeout_ms": 2000 })),
            call("", "send_input", json!({ "target": "none", "message": "go" })),
            call("", "close_agent", json!({ "target": "agent" })),
        ]),
        1 => (
            prop::sample::select(vec!["inside", "outside", "bad"]),
            prop::sample::select(vec!["new", "again"]),
        )
            .prop_map(|(output, instruction)| {
                let arguments = json!({ "csv_path": "a.csv", "output_csv_path": output,
                    "instruction": instruction });
                call("", "spawn_agents_on_csv", arguments)
            }),
        1 => Just(call("", "update_plan", json!({ "plan": [] }))),
        1 => Just(call("", "view_image", json!({ "path": "/w/a.png" }))),
        2 => (prop::sample::select(vec!["/a", "/never", "/held", "/moved"]), any::<bool>())
            .prop_map(|(folder, network)| request("", &[folder], network)),
        2 => prop::sample::select(vec!["typed", "skipped", "unattended"])
            .prop_map(|id| ask("", &[(id, false)])),
        1 => Just(call("", "no_such_tool", json!([]))),
        1 => Just(Output::Search("x".into())),
        1 => Just(Output::Unknown),
    ]
}

fn response() -> impl Strategy<Value = (Vec<Output>, Option<Retry>)> {
    let failure = prop_oneof![
        5 => Just(None),
        1 => Just(Some(Retry::Stream)),
        1 => Just(Some(Retry::Request)),
        1 => Just(Some(Retry::Never)),
    ];
    (vec(output(), 0..6), failure)
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        4 => Just(Decision::Accept),
        2 => Just(Decision::AcceptForSession),
        1 => vec("[a-z]{1,4}", 0..2).prop_map(Decision::AcceptWithAmendment),
        2 => Just(Decision::Decline),
        1 => Just(Decision::Cancel),
        1 => any::<bool>().prop_map(|network| Decision::Grant(Grant {
            permissions: Permissions { network, ..Permissions::default() },
            scope: GrantScope::Session,
        })),
    ]
}

fn approval() -> impl Strategy<Value = ApprovalPolicy> {
    prop_oneof![
        1 => Just(ApprovalPolicy::Never),
        4 => Just(ApprovalPolicy::UnlessTrusted),
        3 => Just(ApprovalPolicy::OnRequest),
        1 => (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(sandbox_approval, rules, asks)| {
            ApprovalPolicy::Granular(Granular {
                sandbox_approval,
                rules,
                mcp_elicitations: false,
                request_permissions: asks,
                skill_approval: false,
            })
        }),
    ]
}

fn review() -> impl Strategy<Value = Review> {
    let good = || verdict("approve", "low", "high");
    prop_oneof![
        4 => Just(judged(good())),
        2 => Just(judged(verdict("deny", "high", "low"))),
        1 => Just(judged(verdict("approve", "critical", "high"))),
        1 => (0_i64..200_000).prop_map(move |ms| Review::Says(ms, vec![good()])),
        1 => vec("[a-z{}\"]{0,9}", 0..3).prop_map(|texts| Review::Says(7, texts)),
        1 => Just(Review::Calls),
        1 => Just(Review::Fails),
        2 => (0_i64..30_000, prop::option::of(0_u64..120_000))
            .prop_map(|(ms, asked)| Review::IsBusy(ms, asked)),
        1 => Just(Review::IsSilent),
    ]
}

fn overrides() -> impl Strategy<Value = Overrides> {
    let mode = prop::option::of(prop::sample::select(vec![Mode::Default, Mode::Plan]));
    let reviewer = prop::option::of(prop::sample::select(vec![
        ApprovalsReviewer::User,
        ApprovalsReviewer::AutoReview,
    ]));
    let all = (prop::option::of(approval()), mode, any::<bool>(), reviewer);
    all.prop_map(|(approval, mode, full, reviewer)| Overrides {
        approval,
        reviewer,
        mode: mode.map(|mode| (mode, None)),
        sandbox: full.then_some(SandboxPolicy::DangerFullAccess),
        ..Overrides::default()
    })
}

fn bound() -> impl Strategy<Value = PolicyBound> {
    overrides().prop_map(|overrides| {
        let mut above = settings();
        above.apply(overrides);
        PolicyBound::of(&above)
    })
}

fn script() -> impl Strategy<Value = Script> {
    (
        vec(response(), 0..7),
        vec(overrides(), 1..4),
        approval(),
        vec(decision(), 0..6),
        prop::option::of(decision()),
        (1_usize..5, 1_usize..8, 0_u32..4),
        prop::option::of(10_u64..400),
        prop::option::of(vec(review(), 0..6)),
    )
        .prop_map(
            |(
                responses,
                turns,
                approval,
                decisions,
                second_answer,
                limits,
                compact_at,
                reviews,
            )| {
                let mut script =
                    Script::new(&[]).with_server().asking(approval).deciding(&decisions);
                if let Some(reviews) = reviews {
                    script = script.reviewed(&reviews);
                }
                script.second_answer = second_answer;
                script.limits.compact_at_tokens = compact_at;
                (script.limits.processes, script.limits.calls, script.limits.stream_retries) =
                    limits;
                script.turns = turns
                    .into_iter()
                    .map(|overrides| Start { text: "go".into(), overrides, output_schema: None })
                    .collect();
                let mut ids = 0..;
                for (mut outputs, failure) in responses {
                    outputs.iter_mut().for_each(|output| name(output, &mut ids));
                    let mut events = cut(&outputs);
                    events.push(failure.map_or_else(completed, failed));
                    script.responses.push(events);
                }
                script
            },
        )
}

fn name(output: &mut Output, ids: &mut impl Iterator<Item = u32>) {
    if let Output::Call { id, .. } | Output::Custom { id, .. } = output {
        *id = format!("call-{}", ids.next().unwrap());
    }
}

/// What a client does at some moment.
#[derive(Clone, Debug)]
enum ClientAction {
    Start(Overrides),
    Steer {
        wrong: bool,
    },
    Interrupt {
        wrong: bool,
    },
    Override(Overrides),
    Compact,
    Review,
    Shell(String),
    Inject,
    Clean,
    Goal(GoalChange),
    ClearGoal,
    StoreFailed,
    Shutdown,
    /// An input that nothing asked for.
    Garbage(Input),
}

fn act() -> impl Strategy<Value = ClientAction> {
    prop_oneof![
        3 => overrides().prop_map(ClientAction::Start),
        3 => any::<bool>().prop_map(|wrong| ClientAction::Steer { wrong }),
        3 => any::<bool>().prop_map(|wrong| ClientAction::Interrupt { wrong }),
        2 => overrides().prop_map(ClientAction::Override),
        1 => Just(ClientAction::Compact),
        1 => Just(ClientAction::Review),
        2 => prop::sample::select(vec!["print:abc", "after:9000", "exit:1", "unstartable"])
            .prop_map(|command| ClientAction::Shell(command.to_owned())),
        1 => Just(ClientAction::Inject),
        1 => Just(ClientAction::Clean),
        1 => goal().prop_map(ClientAction::Goal),
        1 => Just(ClientAction::ClearGoal),
        1 => Just(ClientAction::StoreFailed),
        1 => Just(ClientAction::Shutdown),
    ]
}

fn goal() -> impl Strategy<Value = GoalChange> {
    let status = prop::sample::select(vec![
        GoalStatus::Active,
        GoalStatus::Paused,
        GoalStatus::Complete,
        GoalStatus::BudgetLimited,
    ]);
    let budget = prop::option::of(1_i64..60);
    (prop::option::of("[ab]"), prop::option::of(status), prop::option::of(budget)).prop_map(
        |(objective, status, token_budget)| GoalChange { objective, status, token_budget },
    )
}

fn garbage() -> impl Strategy<Value = ClientAction> {
    let number = 0_u64..16;
    let applied = prop::sample::select(vec![Ok("diff".to_owned()), Err(ToolError::new("no"))]);
    prop_oneof![
        6 => (number.clone(), vec(event(), 0..4))
            .prop_map(|(sample, events)| Input::Model { sample, events }),
        1 => number.clone().prop_map(|sample| Input::RetryDue { sample }),
        2 => (number.clone(), prepared())
            .prop_map(|(call, outcome)| Input::Prepared { call, outcome }),
        1 => (number.clone(), applied)
            .prop_map(|(call, outcome)| Input::Applied { call, outcome }),
        1 => number.clone()
            .prop_map(|call| Input::Prepared { call, outcome: Prepared::Image(Err(ToolError::new("no"))) }),
        1 => (number.clone(), "[a-zé]{0,9}")
            .prop_map(|(process, text)| Input::Output { process, text }),
        1 => number.clone()
            .prop_map(|process| Input::Exited { process, end: ProcessEnd::TimedOut }),
        1 => number.clone().prop_map(|call| Input::Elapsed { call }),
        1 => number.clone()
            .prop_map(|call| Input::Granted { call, outcome: Err(ToolError::new("no")) }),
        1 => Just(Input::DropGrants),
        1 => bound().prop_map(|bound| Input::Bound(Box::new(bound))),
        1 => number.clone().prop_map(|review| Input::ReviewOverdue { review }),
        1 => number.clone().prop_map(|review| Input::ReviewRetryDue { review }),
        1 => number.clone().prop_map(|review| Input::Reviewed {
            review,
            outcome: Ok(ReviewResponse { messages: vec!["{}".into()], ..Default::default() }),
        }),
        1 => number.clone().prop_map(|process| Input::NotTyped { process }),
        1 => number.clone().prop_map(|key| Input::NetworkWithdrawn { key }),
        1 => number.clone().prop_map(|request| Input::UserAnswered {
            request,
            outcome: Ok(UserAnswers::from([("odd".to_owned(), vec!["x".to_owned()])])),
        }),
        1 => number.clone().prop_map(|request| Input::ServerProgressed {
            request,
            message: "x".to_owned(),
        }),
        1 => number.clone().prop_map(|request| Input::ServerAnswered {
            request,
            outcome: Box::new(Err(ToolError::new("no"))),
        }),
        2 => (number, decision())
            .prop_map(|(request, decision)| Input::Decided { request, decision }),
    ]
    .prop_map(ClientAction::Garbage)
}

fn prepared() -> impl Strategy<Value = Prepared> {
    prop_oneof![
        Just(refused(Attempted::Command { display: "x".into(), cwd: "/w".into() })),
        Just(refused(Attempted::Patch { changes: Vec::new() })),
        Just(Prepared::Command(Assessment::default())),
        Just(Prepared::Permissions(Ok(Permissions { network: true, ..Permissions::default() }))),
        Just(Prepared::JobOutput(Err(ToolError::new("no")))),
        Just(Prepared::Patch(PatchPlan {
            changes: Vec::new(),
            targets: Vec::new(),
            outside: None,
            grantable_folder: None,
        })),
    ]
}

fn refused(attempted: Attempted) -> Prepared {
    Prepared::Refused { attempted, message: "no".into() }
}

fn event() -> impl Strategy<Value = ModelEvent> {
    let index = prop_oneof![4 => 0_usize..4, 1 => any::<usize>()];
    let kind = prop::sample::select(vec![
        ModelItemKind::Message { phase: None },
        ModelItemKind::Reasoning,
        ModelItemKind::WebSearch { query: "x".into() },
        ModelItemKind::ImageGeneration,
        ModelItemKind::Other,
    ]);
    let item = prop::sample::select(vec![
        ModelItem::Message { text: "x".into(), phase: None },
        ModelItem::Reasoning { summary: vec![], content: vec![] },
        ModelItem::WebSearch { query: String::new(), action: None, failed: true },
        ModelItem::ImageGeneration(GeneratedImage {
            status: None,
            result: "AAAA".into(),
            revised_prompt: None,
        }),
        ModelItem::Other { kind: "novel".into(), call_id: None },
    ]);
    let failure = Failure {
        http_status: Some(500),
        retry: Retry::Stream,
        retry_after: Some(std::time::Duration::from_secs(1)),
        ..Failure::new(FailureKind::Other, "")
    };
    let usage = Usage { input: i64::MAX, total: i64::MIN, ..Usage::default() };
    prop_oneof![
        2 => (index.clone(), kind).prop_map(|(index, kind)| ModelEvent::ItemAdded { index, kind }),
        2 => (index.clone(), "[a-z<>_]{0,20}")
            .prop_map(|(index, text)| ModelEvent::TextDelta { index, text }),
        1 => (index.clone(), index.clone())
            .prop_map(|(index, part)| ModelEvent::SummaryPartAdded { index, part }),
        1 => (index.clone(), index.clone())
            .prop_map(|(index, part)| ModelEvent::SummaryDelta { index, part, text: "x".into() }),
        1 => (index.clone(), index.clone())
            .prop_map(|(index, part)| ModelEvent::ReasoningDelta { index, part, text: "x".into() }),
        2 => (index.clone(), item)
            .prop_map(|(index, item)| ModelEvent::ItemDone { index, raw: "{}".into(), item }),
        1 => index.prop_map(|index| ModelEvent::PatchPreview { index, changes: Vec::new() }),
        1 => Just(ModelEvent::Failed(failure)),
        1 => Just(ModelEvent::Completed { usage: usage.into() }),
    ]
}

/// Runs `script` with `acts`, each before the step that it names.
fn run(script: &Script, seed: u64, acts: &[(usize, ClientAction)]) {
    let mut acts: Vec<_> = acts.to_vec();
    acts.sort_by_key(|(at, _)| *at);
    let mut acts = acts.into_iter().peekable();
    Simulation::run_with(script, Order::Shuffled(seed), |sim| {
        while let Some((_, act)) = acts.next_if(|(at, _)| *at <= sim.steps) {
            let input = input(sim, act);
            sim.step(input);
        }
    });
}

fn input(sim: &mut Simulation, act: ClientAction) -> Input {
    let active = sim.machine.active_turn().map(ToString::to_string).unwrap_or_default();
    let name = |wrong| if wrong { "turn-77".to_owned() } else { active.clone() };
    let content = text("more");
    match act {
        ClientAction::Start(overrides) => Input::Start {
            reply: sim.reply(),
            author: Author::User,
            content,
            overrides,
            output_schema: None,
        },
        ClientAction::Steer { wrong } => {
            Input::Steer { reply: sim.reply(), content, expected_turn: name(wrong) }
        }
        ClientAction::Interrupt { wrong } => {
            Input::Interrupt { reply: sim.reply(), turn: name(wrong) }
        }
        ClientAction::Compact => Input::Compact { reply: sim.reply() },
        ClientAction::Review => Input::Review {
            reply: sim.reply(),
            subject: "a change".into(),
            prompt: Some("look".into()),
            model: None,
        },
        ClientAction::Shell(script) => {
            Input::Shell { reply: sim.reply(), script, cwd: "/w".into(), actions: Vec::new() }
        }
        ClientAction::Inject => {
            let text = r#"{"type":"message","role":"user","content":[]}"#.into();
            let fragments =
                vec![Fragment { text, mark: Mark::Pinned, stored: None, is_waiting: false }];
            Input::Inject { reply: sim.reply(), fragments }
        }
        ClientAction::Clean => Input::CleanTerminals { reply: sim.reply() },
        ClientAction::Goal(change) => Input::SetGoal { reply: sim.reply(), change },
        ClientAction::ClearGoal => Input::ClearGoal { reply: sim.reply() },
        ClientAction::Override(overrides) => Input::Override { overrides },
        ClientAction::StoreFailed => Input::StoreFailed { message: "the disk is full".into() },
        ClientAction::Shutdown => Input::Shutdown,
        ClientAction::Garbage(input) => input,
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn random_runs_keep_every_invariant(
        script in script(),
        seed in any::<u64>(),
        acts in vec((0_usize..80, act()), 0..6),
    ) {
        run(&script, seed, &acts);
    }

    #[test]
    fn invalid_inputs_keep_the_state_valid(
        mut script in script(),
        seed in any::<u64>(),
        acts in vec((0_usize..80, prop_oneof![1 => act(), 5 => garbage()]), 0..30),
    ) {
        script.coherent = false;
        run(&script, seed, &acts);
    }
}
