//! Decides whether a command or a patch runs, is asked about, or is refused (specification:
//! Server-initiated requests).

#[cfg(test)]
mod page_table;

use super::grants::Grants;
use crate::plan_mode::{CHANGES_NOTHING, Reach, STAYS_CONFINED};
use crate::port::server_tool::{ToolApproval, ToolEffect, ToolTarget};
use crate::port::settings::{ApprovalPolicy, Mode, SandboxPolicy, Settings};
use crate::port::tool::{Assessment, PatchPlan, RuleDecision};

/// The decision about a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It runs; `unsandboxed` when it may leave the sandbox.
    Run { unsandboxed: bool },
    /// The clients are asked first.
    Ask { reason: Option<String>, unsandboxed: bool },
    /// It is not allowed; the reason is for the model.
    Refuse(String),
    /// It makes no sense in this mode; the reason is for the model.
    Fail(String),
}

/// A command that the model asks for.
pub(crate) struct CommandRequest<'a> {
    pub(crate) assessment: &'a Assessment,
    /// The command's identity, as grants know it.
    pub(crate) identity: &'a [String],
    pub(crate) escalate: bool,
    pub(crate) justification: Option<&'a str>,
}

/// Decides about a command of the agent.
pub(crate) fn command(
    settings: &Settings,
    grants: &Grants,
    request: &CommandRequest<'_>,
) -> Verdict {
    let CommandRequest { assessment, identity, escalate, justification } = *request;
    let unsandboxed = escalate && !settings.sandbox.is_unconfined();
    let rule = assessment.rule.as_ref().map(|(decision, why)| (*decision, why.as_deref()));
    if let Some((RuleDecision::Forbidden, why)) = rule {
        return Verdict::Refuse(refusal("a rule forbids this command", why));
    }
    if settings.mode == Mode::Plan && escalate {
        return Verdict::Fail(STAYS_CONFINED.to_owned());
    }
    let reach = Reach::new(settings.mode, unsandboxed);
    if grants.has_command(identity, &assessment.real_cwd, reach) {
        return Verdict::Run { unsandboxed };
    }
    let ask = |why: Option<&str>| Verdict::Ask { reason: why.map(str::to_owned), unsandboxed };
    let demanded = matches!(rule, Some((RuleDecision::Prompt, _)));
    let allowed = matches!(rule, Some((RuleDecision::Allow, _)));
    let is_risky = assessment.dangerous && settings.sandbox == SandboxPolicy::DangerFullAccess;
    match settings.approval {
        ApprovalPolicy::Never if demanded => Verdict::Refuse(refusal(
            "a rule requires approval for this command, and no approval can be requested",
            rule.and_then(|(_, why)| why),
        )),
        ApprovalPolicy::Never if unsandboxed && !allowed => Verdict::Refuse(
            "no approval can be requested for a command outside the sandbox; find another way"
                .into(),
        ),
        ApprovalPolicy::Never => Verdict::Run { unsandboxed },
        _ if allowed => Verdict::Run { unsandboxed },
        ApprovalPolicy::UnlessTrusted if assessment.known_safe && !unsandboxed && !demanded => {
            Verdict::Run { unsandboxed }
        }
        ApprovalPolicy::UnlessTrusted => {
            let why = rule.and_then(|(_, why)| why);
            ask(if demanded { why.or(justification) } else { justification.or(why) })
        }
        ApprovalPolicy::Granular(granular) if demanded && !granular.rules => {
            Verdict::Refuse(refusal(
                "a rule wants this command approved, and such prompts are switched off",
                rule.and_then(|(_, why)| why),
            ))
        }
        // A question about a script of a skill is one of these, and not about the sandbox.
        ApprovalPolicy::Granular(granular)
            if assessment.is_skill_script
                && !granular.skill_approval
                && !demanded
                && (unsandboxed || is_risky) =>
        {
            Verdict::Refuse("prompts for scripts of skills are switched off; do without".into())
        }
        ApprovalPolicy::Granular(granular)
            if unsandboxed && !granular.sandbox_approval && !assessment.is_skill_script =>
        {
            Verdict::Refuse("prompts for leaving the sandbox are switched off; do without".into())
        }
        ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) => {
            if demanded {
                ask(rule.and_then(|(_, why)| why).or(justification))
            } else if unsandboxed {
                ask(justification)
            } else if is_risky {
                ask(Some("this command can destroy data, and no sandbox holds it"))
            } else {
                Verdict::Run { unsandboxed }
            }
        }
    }
}

/// Decides about a patch of the agent.
pub(crate) fn patch(settings: &Settings, grants: &Grants, plan: &PatchPlan) -> Verdict {
    if settings.mode == Mode::Plan {
        return Verdict::Fail(CHANGES_NOTHING.to_owned());
    }
    let outside = plan.outside.as_deref().filter(|_| !settings.sandbox.is_unconfined());
    let unsandboxed = outside.is_some();
    if grants.has_changes(&plan.targets) {
        return Verdict::Run { unsandboxed };
    }
    match (settings.approval, outside) {
        (ApprovalPolicy::Never, Some(why)) => {
            Verdict::Refuse(format!("{why}, and no approval can be requested"))
        }
        (ApprovalPolicy::Granular(granular), Some(why)) if !granular.sandbox_approval => {
            Verdict::Refuse(format!("{why}, and prompts for it are switched off"))
        }
        (ApprovalPolicy::UnlessTrusted, why) => {
            Verdict::Ask { reason: why.map(str::to_owned), unsandboxed }
        }
        (_, Some(why)) => Verdict::Ask { reason: Some(why.to_owned()), unsandboxed },
        (_, None) => Verdict::Run { unsandboxed: false },
    }
}

/// Decides about a call of the tool of an MCP server. Servers run outside of the sandbox, so what is
/// not known to be harmless is asked about.
pub(crate) fn server_tool(settings: &Settings, grants: &Grants, tool: &ToolTarget) -> Verdict {
    let run = Verdict::Run { unsandboxed: true };
    if settings.mode == Mode::Plan && tool.effect != ToolEffect::ReadOnly {
        return Verdict::Fail(CHANGES_NOTHING.to_owned());
    }
    let is_destructive = tool.effect == ToolEffect::Destructive;
    let asks = match (tool.approval, tool.effect) {
        (_, ToolEffect::Destructive) | (ToolApproval::Prompt, _) => true,
        (ToolApproval::Approve, _) | (ToolApproval::Auto, ToolEffect::ReadOnly) => false,
        (ToolApproval::Auto, ToolEffect::Additive) => {
            settings.approval == ApprovalPolicy::UnlessTrusted
        }
        (ToolApproval::Auto, ToolEffect::Unknown) => true,
    };
    if !asks || (!is_destructive && grants.has_server_tool(tool)) {
        return run;
    }
    let ToolTarget { server, tool: name, .. } = tool;
    let why = match tool.effect {
        ToolEffect::Destructive => "its server says that it can destroy something",
        _ if tool.approval == ToolApproval::Prompt => "the configuration demands it",
        _ => "what it does is known to its server alone",
    };
    match settings.approval {
        // Commands run unconfined and unasked too.
        ApprovalPolicy::Never
            if tool.approval == ToolApproval::Auto
                && !is_destructive
                && settings.sandbox.is_unconfined() =>
        {
            run
        }
        ApprovalPolicy::Never => Verdict::Refuse(format!(
            "the tool `{name}` of the MCP server `{server}` needs an approval ({why}), and none can be \
             requested{}",
            match (is_destructive, &tool.connector) {
                (true, _) => String::new(),
                (false, None) => format!(
                    "; `mcp_servers.{server}.tools.{name}.approval_mode = \"approve\"` in the \
                     configuration allows it"
                ),
                (false, Some(app)) => format!(
                    "; `apps.{}.tools.{name}.approval_mode = \"approve\"` in the configuration \
                     allows it",
                    app.id
                ),
            }
        )),
        ApprovalPolicy::Granular(granular) if !granular.mcp_elicitations => {
            Verdict::Refuse(format!(
                "the tool `{name}` of the MCP server `{server}` needs an approval ({why}), and prompts \
                 for MCP servers are switched off"
            ))
        }
        _ => Verdict::Ask { reason: Some(why.to_owned()), unsandboxed: true },
    }
}

/// Decides about text that the agent types into a running command outside of the sandbox: to let the
/// command run was to let it run as it was shown.
pub(crate) fn typing(settings: &Settings, session: u64, command: &str) -> Verdict {
    let why = "the command runs outside of the sandbox, where text for it needs an approval";
    match settings.approval {
        ApprovalPolicy::Never => Verdict::Refuse(format!(
            "nothing was typed: {why}, and no approval can be requested; give the command all that it \
             needs when you start it"
        )),
        ApprovalPolicy::Granular(granular) if !granular.sandbox_approval => {
            Verdict::Refuse(format!(
                "nothing was typed: {why}, and such prompts are switched off; give the command all that \
             it needs when you start it"
            ))
        }
        _ => Verdict::Ask {
            reason: Some(format!(
                "to type this into session {session}, which runs outside of the sandbox: {}",
                visible::exact(command)
            )),
            unsandboxed: true,
        },
    }
}

fn refusal(what: &str, why: Option<&str>) -> String {
    why.map_or_else(|| what.to_owned(), |why| format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::port::permission::Permissions;
    use crate::port::settings::{ApprovalsReviewer, Granular, ReadAccess};
    use crate::port::tool::PatchTarget;

    pub(super) fn settings(approval: ApprovalPolicy, sandbox: SandboxPolicy) -> Settings {
        Settings {
            model: "m".into(),
            provider: "p".into(),
            cwd: "/w".into(),
            approval,
            reviewer: ApprovalsReviewer::User,
            sandbox,
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

    pub(super) fn read_only() -> SandboxPolicy {
        SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false }
    }

    const GRANULAR_OFF: ApprovalPolicy = ApprovalPolicy::Granular(Granular {
        sandbox_approval: false,
        rules: false,
        mcp_elicitations: false,
        request_permissions: false,
        skill_approval: false,
    });

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Outcome {
        Run,
        Outside,
        Ask,
        Refuse,
        Fail,
    }
    use Outcome::{Ask as Asks, Fail, Outside, Refuse, Run};

    fn outcome(verdict: &Verdict) -> Outcome {
        match verdict {
            Verdict::Run { unsandboxed: false } => Run,
            Verdict::Run { unsandboxed: true } => Outside,
            Verdict::Ask { .. } => Asks,
            Verdict::Refuse(_) => Refuse,
            Verdict::Fail(_) => Fail,
        }
    }

    #[test]
    fn commands() {
        use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
        let safe = Assessment { known_safe: true, ..Assessment::default() };
        let plain = Assessment::default();
        let dangerous = Assessment { dangerous: true, ..Assessment::default() };
        let ruled = |decision| Assessment { rule: Some((decision, None)), ..Assessment::default() };
        let (allow, prompt, forbid) = (
            ruled(RuleDecision::Allow),
            ruled(RuleDecision::Prompt),
            ruled(RuleDecision::Forbidden),
        );
        let full = SandboxPolicy::DangerFullAccess;
        let rows = [
            (Never, read_only(), &plain, false, Run),
            (Never, read_only(), &plain, true, Refuse),
            (Never, read_only(), &allow, true, Outside),
            (Never, read_only(), &prompt, false, Refuse),
            (Never, full.clone(), &dangerous, false, Run),
            (Never, full.clone(), &forbid, false, Refuse),
            (UnlessTrusted, read_only(), &safe, false, Run),
            (UnlessTrusted, read_only(), &safe, true, Asks),
            (UnlessTrusted, read_only(), &plain, false, Asks),
            (UnlessTrusted, read_only(), &allow, false, Run),
            (UnlessTrusted, full.clone(), &plain, true, Asks),
            (OnRequest, read_only(), &plain, false, Run),
            (OnRequest, read_only(), &dangerous, false, Run),
            (OnRequest, full.clone(), &dangerous, false, Asks),
            (OnRequest, read_only(), &plain, true, Asks),
            (OnRequest, full, &plain, true, Run),
            (OnRequest, read_only(), &prompt, false, Asks),
            (OnRequest, read_only(), &forbid, true, Refuse),
            (GRANULAR_OFF, read_only(), &plain, true, Refuse),
            (GRANULAR_OFF, read_only(), &prompt, false, Refuse),
            (GRANULAR_OFF, read_only(), &plain, false, Run),
        ];
        for (row, (approval, sandbox, assessment, escalate, expected)) in
            rows.into_iter().enumerate()
        {
            let request =
                CommandRequest { assessment, identity: &[], escalate, justification: None };
            let verdict = command(&settings(approval, sandbox), &Grants::default(), &request);
            assert_eq!(outcome(&verdict), expected, "row {row}: {verdict:?}");
        }
    }

    #[test]
    fn a_grant_applies_to_the_same_command_and_folder_only() {
        let settings = settings(ApprovalPolicy::UnlessTrusted, read_only());
        let mut grants = Grants::default();
        grants.allow_command(vec!["make".into()], Path::new("/w"), Reach::Sandbox);
        let check = |script: &str, cwd: &str, escalate, expected| {
            let assessment = Assessment { real_cwd: cwd.into(), ..Assessment::default() };
            let identity = &[script.to_owned()];
            let assessment = &assessment;
            let request = CommandRequest { assessment, identity, escalate, justification: None };
            assert_eq!(outcome(&command(&settings, &grants, &request)), expected);
        };
        check("make", "/w", false, Run);
        check("make", "/w", true, Asks);
        check("make", "/v", false, Asks);
        check("make x", "/w", false, Asks);
    }

    #[test]
    fn plan_mode_grants_no_permission() {
        use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
        let plain = Assessment::default();
        let ruled = |decision| Assessment { rule: Some((decision, None)), ..Assessment::default() };
        let (allow, forbid) = (ruled(RuleDecision::Allow), ruled(RuleDecision::Forbidden));
        let dangerous = Assessment { dangerous: true, ..Assessment::default() };
        let mut outside = Grants::default();
        outside.allow_command(Vec::new(), Path::new(""), Reach::Outside);
        let mut in_sandbox = Grants::default();
        in_sandbox.allow_command(Vec::new(), Path::new(""), Reach::Sandbox);
        let none = Grants::default();
        for (approval, grants, assessment, escalate, expected) in [
            (Never, &none, &plain, false, Run),
            (Never, &none, &allow, true, Fail),
            (Never, &outside, &plain, true, Fail),
            (Never, &none, &forbid, true, Refuse),
            (OnRequest, &none, &plain, true, Fail),
            (OnRequest, &none, &dangerous, false, Run),
            (UnlessTrusted, &none, &plain, false, Asks),
            (UnlessTrusted, &outside, &plain, false, Asks),
            (UnlessTrusted, &in_sandbox, &plain, false, Run),
            (UnlessTrusted, &none, &allow, false, Run),
        ] {
            let settings = settings(approval, SandboxPolicy::DangerFullAccess);
            let settings = Settings { mode: Mode::Plan, ..settings };
            let identity = &[];
            let request = CommandRequest { assessment, identity, escalate, justification: None };
            let verdict = command(&settings.in_force(None), grants, &request);
            assert_eq!(outcome(&verdict), expected, "{approval:?} {assessment:?} {escalate}");
        }
        // What was granted in plan mode holds in plan mode only.
        let mut grants = Grants::default();
        grants.allow_command(Vec::new(), Path::new(""), Reach::ReadOnly);
        let settings = settings(UnlessTrusted, read_only());
        let (assessment, identity) = (&plain, &[]);
        let request = CommandRequest { assessment, identity, escalate: false, justification: None };
        assert_eq!(outcome(&command(&settings, &grants, &request)), Asks);
    }

    fn target(path: &str, real: &str) -> PatchTarget {
        PatchTarget { path: path.into(), real: real.into() }
    }

    fn plan(targets: &[PatchTarget], outside: Option<&str>) -> PatchPlan {
        let outside = outside.map(str::to_owned);
        PatchPlan {
            changes: Vec::new(),
            targets: targets.to_vec(),
            outside,
            grantable_folder: None,
        }
    }

    #[test]
    fn a_grant_for_a_file_is_for_no_other_file() {
        let settings = settings(ApprovalPolicy::UnlessTrusted, read_only());
        let mut grants = Grants::default();
        grants.allow_changes(&[target("/w/y", "/w/y"), target("/w/link", "/w/x")]);
        let check = |targets: &[PatchTarget], expected| {
            let verdict = patch(&settings, &grants, &plan(targets, Some("outside")));
            assert_eq!(outcome(&verdict), expected);
        };
        check(&[target("/w/x", "/w/x")], Outside);
        check(&[target("/w/x", "/w/x"), target("/w/y", "/w/y")], Outside);
        check(&[target("/w/x", "/w/x"), target("/etc/passwd", "/etc/passwd")], Asks);
        // The link leads elsewhere by now.
        check(&[target("/w/link", "/w/z")], Asks);
        check(&[target("/w/y", "/etc/passwd")], Asks);
        check(&[], Asks);
    }

    #[test]
    fn tools_of_servers() {
        use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
        use ToolApproval::{Approve, Auto, Prompt};
        use ToolEffect::{Additive, Destructive, ReadOnly, Unknown};
        let full = SandboxPolicy::DangerFullAccess;
        let tool = |effect, approval| ToolTarget {
            server: "s".into(),
            tool: "t".into(),
            title: None,
            digest: [0; 16],
            server_digest: [0; 16],
            effect,
            approval,
            connector: None,
            app_resource: None,
        };
        // Outside means that it runs: servers are outside of the sandbox.
        let rows = [
            (OnRequest, read_only(), ReadOnly, Auto, Outside),
            (OnRequest, read_only(), Additive, Auto, Outside),
            (OnRequest, read_only(), Unknown, Auto, Asks),
            (OnRequest, full.clone(), Unknown, Auto, Asks),
            (OnRequest, read_only(), Destructive, Auto, Asks),
            (OnRequest, read_only(), Unknown, Approve, Outside),
            (OnRequest, full.clone(), Destructive, Approve, Asks),
            (OnRequest, read_only(), ReadOnly, Prompt, Asks),
            (UnlessTrusted, read_only(), ReadOnly, Auto, Outside),
            (UnlessTrusted, read_only(), Additive, Auto, Asks),
            (UnlessTrusted, read_only(), Unknown, Approve, Outside),
            (Never, read_only(), ReadOnly, Auto, Outside),
            (Never, read_only(), Additive, Auto, Outside),
            (Never, read_only(), Unknown, Auto, Refuse),
            (Never, full.clone(), Unknown, Auto, Outside),
            (Never, full.clone(), Unknown, Prompt, Refuse),
            (Never, full.clone(), Destructive, Auto, Refuse),
            (Never, full, Destructive, Approve, Refuse),
            (Never, read_only(), Unknown, Approve, Outside),
            (GRANULAR_OFF, read_only(), Unknown, Auto, Refuse),
            (GRANULAR_OFF, read_only(), Additive, Auto, Outside),
        ];
        for (row, (policy, sandbox, effect, approval, expected)) in rows.into_iter().enumerate() {
            let settings = settings(policy, sandbox);
            let verdict = server_tool(&settings, &Grants::default(), &tool(effect, approval));
            assert_eq!(outcome(&verdict), expected, "row {row}: {verdict:?}");
            // Plan mode changes nothing, whoever approves.
            let settings = Settings { mode: Mode::Plan, ..settings };
            let verdict = server_tool(&settings, &Grants::default(), &tool(effect, approval));
            let expected = if effect == ReadOnly { expected } else { Fail };
            assert_eq!(outcome(&verdict), expected, "row {row}, planning: {verdict:?}");
        }
        // A grant holds for the definition that was shown, and never for what destroys.
        let settings = settings(OnRequest, read_only());
        let mut grants = Grants::default();
        for effect in [Unknown, Destructive] {
            grants.allow_server_tool(&tool(effect, Auto));
        }
        assert_eq!(outcome(&server_tool(&settings, &grants, &tool(Unknown, Auto))), Outside);
        assert_eq!(outcome(&server_tool(&settings, &grants, &tool(Destructive, Auto))), Asks);
        let changed = ToolTarget { digest: [1; 16], ..tool(Unknown, Auto) };
        assert_eq!(outcome(&server_tool(&settings, &grants, &changed)), Asks);
        let replaced = ToolTarget { server_digest: [1; 16], ..tool(Unknown, Auto) };
        assert_eq!(outcome(&server_tool(&settings, &grants, &replaced)), Asks);
    }

    #[test]
    fn patches() {
        use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
        let inside = plan(&[target("/w/x", "/w/x")], None);
        let outside = plan(&[target("/etc/x", "/etc/x")], Some("/etc/x is read-only"));
        let rows = [
            (Never, read_only(), &inside, Run),
            (Never, read_only(), &outside, Refuse),
            (Never, SandboxPolicy::DangerFullAccess, &outside, Run),
            (OnRequest, read_only(), &inside, Run),
            (OnRequest, read_only(), &outside, Asks),
            (UnlessTrusted, read_only(), &inside, Asks),
            (GRANULAR_OFF, read_only(), &outside, Refuse),
        ];
        for (row, (approval, sandbox, plan, expected)) in rows.into_iter().enumerate() {
            let verdict = patch(&settings(approval, sandbox), &Grants::default(), plan);
            assert_eq!(outcome(&verdict), expected, "row {row}: {verdict:?}");
        }
    }
}
