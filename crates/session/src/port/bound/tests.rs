use super::*;

use crate::port::permission::Permissions;

use SandboxPolicy::{DangerFullAccess, External, ReadOnly};

fn workspace(roots: &[&str], network: bool, exclude_slash_tmp: bool) -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: roots.iter().map(Into::into).collect(),
        read: ReadAccess::Full,
        network,
        exclude_slash_tmp,
        exclude_tmpdir: false,
    }
}

fn profile(network: bool) -> SandboxPolicy {
    SandboxPolicy::Profile {
        name: "p".into(),
        rules: Vec::new(),
        platform_defaults: true,
        network,
        managed: false,
    }
}

fn reads(read: ReadAccess, network: bool) -> SandboxPolicy {
    ReadOnly { read, network }
}

fn some() -> ReadAccess {
    ReadAccess::Restricted { platform_defaults: true, roots: vec!["/r".into()] }
}

fn none() -> ReadAccess {
    ReadAccess::Restricted { platform_defaults: false, roots: Vec::new() }
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
fn a_sandbox_stays_within_its_bound() {
    let full = || reads(ReadAccess::Full, false);
    for (policy, bound, expected) in [
        (workspace(&["/w"], true, false), DangerFullAccess, true),
        (DangerFullAccess, workspace(&["/w"], true, false), false),
        (External { network: false }, workspace(&["/w"], true, false), false),
        (External { network: true }, External { network: false }, false),
        (DangerFullAccess, External { network: true }, false),
        (workspace(&["/w"], true, false), External { network: true }, true),
        (workspace(&["/w"], true, false), External { network: false }, false),
        (full(), External { network: false }, true),
        (full(), workspace(&["/w"], false, false), true),
        (full(), profile(true), false),
        (profile(false), profile(true), false),
        (profile(true), profile(true), true),
        (reads(ReadAccess::Full, true), full(), false),
        (reads(none(), false), reads(some(), false), true),
        (reads(some(), false), reads(none(), false), false),
        (reads(ReadAccess::Full, false), reads(some(), false), false),
        (workspace(&["/w"], false, false), full(), false),
        (workspace(&["/w"], false, false), workspace(&["/w"], true, false), true),
        (workspace(&["/w"], true, false), workspace(&["/w"], false, false), false),
        (workspace(&["/w"], false, false), workspace(&["/w", "/x"], false, false), true),
        (workspace(&["/w", "/y"], false, false), workspace(&["/w"], false, false), false),
        (workspace(&["/w"], false, false), workspace(&["/x"], false, false), false),
        (workspace(&["/w"], false, true), workspace(&["/w"], false, false), true),
        (workspace(&["/w"], false, false), workspace(&["/w"], false, true), false),
    ] {
        assert_eq!(is_within(&policy, &bound), expected, "{policy:?} within {bound:?}");
    }
}

#[test]
fn the_narrower_of_two_sandboxes_is_within_both() {
    let all = [
        DangerFullAccess,
        External { network: true },
        External { network: false },
        profile(true),
        profile(false),
        reads(ReadAccess::Full, true),
        reads(some(), false),
        reads(none(), true),
        workspace(&["/w"], true, false),
        workspace(&["/w", "/x"], false, false),
        workspace(&["/x"], true, true),
        workspace(&["/y"], false, false),
    ];
    for a in &all {
        for b in &all {
            let both = narrower(a, b);
            // What a profile allows is compared with nothing else: there only reading is left.
            let root = Path::new("/");
            let only_reads = [reads(none(), false), a.reading_only(root), b.reading_only(root)];
            for bound in [a, b] {
                let is_within = is_within(&both, bound) || only_reads.contains(&both);
                assert!(is_within, "{a:?}, {b:?}: {both:?}");
                let writes = matches!(both, SandboxPolicy::WorkspaceWrite { .. });
                assert!(!(writes && matches!(bound, ReadOnly { .. })), "{a:?}, {b:?}: {both:?}");
            }
        }
    }
    let both = narrower(&workspace(&["/w", "/x"], true, false), &workspace(&["/x"], false, true));
    assert_eq!(both, workspace(&["/x"], false, true));
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
