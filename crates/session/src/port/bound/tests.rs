use super::*;
use crate::port::permission::Permissions;
use crate::port::settings::ReadAccess;

use SandboxPolicy::{DangerFullAccess, ReadOnly};

fn workspace(roots: &[&str], network: bool, exclude_slash_tmp: bool) -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: roots.iter().map(Into::into).collect(),
        read: ReadAccess::Full,
        network,
        exclude_slash_tmp,
        exclude_tmpdir: false,
    }
}

fn reads(read: ReadAccess, network: bool) -> SandboxPolicy {
    ReadOnly { read, network }
}

/// With all kinds of prompt but those that are given.
fn granular(rules: bool, sandbox_approval: bool) -> ApprovalPolicy {
    ApprovalPolicy::Granular(Granular { rules, sandbox_approval, ..ALL_KINDS })
}

fn settings(approval: ApprovalPolicy, sandbox: SandboxPolicy) -> Settings {
    Settings {
        model: "m".into(),
        provider: "p".into(),
        cwd: "/w".into(),
        approval,
        reviewer: ApprovalsReviewer::User,
        sandbox,
        effort: None,
        summary: None,
        verbosity: None,
        personality: None,
        service_tier: None,
        mode: Mode::Default,
        mode_instructions: None,
        granted: Permissions::default(),
    }
}

#[test]
fn an_approval_policy_asks_at_least_as_often_as_its_bound() {
    use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
    for (policy, bound, expected) in [
        (OnRequest, OnRequest, true),
        (UnlessTrusted, OnRequest, true),
        (OnRequest, UnlessTrusted, false),
        (Never, OnRequest, false),
        (Never, UnlessTrusted, false),
        (OnRequest, Never, false),
        (UnlessTrusted, Never, false),
        // What the bound refuses is not asked about instead.
        (OnRequest, granular(false, true), false),
        (UnlessTrusted, granular(false, true), false),
        (UnlessTrusted, granular(true, true), true),
        (Never, granular(false, false), false),
        (granular(true, false), granular(false, true), false),
        (granular(false, false), granular(false, true), true),
        (granular(false, true), OnRequest, true),
        (OnRequest, granular(true, true), true),
        (granular(false, false), UnlessTrusted, false),
        (granular(false, false), Never, false),
    ] {
        assert_eq!(asks_as_much(policy, bound), expected, "{policy:?} within {bound:?}");
    }
    assert_eq!(stricter(granular(true, false), granular(false, true)), granular(false, false));
    assert_eq!(stricter(Never, UnlessTrusted), UnlessTrusted);
    assert_eq!(stricter(Never, OnRequest), ApprovalPolicy::Granular(NO_KINDS));
}

#[test]
fn a_working_folder_elsewhere_is_not_writable() {
    let parent = settings(ApprovalPolicy::OnRequest, workspace(&[], false, false));
    let bound = PolicyBound::of(&parent);
    let mut same = parent.clone();
    assert_eq!(bound.limit(&mut same), []);
    assert_eq!(same, parent);
    let mut moved = Settings { cwd: "/elsewhere".into(), ..parent };
    assert_eq!(bound.limit(&mut moved), [BoundedSetting::Sandbox]);
    assert_eq!(moved.sandbox, workspace(&["/w"], false, false));
}

#[test]
fn who_writes_nothing_gets_no_folder_from_the_bound() {
    let bound = PolicyBound::of(&settings(ApprovalPolicy::Never, workspace(&[], false, false)));
    let mut reader = settings(ApprovalPolicy::Never, reads(ReadAccess::Full, true));
    assert_eq!(bound.limit(&mut reader), [BoundedSetting::Sandbox]);
    assert_eq!(reader.sandbox, reads(ReadAccess::Full, false));
}

#[test]
fn plan_mode_holds_below_while_it_lasts() {
    let instructions = Some("Plan well.".to_owned());
    let default = settings(ApprovalPolicy::Never, DangerFullAccess);
    let planning =
        Settings { mode: Mode::Plan, mode_instructions: instructions.clone(), ..default.clone() };
    let bound = PolicyBound::of(&planning);
    let mut agent = default.clone();
    assert_eq!(bound.limit(&mut agent), [BoundedSetting::Mode]);
    assert_eq!(agent, planning);
    let started_by = PolicyBound::of(&planning).lasting();
    assert_eq!(started_by, PolicyBound::of(&default));
    assert_eq!(started_by.and(&bound).planning, Some(Planning { instructions }));
    assert_eq!(bound.and(&started_by).planning, bound.planning);
}
