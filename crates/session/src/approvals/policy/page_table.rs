//! The table in docs/sandbox.md of what is asked about: it says what this module decides.

use super::tests::{read_only, settings};
use super::{CommandRequest, Verdict, command, patch, server_tool};
use crate::approvals::grants::Grants;
use crate::port::server_tool::{ToolApproval, ToolEffect, ToolTarget};
use crate::port::settings::{ApprovalPolicy, ReadAccess, SandboxPolicy, Settings};
use crate::port::tool::{Assessment, PatchPlan, PatchTarget};

const PAGE: &str = include_str!("../../../../../docs/sandbox.md");
const HEAD: &str = "| approval policy | sandbox | a command that only reads | another command | \
    one that asks to leave the sandbox | one that can destroy data | an edit in the folder | an edit elsewhere | \
    an MCP tool of unknown effect |\n|---|---|---|---|---|---|---|---|---|\n";

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Run { unsandboxed: false } => "runs",
        Verdict::Run { unsandboxed: true } => "runs outside",
        Verdict::Ask { .. } => "**asks**",
        Verdict::Refuse(_) | Verdict::Fail(_) => "refused",
    }
}

fn of_command(settings: &Settings, assessment: &Assessment, escalate: bool) -> &'static str {
    let request = CommandRequest { assessment, identity: &[], escalate, justification: None };
    match command(settings, &Grants::default(), &request) {
        // Without a sandbox there is nothing to leave.
        Verdict::Run { .. } if settings.sandbox == SandboxPolicy::DangerFullAccess => {
            "runs outside"
        }
        verdict => word(&verdict),
    }
}

/// A patch of one file, `in_folder` or elsewhere.
fn of_patch(settings: &Settings, in_folder: bool) -> &'static str {
    let is_writable = match settings.sandbox {
        SandboxPolicy::WorkspaceWrite { .. } => in_folder,
        _ => settings.sandbox == SandboxPolicy::DangerFullAccess,
    };
    let path = if in_folder { "/w/x" } else { "/v/x" };
    let plan = PatchPlan {
        changes: Vec::new(),
        targets: vec![PatchTarget { path: path.into(), real: path.into() }],
        outside: (!is_writable).then(|| "not in a writable folder".to_owned()),
        grantable_folder: None,
    };
    word(&patch(settings, &Grants::default(), &plan))
}

fn of_tool(settings: &Settings) -> &'static str {
    let tool = ToolTarget {
        server: "s".into(),
        tool: "t".into(),
        title: None,
        digest: [0; 16],
        server_digest: [0; 16],
        effect: ToolEffect::Unknown,
        approval: ToolApproval::Auto,
        connector: None,
        app_resource: None,
    };
    // A server is outside of the sandbox in any case.
    match server_tool(settings, &Grants::default(), &tool) {
        Verdict::Run { .. } => "runs",
        verdict => word(&verdict),
    }
}

fn table() -> String {
    let workspace_write = SandboxPolicy::WorkspaceWrite {
        writable_roots: Vec::new(),
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: false,
        exclude_tmpdir: false,
    };
    let harmless = Assessment { known_safe: true, ..Assessment::default() };
    let plain = Assessment::default();
    let destructive = Assessment { dangerous: true, ..Assessment::default() };
    let mut table = HEAD.to_owned();
    for (approval, approval_name) in [
        (ApprovalPolicy::UnlessTrusted, "untrusted"),
        (ApprovalPolicy::OnRequest, "on-request"),
        (ApprovalPolicy::Never, "never"),
    ] {
        for (sandbox, sandbox_name) in [
            (read_only(), "read-only"),
            (workspace_write.clone(), "workspace-write"),
            (SandboxPolicy::DangerFullAccess, "danger-full-access"),
        ] {
            let settings = settings(approval, sandbox);
            let cells = [
                of_command(&settings, &harmless, false),
                of_command(&settings, &plain, false),
                of_command(&settings, &plain, true),
                of_command(&settings, &destructive, false),
                of_patch(&settings, true),
                of_patch(&settings, false),
                of_tool(&settings),
            ];
            table += &format!("| `{approval_name}` | `{sandbox_name}` | {} |\n", cells.join(" | "));
        }
    }
    table
}

#[test]
fn the_page_says_what_is_asked_about() {
    let table = table();
    assert!(PAGE.contains(&table), "the table of docs/sandbox.md must be:\n{table}");
}
