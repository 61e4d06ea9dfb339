//! Turns against a provider that fails as real ones do: it refuses requests, asks for waits, cuts
//! streams anywhere, and at times fails for good.

use std::collections::BTreeMap;
use std::time::Duration;

use session::{
    Effect, Event, Failure, FailureKind, Input, ModelEvent, ModelNotice, Retry, ToolRequest,
    TurnStatus,
};

use crate::response::{Output, Response, completed, cut, exec, say};
use crate::script::{Script, Start};
use crate::simulation::{Order, Simulation};

/// Turns of one run, and runs: 1,000 turns altogether.
const TURNS: usize = 20;
const RUNS: u64 = 50;

/// A number below `below` that looks random, the same in every run of the test.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % below
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

/// A failure as a provider reports it, with the wait that it asks for.
fn failure(random: &mut Random) -> Failure {
    use FailureKind as Kind;
    let (kind, retry, waits): (_, _, &[Option<u64>]) = random.one_of(&[
        // "429 Too Many Requests", with `retry-after`, with "try again in 6m0s", or without either.
        (
            Kind::ResponseTooManyFailedAttempts,
            Retry::Request,
            &[None, Some(20), Some(1_500), Some(360_000), Some(600_000)],
        ),
        (Kind::ServerOverloaded, Retry::Request, &[None, Some(0)]),
        (Kind::HttpConnectionFailed, Retry::Request, &[None]),
        (Kind::ResponseStreamConnectionFailed, Retry::Request, &[None]),
        (Kind::ResponseStreamDisconnected, Retry::Stream, &[None]),
        (Kind::InternalServerError, Retry::Stream, &[None, Some(5_000)]),
        (Kind::ResponseTooManyFailedAttempts, Retry::Stream, &[Some(90_000)]),
    ]);
    let final_kinds = [Kind::UsageLimitExceeded, Kind::Unauthorized, Kind::BadRequest];
    let (kind, retry, asked) = match random.below(40) {
        0 => (random.one_of(&final_kinds), Retry::Never, Some(86_400_000)),
        // Longer than anyone wants to wait.
        1 => (kind, Retry::Request, Some(3_600_000)),
        _ => (kind, retry, random.one_of(waits)),
    };
    let retry_after = asked.map(Duration::from_millis);
    Failure { retry, retry_after, ..Failure::new(kind, "the provider failed") }
}

/// A response with up to three commands, of which each has text of its own.
fn outputs(random: &mut Random, commands: &mut usize) -> Vec<Output> {
    let mut outputs = vec![say("I will see."); random.below(2)];
    for _ in 0..random.below(4) {
        *commands += 1;
        let after = random.one_of(&[0, 10, 4_000]);
        let command = format!("safe print:{commands} after:{after}");
        outputs.push(exec(&format!("call-{commands}"), &command));
    }
    outputs
}

fn response(random: &mut Random, commands: &mut usize) -> Response {
    let whole = cut(&outputs(random, commands));
    if random.below(10) < 6 {
        return whole.into_iter().chain([completed()]).collect();
    }
    let failure = failure(random);
    let arrived = match failure.retry {
        Retry::Stream => random.below(whole.len() + 1),
        Retry::Request | Retry::Never => 0,
    };
    whole.into_iter().take(arrived).chain([ModelEvent::Failed(failure)]).collect()
}

fn script(seed: u64) -> Script {
    let mut random = Random(seed);
    let mut commands = 0;
    let mut script = Script::new(&[]);
    script.turns = vec![Start { text: "go".into(), ..Start::default() }; TURNS];
    script.responses = (0..TURNS * 4).map(|_| response(&mut random, &mut commands)).collect();
    script
}

/// What must follow a failure, by counters of its own.
#[derive(Default)]
struct Expected {
    requests: u32,
    streams: u32,
}

impl Expected {
    /// The bounds of the wait before the next attempt; none if the turn must fail.
    fn wait(&mut self, failure: &Failure, script: &Script) -> Option<(u128, u128)> {
        let (count, limit) = match failure.retry {
            Retry::Never => return None,
            Retry::Request => (&mut self.requests, script.limits.request_retries),
            Retry::Stream => {
                self.requests = 0;
                (&mut self.streams, script.limits.stream_retries)
            }
        };
        let asked = failure.retry_after.map(|asked| asked.as_millis());
        if *count == limit || asked.is_some_and(|asked| asked > 600_000) {
            return None;
        }
        *count += 1;
        Some(match asked {
            Some(asked) => (asked, asked + (asked / 10).min(5_000)),
            None => (0, (400_u128 << (*count - 1)).min(30_000)),
        })
    }
}

/// Compares a run with what its script asks for. Returns how many attempts followed failures.
fn check(script: &Script, sim: &Simulation) -> usize {
    let mut expected = Expected::default();
    let mut responses = script.responses.iter();
    let (mut failure, mut waiting, mut retries) = (None, None::<(_, (u128, u128))>, 0);
    let mut commands: BTreeMap<String, usize> = BTreeMap::new();
    for (effect, now) in sim.effects.iter().zip(&sim.times) {
        match effect {
            Effect::Sample { .. } => {
                if let Some((since, (least, most))) = waiting.take() {
                    let waited = u128::try_from(*now - since).unwrap();
                    assert!(waited >= least, "waited {waited} ms of {least}");
                    // A command that still runs may hold the request back.
                    assert!(waited <= most.max(10_000), "waited {waited} ms, {most} at most");
                }
                failure = match responses.next().and_then(|response| response.last()) {
                    Some(ModelEvent::Failed(failure)) => Some(failure),
                    _ => {
                        expected = Expected::default();
                        None
                    }
                };
            }
            Effect::RetryAfter { wait, .. } => {
                let failure = failure.take().expect("a retry without a failure");
                let bounds = expected.wait(failure, script).expect("the turn had to fail");
                let found = (wait.at_least.as_millis(), wait.longest().as_millis());
                assert_eq!(found, bounds, "{failure:?}");
                (waiting, retries) = (Some((*now, bounds)), retries + 1);
            }
            Effect::Emit(Event::TurnCompleted(view)) => {
                let must_fail = failure.take().is_some_and(|failure| {
                    assert_eq!(expected.wait(failure, script), None, "{failure:?}");
                    true
                });
                let status = if must_fail { TurnStatus::Failed } else { TurnStatus::Completed };
                assert_eq!(view.status, status, "{:?}", view.error);
                expected = Expected::default();
            }
            Effect::Run { spec, .. } => {
                let ToolRequest::Script { script, .. } = &spec.request else { panic!("{spec:?}") };
                *commands.entry(script.clone()).or_default() += 1;
            }
            _ => {}
        }
    }
    let twice: Vec<_> = commands.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "ran more than once: {twice:?}");
    retries
}

#[test]
fn a_thousand_turns_end_as_they_should() {
    let (mut ends, mut retries) = (BTreeMap::new(), 0);
    for seed in 1..=RUNS {
        let script = script(seed);
        let sim = Simulation::run(&script, Order::Timely);
        assert_eq!(sim.ends().len(), TURNS);
        retries += check(&script, &sim);
        for end in sim.ends() {
            *ends.entry(format!("{end:?}")).or_insert(0) += 1;
        }
    }
    // The script is one that tests something.
    assert!(
        ends["Completed"] >= 500 && ends["Failed"] >= 50 && retries >= 500,
        "{ends:?} {retries}"
    );
}

/// A long wait ends at once when the user interrupts the turn, and input that arrives during it is
/// part of the next attempt.
#[test]
fn a_long_wait_can_be_interrupted_and_steered() {
    let asked = Failure {
        retry: Retry::Request,
        retry_after: Some(Duration::from_secs(540)),
        ..Failure::new(FailureKind::ServerOverloaded, "busy")
    };
    let mut script = Script::new(&[]);
    script.responses = vec![vec![ModelEvent::Failed(asked)]];
    let wait = |sim: &mut Simulation| {
        while !sim.effects.iter().any(|effect| matches!(effect, Effect::RetryAfter { .. })) {
            sim.advance();
        }
    };

    let mut sim = Simulation::new(&script, Order::Timely);
    wait(&mut sim);
    let turn = sim.machine.active_turn().unwrap().to_string();
    let reply = sim.reply();
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    sim.run_out();
    assert_eq!(sim.prompts.len(), 1, "no attempt follows");

    let mut sim = Simulation::new(&script, Order::Timely);
    wait(&mut sim);
    let turn = sim.machine.active_turn().unwrap().to_string();
    let reply = sim.reply();
    let content = crate::script::text("also this");
    sim.step(Input::Steer { reply, content, expected_turn: turn });
    sim.run_out();
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let last = sim.prompts.last().unwrap();
    assert!(last.input.iter().any(|item| item.contains("also this")));
}

/// A request that waits for the provider's rate limit is not sent yet: input that arrives meanwhile
/// goes along with it. Once it is sent, input waits for the next request.
#[test]
fn a_wait_for_the_rate_limit_can_be_interrupted_and_steered() {
    let wait = Duration::from_secs(42);
    let queued = ModelNotice::Queued { provider: "p".into(), wait, ahead: 3 };
    let response: Response = [ModelEvent::Notice(queued.clone()), ModelEvent::Sent]
        .into_iter()
        .chain(cut(&[say("Done.")]))
        .chain([completed()])
        .collect();
    let mut script = Script::new(&[]);
    script.responses = vec![response.clone(), response];
    let until_queued = || {
        let mut sim = Simulation::new(&script, Order::Timely);
        let is_notice = |effect: &Effect| match effect {
            Effect::Emit(Event::ModelNotice { notice, .. }) => *notice == queued,
            _ => false,
        };
        while !sim.effects.iter().any(is_notice) {
            sim.advance();
        }
        sim
    };
    let steer = |sim: &mut Simulation| {
        let turn = sim.machine.active_turn().unwrap().to_string();
        let reply = sim.reply();
        let content = crate::script::text("also this");
        sim.step(Input::Steer { reply, content, expected_turn: turn });
    };
    let is_canceled = |sim: &Simulation| {
        sim.effects.iter().any(|effect| matches!(effect, Effect::CancelSample { .. }))
    };

    let mut sim = until_queued();
    let turn = sim.machine.active_turn().unwrap().to_string();
    let reply = sim.reply();
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    assert!(is_canceled(&sim));

    let mut sim = until_queued();
    steer(&mut sim);
    assert!(is_canceled(&sim), "the request that waits is withdrawn");
    sim.run_out();
    assert_eq!((sim.ends(), sim.prompts.len()), (vec![TurnStatus::Completed], 2));
    let notices = |sim: &Simulation| {
        let is_notice =
            |effect: &&Effect| matches!(effect, Effect::Emit(Event::ModelNotice { .. }));
        sim.effects.iter().filter(is_notice).count()
    };
    assert_eq!(notices(&sim), 2, "each wait is reported");
    assert!(sim.prompts[1].input.iter().any(|item| item.contains("also this")));

    let mut sim = until_queued();
    let is_delta = |effect: &Effect| matches!(effect, Effect::Emit(Event::MessageDelta { .. }));
    while !sim.effects.iter().any(is_delta) {
        sim.advance();
    }
    steer(&mut sim);
    assert!(!is_canceled(&sim), "the request is sent");
    sim.run_out();
    assert_eq!((sim.ends(), sim.prompts.len()), (vec![TurnStatus::Completed], 2));
}

#[test]
fn input_goes_along_with_a_request_that_is_held_back_for_a_moment() {
    let response: Response = [ModelEvent::Held, ModelEvent::Sent]
        .into_iter()
        .chain(cut(&[say("Done.")]))
        .chain([completed()])
        .collect();
    let mut script = Script::new(&[]);
    script.responses = vec![response.clone(), response];
    let mut is_steered = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        // The turn has started, and the first event of its response is that it waits.
        if !is_steered && sim.steps == 2 {
            is_steered = true;
            let turn = sim.machine.active_turn().unwrap().to_string();
            let reply = sim.reply();
            let content = crate::script::text("also this");
            sim.step(Input::Steer { reply, content, expected_turn: turn });
        }
    });
    assert_eq!((sim.ends(), sim.prompts.len()), (vec![TurnStatus::Completed], 2));
    let last = sim.prompts.last().unwrap().input.join("\n");
    assert!(last.contains("also this"), "{last}");
    assert!(sim.effects.iter().any(|effect| matches!(effect, Effect::CancelSample { .. })));
}
