//! What scenarios with requests for permissions must show beyond the promises that hold in every
//! run.

use std::path::PathBuf;

use session::{
    ApprovalPolicy, Ask, Decision, Effect, Grant, GrantScope, Granular, Input, ItemStatus, Mode,
    Overrides, Permissions, PolicyBound, ReadAccess, Record, SandboxPolicy, Settings, TurnStatus,
};

use crate::response::{Output, exec, patch, request};
use crate::script::{Script, Start, settings};
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

/// The folders beside `/w` and `/tmp` that each command could write, and whether it had the network.
fn reaches(sim: &Simulation) -> Vec<(Vec<PathBuf>, bool)> {
    let policies = sim.effects.iter().filter_map(|effect| match effect {
        Effect::Run { spec, .. } => Some(&spec.sandbox),
        _ => None,
    });
    policies
        .map(|policy| match policy {
            SandboxPolicy::WorkspaceWrite { writable_roots, network, .. } => {
                let others = writable_roots.iter().filter(|root| *root != &PathBuf::from("/w"));
                (others.cloned().collect(), *network)
            }
            SandboxPolicy::ReadOnly { network, .. } => (Vec::new(), *network),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn folders(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

pub(crate) fn grant(write: &[&str], network: bool, scope: GrantScope) -> Decision {
    let permissions = Permissions { read: Vec::new(), write: folders(write), network };
    Decision::Grant(Grant { permissions, scope })
}

/// A command before the request, one after it, and one in the next turn.
fn script(request: Output, decision: Decision) -> Script {
    let responses = [
        vec![exec("a", "print:a")],
        vec![request],
        vec![exec("c", "print:c")],
        vec![],
        vec![exec("d", "print:d")],
    ];
    let responses: Vec<&[Output]> = responses.iter().map(Vec::as_slice).collect();
    Script::new(&responses).deciding(&[decision]).then("again")
}

#[test]
fn what_is_granted_holds_from_the_next_command_on() {
    use GrantScope::{Session, Turn};
    let asked = || request("b", &["/a", "/b"], true);
    let none = (folders(&[]), false);
    let all = (folders(&["/a", "/b"]), true);
    let some = (folders(&["/a"]), false);
    for (decision, then, next_turn) in [
        (grant(&["/a", "/b"], true, Turn), &all, &none),
        (grant(&["/a", "/b"], true, Session), &all, &all),
        (grant(&["/a"], false, Session), &some, &some),
        (Decision::Accept, &all, &none),
        (Decision::AcceptForSession, &all, &all),
        (Decision::AcceptWithAmendment(vec!["x".into()]), &all, &none),
        (Decision::Decline, &none, &none),
        (grant(&[], false, Session), &none, &none),
        (grant(&["/a", "/c"], false, Session), &none, &none),
    ] {
        let sim = run(&script(asked(), decision.clone()));
        let reached = reaches(&sim);
        let expected = [&none, then, next_turn];
        assert_eq!(reached.iter().collect::<Vec<_>>(), expected, "{decision:?}");
        let output = sim.output_of("b");
        assert_eq!(then != &none, output.starts_with(r#"{"permissions":"#), "{output}");
        assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    }
}

#[test]
fn a_grant_is_shown_and_not_stored_as_a_setting() {
    let sim =
        run(&script(request("b", &["/a"], false), grant(&["/a"], false, GrantScope::Session)));
    assert_eq!(sim.machine.granted().write, folders(&["/a"]));
    assert_ne!(sim.machine.settings().sandbox, sim.machine.chosen_settings().sandbox);
    assert_eq!(*sim.machine.chosen_settings(), settings());
    assert!(!sim.records.iter().any(|record| matches!(record, Record::Settings(_))));
    let sent =
        sim.prompts.last().unwrap().input.iter().any(|item| item.contains("write in /w, /a"));
    assert!(sent, "the next turn introduces the wider policy");
}

#[test]
fn the_user_is_asked_for_what_is_missing_only() {
    let sim = run(&Script::new(&[&[request("b", &["/a", "/held"], false)]]));
    let asked = sim.effects.iter().find_map(|effect| match effect {
        Effect::Ask { ask: Ask::Permissions { permissions, reason, .. }, .. } => {
            Some((permissions.write.clone(), reason.clone()))
        }
        _ => None,
    });
    assert_eq!(asked, Some((folders(&["/a"]), Some("needed".to_owned()))));
    let held = run(&Script::new(&[&[request("b", &["/held"], false)]]));
    assert_eq!((held.asks(), held.output_of("b").contains("in force already")), (0, true));
}

#[test]
fn no_client_is_asked_where_nothing_can_be_granted() {
    let granular = |request_permissions| {
        ApprovalPolicy::Granular(Granular {
            sandbox_approval: true,
            rules: true,
            mcp_elicitations: true,
            request_permissions,
            skill_approval: true,
        })
    };
    let full = SandboxPolicy::DangerFullAccess;
    let confined = settings().sandbox;
    use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
    for (approval, sandbox, mode, folder, asks, expected) in [
        (Never, &confined, Mode::Default, "/a", 0, "the approval policy is `never`"),
        (granular(false), &confined, Mode::Default, "/a", 0, "switched off"),
        (granular(true), &confined, Mode::Default, "/a", 1, "\"scope\":\"turn\""),
        (UnlessTrusted, &confined, Mode::Default, "/a", 1, "\"scope\":\"turn\""),
        (OnRequest, &full, Mode::Default, "/a", 0, "nothing to request"),
        (OnRequest, &confined, Mode::Plan, "/a", 0, "plan mode changes nothing"),
        (OnRequest, &full, Mode::Plan, "/a", 0, "plan mode changes nothing"),
        (OnRequest, &confined, Mode::Default, "/never", 0, "/never is not for you"),
        (OnRequest, &confined, Mode::Default, "/moved", 1, "leads elsewhere"),
    ] {
        let mut script = Script::new(&[&[request("b", &[folder], false)]]).asking(approval);
        script.settings.sandbox = sandbox.clone();
        script.settings.mode = mode;
        let sim = run(&script);
        assert_eq!(sim.asks(), asks, "{approval:?} {mode:?} {folder}");
        assert!(sim.output_of("b").contains(expected), "{}", sim.output_of("b"));
        let granted = expected.contains("scope");
        let shown = if granted { vec![ItemStatus::Completed] } else { vec![ItemStatus::Failed] };
        let nothing = expected.contains("nothing to");
        assert_eq!(statuses(&sim), if nothing { vec![] } else { shown });
    }
}

#[test]
fn another_sandbox_policy_ends_what_was_granted() {
    let asked = request("b", &["/a"], false);
    let read_only = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false };
    for (sandbox, remains) in [(read_only, false), (settings().sandbox, true)] {
        let mut script = script(asked.clone(), grant(&["/a"], false, GrantScope::Session));
        let overrides = Overrides { sandbox: Some(sandbox), ..Overrides::default() };
        script.turns[1] = Start { text: "again".into(), overrides, output_schema: None };
        let sim = run(&script);
        let last = reaches(&sim).pop().unwrap();
        assert_eq!(last.0, if remains { folders(&["/a"]) } else { folders(&[]) });
    }
}

#[test]
fn grants_that_new_requirements_forbid_end() {
    let script = script(request("b", &["/a"], true), grant(&["/a"], true, GrantScope::Session));
    let mut dropped = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if !dropped && !sim.machine.granted().is_empty() {
            dropped = true;
            sim.step(Input::DropGrants);
        }
    });
    assert!(sim.machine.granted().is_empty());
    assert_eq!(reaches(&sim).last(), Some(&(folders(&[]), false)));
}

#[test]
fn an_interrupted_request_grants_nothing() {
    let script = Script::new(&[&[request("b", &["/a"], false), patch("c", "path:/w/x")]]);
    for checking in [false, true] {
        let mut done = false;
        let sim = Simulation::run_with(&script, Order::Timely, |sim| {
            let is_there = |effect: &Effect| match checking {
                true => matches!(effect, Effect::CheckGrant { .. }),
                false => matches!(effect, Effect::Ask { .. }),
            };
            if !done && sim.effects.iter().any(is_there) {
                done = true;
                let turn = sim.machine.active_turn().unwrap().to_string();
                let reply = sim.reply();
                sim.step(Input::Interrupt { reply, turn });
            }
        });
        assert_eq!(
            (sim.ends(), sim.machine.granted().is_empty()),
            (vec![TurnStatus::Interrupted], true)
        );
    }
}

#[test]
fn a_bound_holds_from_the_next_command_on_and_widens_again() {
    let read_only = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false };
    let chosen = settings();
    let narrow = PolicyBound::of(&Settings { sandbox: read_only.clone(), ..chosen.clone() });
    let plan = PolicyBound::of(&Settings { mode: Mode::Plan, ..chosen.clone() });
    let commands = [exec("a", "print:a"), exec("b", "print:b"), exec("c", "print:c")];
    for (bound, expected) in [(narrow, read_only.clone()), (plan, read_only)] {
        let responses: Vec<&[Output]> = commands.chunks(1).chain([&[][..]]).collect();
        let script = Script::new(&responses);
        let mut last = 0;
        let sim = Simulation::run_with(&script, Order::Timely, |sim| {
            let runs = reaches(sim).len();
            if runs > last {
                last = runs;
                let bound = match runs {
                    1 => bound.clone(),
                    _ => PolicyBound::of(&chosen),
                };
                sim.step(Input::Bound(Box::new(bound)));
            }
        });
        let policies: Vec<&SandboxPolicy> = sim
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Run { spec, .. } => Some(&spec.sandbox),
                _ => None,
            })
            .collect();
        assert_eq!(policies, [&chosen.sandbox, &expected, &chosen.sandbox]);
        // The settings that are stored are those that were chosen.
        assert_eq!(sim.machine.chosen_settings(), &chosen);
    }
}

#[test]
fn a_narrower_bound_ends_what_was_granted_beyond_the_sandbox() {
    let script = script(request("b", &["/a"], false), grant(&["/a"], false, GrantScope::Session));
    let read_only = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false };
    for (sandbox, remains) in [(read_only, false), (settings().sandbox, true)] {
        let bound = PolicyBound::of(&Settings { sandbox, ..settings() });
        let mut done = false;
        let sim = Simulation::run_with(&script, Order::Timely, |sim| {
            if !done && !sim.machine.granted().is_empty() {
                done = true;
                sim.step(Input::Bound(Box::new(bound.clone())));
            }
        });
        assert!(done);
        assert_eq!(!sim.machine.granted().is_empty(), remains);
    }
}

#[test]
fn an_answer_for_the_session_makes_the_offered_folder_writable_after_its_check() {
    let patches = [vec![patch("a", "outside folder:/work")], vec![exec("b", "print:b")]];
    for (decision, granted) in [
        (Decision::AcceptForSession, folders(&["/work"])),
        (Decision::Accept, folders(&[])),
        (Decision::Decline, folders(&[])),
    ] {
        let responses: Vec<&[Output]> = patches.iter().map(Vec::as_slice).collect();
        let sim = run(&Script::new(&responses).deciding(std::slice::from_ref(&decision)));
        assert_eq!(sim.machine.granted().write, granted, "{decision:?}");
        let offered = sim.effects.iter().find_map(|effect| match effect {
            Effect::Ask { ask: Ask::Patch { grant_root, .. }, .. } => Some(grant_root.clone()),
            _ => None,
        });
        assert_eq!(offered, Some(Some("/work".into())));
        assert_eq!(reaches(&sim), [(granted, false)]);
    }
}

#[test]
fn a_folder_that_leads_elsewhere_is_not_granted_and_the_approved_patch_is_applied() {
    let response = [patch("a", "outside folder:/moved")];
    let script = Script::new(&[&response]).deciding(&[Decision::AcceptForSession]);
    let sim = run(&script);
    assert!(sim.machine.granted().is_empty());
    assert!(sim.effects.iter().any(|effect| matches!(effect, Effect::Apply { .. })));
    let warned = |effect: &Effect| match effect {
        Effect::Emit(event) => matches!(event, session::Event::Warning { .. }),
        _ => false,
    };
    assert!(sim.effects.iter().any(warned));
}
