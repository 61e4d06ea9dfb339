//! Measures the CPU time from a turn's input to the bytes of its request to the model, in a thread of 1,000
//! turns and 2 million characters, against that of copying as many bytes. Prints JSON. Run it with the
//! profile `dist`; `cargo xtask bench --scenario long-request` does.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Duration;

use model::Prompt;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use session::{
    ApprovalPolicy, ApprovalsReviewer, Author, Configured, Context, Effect, Fragment, Id, Ids,
    Input, Limits, Machine, Mark, Mode, Offer, Overrides, Permissions, Restored, SandboxPolicy,
    Settings, ToolSet, UserContent,
};

const TURNS: usize = 1_000;
/// Half of them the user's.
const CHARACTERS_PER_TURN: usize = 2_000;
const ROUNDS: usize = 200;

fn main() {
    let mut machine = machine();
    let (mut built, mut copied, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let content = vec![UserContent::Text { text: "Next.".into(), elements: Vec::new() }];
        let overrides = Overrides::default();
        let start = Input::Start {
            reply: 0,
            author: Author::User,
            content,
            overrides,
            output_schema: None,
        };
        let began = cpu_time();
        let effects = machine.step(0, start);
        let body = body(effects);
        built.push(cpu_time() - began);
        let began = cpu_time();
        black_box(body.to_vec());
        copied.push(cpu_time() - began);
        bytes = body.len();
        let turn = machine.active_turn().unwrap().to_string();
        machine.step(0, Input::Interrupt { reply: 0, turn });
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[ROUNDS / 2].as_secs_f64() * 1e3
    };
    println!("{}", json!({"build_ms": median(built), "copy_ms": median(copied), "bytes": bytes}));
}

/// The body of the request that a step asks for, as the server makes it: it weighs the prompt for the
/// budgets, and moves its parts.
fn body(effects: Vec<Effect>) -> bytes::Bytes {
    let prompt = effects.into_iter().find_map(|effect| match effect {
        Effect::Sample { prompt, .. } => Some(prompt),
        _ => None,
    });
    let prompt = prompt.unwrap();
    black_box(prompt.weight());
    let prompt = Prompt {
        model: prompt.model.into(),
        instructions: prompt.instructions,
        input: prompt.input.into_items(),
        tools: prompt.tools,
        cache_key: Some("thread".into()),
        ..Prompt::default()
    };
    prompt.encode()
}

fn machine() -> Machine {
    let text = |role: &str, kind: &str| {
        let words = "Lines with \"quotes\"\nand more. ".repeat(CHARACTERS_PER_TURN / 2 / 30 + 1);
        let content = json!([{ "type": kind, "text": &words[..CHARACTERS_PER_TURN / 2] }]);
        json!({ "type": "message", "role": role, "content": content }).to_string().into()
    };
    let turn = || {
        [
            Fragment {
                text: text("user", "input_text"),
                mark: Mark::Kept,
                stored: None,
                is_waiting: false,
            },
            Fragment {
                text: text("assistant", "output_text"),
                mark: Mark::Summarized,
                stored: None,
                is_waiting: false,
            },
        ]
    };
    let history = (1..TURNS).flat_map(|_| turn()).collect();
    let configured = Configured {
        settings: settings(),
        context: Context::default(),
        offer: Offer::new(ToolSet::default()),
        limits: Limits::default(),
        plan_effort: None,
    };
    let restored = Restored { history: Some(history), ..Restored::default() };
    Machine::new(configured, Box::new(Counter(0)), restored)
}

fn settings() -> Settings {
    Settings {
        model: "m".into(),
        provider: "p".into(),
        cwd: "/w".into(),
        approval: ApprovalPolicy::Never,
        reviewer: ApprovalsReviewer::User,
        sandbox: SandboxPolicy::DangerFullAccess,
        granted: Permissions::default(),
        effort: None,
        summary: None,
        verbosity: None,
        personality: None,
        service_tier: None,
        mode: Mode::Default,
        mode_instructions: None,
    }
}

struct Counter(u64);

impl Ids for Counter {
    fn turn(&mut self) -> Id {
        self.item()
    }

    fn item(&mut self) -> Id {
        self.0 += 1;
        format!("id-{}", self.0).into()
    }
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
