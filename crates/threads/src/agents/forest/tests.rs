//! Random sequences of what happens to trees, compared with the rules.

use policy::RootedPolicy;
use proptest::prelude::*;
use session::{ApprovalPolicy, ApprovalsReviewer, PolicyBound};

use super::*;

const LIMITS: TreeLimits = TreeLimits { max_threads: 3, max_depth: 2 };

/// Something that happens to the agent with this number, or to the root.
#[derive(Clone, Debug)]
enum Event {
    Add {
        parent: Option<usize>,
    },
    /// The turn that it was started for begins.
    FirstTurn(usize),
    Send(usize),
    EndTurn(usize),
    Close(usize),
    ThreadEnds(usize),
    Load(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let agent = 0..12_usize;
    prop_oneof![
        4 => prop::option::of(agent.clone()).prop_map(|parent| Event::Add { parent }),
        3 => agent.clone().prop_map(Event::FirstTurn),
        2 => agent.clone().prop_map(Event::Send),
        3 => agent.clone().prop_map(Event::EndTurn),
        1 => agent.clone().prop_map(Event::Close),
        1 => agent.clone().prop_map(Event::ThreadEnds),
        1 => agent.prop_map(Event::Load),
    ]
}

fn identity(parent: &str, depth: u32) -> AgentIdentity {
    AgentIdentity {
        parent: parent.to_owned(),
        root: "root".to_owned(),
        above: Vec::new(),
        depth,
        nickname: String::new(),
        role: None,
        job: None,
        has_parents_history: false,
        bound: PolicyBound {
            approval: ApprovalPolicy::Never,
            reviewer: ApprovalsReviewer::default(),
            sandbox: RootedPolicy::FULL_ACCESS,
            planning: None,
        },
        limits: None,
    }
}

fn name(agent: usize) -> String {
    format!("agent-{agent}")
}

/// Adds an agent; returns whether it was accepted.
fn add(forest: &mut Forest, id: &str, parent: &str, depth: u32) -> bool {
    let identity = identity(parent, depth);
    let new = NewAgent { id: id.to_owned(), identity, nicknames: &[], ephemeral: false };
    forest.add(new, LIMITS).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_place_leaks_and_no_limit_is_exceeded(events in prop::collection::vec(event(), 0..60)) {
        let mut forest = Forest::default();
        let mut agents: Vec<AgentIdentity> = Vec::new();
        for (number, event) in events.into_iter().enumerate() {
            let turn = |agent: usize| Id::from(format!("turn-of-{agent}"));
            let known = |agent: &usize| *agent < agents.len();
            let before = forest.working("root");
            match event {
                Event::Add { parent } => {
                    let parent = parent.filter(known);
                    let depth = parent.map_or(1, |parent| agents[parent].depth + 1);
                    let above = parent.map_or("root".to_owned(), name);
                    let is_closing = forest.is_closed(&above);
                    let id = name(agents.len());
                    let accepted = add(&mut forest, &id, &above, depth);
                    let expected = depth <= 2 && before < 3 && !is_closing;
                    prop_assert_eq!(accepted, expected, "step {}", number);
                    if accepted {
                        agents.push(identity(&above, depth));
                    }
                }
                Event::FirstTurn(agent) if known(&agent) => {
                    forest.turn_started(&name(agent), &turn(agent));
                    forest.begun(&name(agent));
                }
                Event::Send(agent)
                    if known(&agent) && forest.begin(&name(agent), LIMITS).is_ok() =>
                {
                    forest.turn_started(&name(agent), &turn(agent));
                    forest.begun(&name(agent));
                }
                Event::EndTurn(agent) => {
                    let state = AgentState::Completed(Some("done".to_owned()));
                    forest.turn_ended(&name(agent), &turn(agent), state);
                }
                Event::Close(agent) => drop(forest.close(&name(agent))),
                Event::ThreadEnds(agent) => forest.thread_ended(&name(agent)),
                Event::Load(agent) if known(&agent) => {
                    forest.loaded(&name(agent), &agents[agent]);
                }
                _ => {}
            }
        }
        let nicknames: Vec<String> =
            forest.agents.values().map(|agent| agent.identity.nickname.clone()).collect();
        let named = nicknames.iter().filter(|name| !name.is_empty());
        let different: std::collections::HashSet<&String> = named.clone().collect();
        prop_assert_eq!(different.len(), named.count());
        // Whatever happened: when all threads have ended and no call is about to begin a turn, no
        // place is taken, and nothing is remembered once the root has ended too.
        for agent in 0..agents.len() {
            while forest.agents.get(&name(agent)).is_some_and(|agent| agent.beginning > 0) {
                forest.begun(&name(agent));
            }
            forest.thread_ended(&name(agent));
            while forest.agents.get(&name(agent)).is_some_and(|agent| agent.ending > 0) {
                forest.ended(&name(agent));
            }
        }
        prop_assert_eq!(forest.working("root"), 0);
        forest.thread_ended("root");
        prop_assert!(forest.agents.is_empty() && forest.trees.is_empty());
    }
}

#[test]
fn an_agent_descends_from_all_threads_above_it() {
    let mut forest = Forest::default();
    assert!(add(&mut forest, "a", "root", 1));
    assert!(add(&mut forest, "b", "a", 2));
    assert_eq!(forest.descends("b", "a"), Some(true));
    assert_eq!(forest.descends("b", "root"), Some(true));
    assert_eq!(forest.descends("a", "b"), Some(false));
    assert_eq!(forest.descends("unknown", "root"), None);
    assert!(forest.has_working_descendants("root") && forest.has_working_descendants("a"));
    assert!(!forest.has_working_descendants("b"));
}

#[test]
fn the_configuration_of_an_agent_does_not_raise_the_limits_of_its_tree() {
    let mut forest = Forest::default();
    let wide = TreeLimits { max_threads: 100, max_depth: 9 };
    assert_eq!(forest.limits("root", false, wide, None), wide);
    // After a restart, when the root has not called yet.
    assert_eq!(forest.limits("root", false, wide, Some(LIMITS)), LIMITS);
    assert_eq!(forest.limits("root", true, LIMITS, None), LIMITS);
    assert_eq!(forest.limits("root", false, wide, None), LIMITS);
    assert_eq!(forest.limits("root", true, wide, None), wide);
    assert_eq!(forest.limits("root", false, wide, Some(LIMITS)), wide);
}

/// Whoever closes the tree again waits for its end, too.
#[test]
fn an_agent_that_is_being_ended_is_not_forgotten_with_its_root() {
    let mut forest = Forest::default();
    assert!(add(&mut forest, "a", "root", 1));
    forest.begun("a");
    assert_eq!(forest.close("a"), ["a"]);
    forest.thread_ended("root");
    assert_eq!(forest.close_below("root"), ["a"]);
    forest.thread_ended("a");
    forest.ended("a");
    assert_eq!(forest.close_below("root"), ["a"]);
    forest.ended("a");
    forest.ended("a");
    assert!(forest.close_below("root").is_empty());
}
