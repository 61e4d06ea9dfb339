//! The environment of the contestants: the cores for them and for the load, their upstream, and
//! measurements in rotation.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::admin;
use super::contestant::{self, Contestant, ContestantName, MODEL, Programs, TRANSLATED_MODEL};
use super::load::{Load, Measured};
use super::options::Options;
use super::running::{Cores, Running, Starter};
use super::upstream::Pace;
use crate::bench::process;
use crate::bench::report::median;

/// The input of every scenario.
pub(crate) struct Bench<'b> {
    pub(crate) root: &'b Path,
    pub(crate) options: &'b Options,
    pub(crate) starter: Starter,
    pub(crate) programs: Programs,
}

/// Assignment of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// All processes share one core.
    Together,
    /// The proxy has one core, the load generator and the upstream share the other.
    Apart,
    /// All processes use all cores.
    Free,
}

impl Placement {
    pub(crate) fn proxy(self) -> Cores {
        match self {
            Placement::Together => Cores::One(1),
            Placement::Apart => Cores::One(0),
            Placement::Free => Cores::All,
        }
    }

    pub(crate) fn load(self) -> Cores {
        match self {
            Placement::Together | Placement::Apart => Cores::One(1),
            Placement::Free => Cores::All,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Placement::Together => "everything on one core",
            Placement::Apart => "a dedicated core",
            Placement::Free => "all cores",
        }
    }
}

/// Running contestants, and their upstream.
pub(crate) struct Stage<'b> {
    bench: &'b Bench<'b>,
    placement: Placement,
    contestants: Vec<Contestant>,
    _upstream: Running,
}

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Whole,
    /// Times are measured to the first byte.
    Streamed,
    /// A request of Messages to a model that speaks Chat Completions; of the direct connection, the chat itself.
    Translated,
    /// The same, streamed.
    TranslatedStream,
}

impl RequestKind {
    fn is_streamed(self) -> bool {
        matches!(self, RequestKind::Streamed | RequestKind::TranslatedStream)
    }

    fn is_translated(self) -> bool {
        matches!(self, RequestKind::Translated | RequestKind::TranslatedStream)
    }
}

/// Measurements of one contestant, one for each round.
pub(crate) struct ContestantRounds {
    pub(crate) who: ContestantName,
    pub(crate) measured: Vec<Measured>,
    /// CPU time of the proxy per request, in microseconds, for each round.
    pub(crate) cpu: Vec<f64>,
}

/// Number of rounds, and the durations of the warm-up and of the measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundPlan {
    pub(crate) count: u32,
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
}

const UPSTREAM_PATIENCE: Duration = Duration::from_secs(10);

/// Starts the upstream.
pub(crate) fn upstream(
    starter: &Starter,
    cores: Cores,
    pace: Pace,
) -> Result<(Running, SocketAddr)> {
    let mut upstream = starter.part(cores, "upstream", &serde_json::to_string(&pace)?)?;
    let address = upstream
        .line(UPSTREAM_PATIENCE, |line| line.strip_prefix("listening on http://")?.parse().ok());
    let (address, _) = address.context("the upstream")?;
    Ok((upstream, address))
}

impl<'b> Stage<'b> {
    /// Starts the contestants in `who` that are selected and installed.
    pub(crate) fn set(
        bench: &'b Bench<'b>,
        placement: Placement,
        pace: Pace,
        who: &[ContestantName],
    ) -> Result<Stage<'b>> {
        let (upstream, address) = upstream(&bench.starter, placement.load(), pace)?;
        let mut contestants = Vec::new();
        for who in who.iter().filter(|who| bench.options.has(**who)) {
            let (starter, programs) = (&bench.starter, &bench.programs);
            let cores = placement.proxy();
            contestants.extend(contestant::start(*who, starter, programs, cores, address)?);
        }
        Ok(Stage { bench, placement, contestants, _upstream: upstream })
    }

    /// Measures each contestant in turn, for several rounds.
    pub(crate) fn go_round(
        &mut self,
        ask: RequestKind,
        connections: usize,
        plan: RoundPlan,
    ) -> Result<Vec<ContestantRounds>> {
        let rounds = |contestant: &Contestant| ContestantRounds {
            who: contestant.who,
            measured: Vec::new(),
            cpu: Vec::new(),
        };
        let mut all_rounds: Vec<ContestantRounds> = self.contestants.iter().map(rounds).collect();
        for turn in 0..plan.count as usize {
            for step in 0..all_rounds.len() {
                // Rotates the order, so that no contestant always follows the same one.
                let at = (turn + step) % all_rounds.len();
                let name = all_rounds[at].who.name();
                self.measure((ask, connections), plan, at, &mut all_rounds[at])
                    .with_context(|| format!("{name}, {}", self.placement.words()))?;
            }
        }
        Ok(all_rounds)
    }

    fn measure(
        &mut self,
        (ask, connections): (RequestKind, usize),
        plan: RoundPlan,
        at: usize,
        rounds: &mut ContestantRounds,
    ) -> Result<()> {
        let contestant = &self.contestants[at];
        let RoundPlan { warm_up, time, .. } = plan;
        let load = Load { connections, warm_up, ..single_load(contestant, ask, time) };
        let pid = contestant.process.as_ref().map(Running::pid);
        let before = pid.map(process::cpu).transpose()?;
        let measured = run_load(self.bench, self.placement, &load)?;
        if let (Some(pid), Some(before)) = (pid, before) {
            let used = process::cpu(pid)?.saturating_sub(before);
            // Requests of the warm-up are not counted in the rate, but use the same CPU time.
            let requests = measured.rate * (time + warm_up).as_secs_f64();
            rounds.cpu.push(used.as_secs_f64() * 1e6 / requests);
        }
        rounds.measured.push(measured);
        Ok(())
    }
}

/// The load of one connection, without a warm-up.
pub(crate) fn single_load(contestant: &Contestant, ask: RequestKind, time: Duration) -> Load {
    Load {
        address: contestant.address,
        request: request(contestant, ask),
        connections: 1,
        offered: None,
        warm_up: Duration::ZERO,
        time,
        to_first_byte: ask.is_streamed(),
    }
}

/// Runs the load generator.
pub(crate) fn run_load(bench: &Bench<'_>, placement: Placement, load: &Load) -> Result<Measured> {
    let arguments = serde_json::to_string(load)?;
    let mut generator = bench.starter.part(placement.load(), "load", &arguments)?;
    let patience = load.warm_up + load.time + Duration::from_secs(60);
    let measured = generator.line(patience, |line| serde_json::from_str(line).ok());
    Ok(measured.context("the load generator")?.0)
}

/// Returns a request that is the same for every contestant, except for the key and the stream.
pub(crate) fn request(contestant: &Contestant, ask: RequestKind) -> String {
    const SYSTEM: &str = "You explain how servers work, in two short sentences that a person who has never run one \
                          can follow. You use no lists and no headings.";
    const USER: &str = "How does a token bucket decide whether a request may pass, and what does a client that is \
                        refused have to do next?";
    let is_message = ask.is_translated() && contestant.who != ContestantName::Direct;
    let (path, mut body) = match is_message {
        true => {
            let is_ours = contestant.who != ContestantName::LiteLlm;
            let body = serde_json::json!({
                "model": if is_ours { TRANSLATED_MODEL } else { MODEL },
                "system": SYSTEM,
                "messages": [{ "role": "user", "content": USER }],
                "temperature": 0.2,
                "max_tokens": 100,
            });
            ("/v1/messages", body)
        }
        false => {
            let body = serde_json::json!({
                "model": MODEL,
                "messages": [
                    { "role": "system", "content": SYSTEM },
                    { "role": "user", "content": USER },
                ],
                "temperature": 0.2,
                "max_completion_tokens": 100,
            });
            ("/v1/chat/completions", body)
        }
    };
    if ask.is_streamed() {
        body["stream"] = true.into();
    }
    let key = contestant.key.as_deref();
    admin::request(path, contestant.address, key, &body.to_string())
}

/// Returns the median of a measured value over the rounds.
pub(crate) fn median_over_rounds(rounds: &ContestantRounds, of: fn(&Measured) -> f64) -> f64 {
    median(rounds.measured.iter().map(of).collect())
}

/// Returns the median over the rounds of the difference between two contestants in the same round.
pub(crate) fn median_difference(
    rounds: &ContestantRounds,
    other: &ContestantRounds,
    of: fn(&Measured) -> f64,
) -> f64 {
    let pairs = rounds.measured.iter().zip(&other.measured);
    median(pairs.map(|(one, other)| of(one) - of(other)).collect())
}
