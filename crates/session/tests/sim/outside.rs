//! How the simulated machine behaves: what a command, a patch or an image does is written in its
//! own text, as words, so that a script needs no second table.
//!
//! Commands: `safe`, `dangerous`, `allow`, `prompt`, `forbid` (assessment), `amend` (an amendment
//! is offered), `reach:HOST` (one millisecond after its start), `gives-up` (on that, after three),
//! `refused` (cannot be prepared), `patch` (is a patch), `after:MS`, `print:TEXT`,
//! `exit:CODE`, `unstartable`, `unconfined` (the sandbox is not available), `forever` (ends only when `quit` is typed).
//! Patches: `path:P`, `to:P`, `outside`, `bad` (does not fit), `breaks` (fails when applied).
//! Folders that are requested: `/never` (cannot be granted), `/held` (is in force already), `/moved`
//! (is another folder when it is granted).
//! Images: `missing` (cannot be read).
//! Results of jobs: `outside` (beyond the sandbox policy), `bad` (cannot be written); a job whose
//! instruction is `again` is continued.

use std::path::{Path, PathBuf};

use session::{
    AgentJob, AgentOutcome, AgentRequest, AgentState, Assessment, Attempted, Change, ChangeKind,
    ExecSpec, Grant, ImageData, Input, JobOutput, Millis, NetworkProtocol, NetworkTarget,
    PatchPlan, PatchTarget, Permissions, Prepared, ProcessEnd, RuleDecision, ServerAnswer,
    ServerCall, ServerOutcome, ServerResult, ToolContent, ToolError, ToolRequest, UsedSkill,
    UserAnswers, UserQuestion,
};

/// What looking at a request reports.
pub(crate) fn prepare(call: u64, request: &ToolRequest) -> Input {
    let outcome = match request {
        ToolRequest::Script { script, workdir, .. } => command(script, workdir.as_deref()),
        ToolRequest::Argv { argv, workdir } => command(&argv.join(" "), workdir.as_deref()),
        ToolRequest::Patch { text } => plan(text),
        ToolRequest::Image { path } => Prepared::Image(image(path)),
        ToolRequest::Permissions { read, write, network } => {
            Prepared::Permissions(permissions(read, write, *network))
        }
    };
    Input::Prepared { call, outcome }
}

/// Where a job would write its results.
pub(crate) fn plan_job(call: u64, job: &AgentJob) -> Input {
    let path = job.output_csv_path.as_deref().unwrap_or("results");
    let is_continued = job.instruction == "again";
    let output = JobOutput {
        job: if is_continued { "job".into() } else { format!("job-{call}").into() },
        is_continued,
        target: PatchTarget { path: Path::new("/w").join(path), real: Path::new("/w").join(path) },
        replaces: is_continued,
        outside: path.contains("outside").then(|| format!("{path} is read-only")),
    };
    let outcome = match path.contains("bad") {
        true => Err(ToolError::new("the results cannot be written")),
        false => Ok(output),
    };
    Input::Prepared { call, outcome: Prepared::JobOutput(outcome) }
}

/// What comes of a call to other agents, and when: agents named `none` do not exist, a wait takes its
/// whole time, and everything else a moment.
pub(crate) fn agents(call: &AgentRequest) -> (Millis, AgentOutcome) {
    let (delay, targets) = match call {
        AgentRequest::Spawn(_) => (3, vec!["agent".to_owned()]),
        AgentRequest::RunJob { .. } | AgentRequest::ReportJobResult(_) => (40, Vec::new()),
        AgentRequest::Wait { targets, timeout_ms } => {
            (Millis::try_from(*timeout_ms).unwrap(), targets.clone())
        }
        AgentRequest::Send { target, .. }
        | AgentRequest::Resume { target }
        | AgentRequest::Close { target } => (5, vec![target.clone()]),
    };
    if targets.iter().any(|target| target == "none") {
        return (0, AgentOutcome::failed(ToolError::new("there is no agent `none`")));
    }
    let ids: Vec<session::Id> = targets.iter().map(|id| id.as_str().into()).collect();
    let outcome = AgentOutcome {
        receivers: ids.clone(),
        spawned: matches!(call, AgentRequest::Spawn(_)).then(|| ids[0].clone()),
        states: ids.into_iter().map(|id| (id, AgentState::Running)).collect(),
        model: None,
        effort: None,
        output: Ok("{}".to_owned()),
    };
    (delay, outcome)
}

fn image(path: &str) -> Result<ImageData, ToolError> {
    if path.contains("missing") {
        return Err(ToolError::new(format!("{path} does not exist")));
    }
    Ok(ImageData { path: path.to_owned(), data_url: "data:image/png;base64,AA==".into() })
}

fn permissions(read: &[String], write: &[String], network: bool) -> Result<Permissions, ToolError> {
    if read.iter().chain(write).any(|folder| folder == "/never") {
        return Err(ToolError::new("not granted: /never is not for you"));
    }
    let missing = |folders: &[String]| -> Vec<PathBuf> {
        folders.iter().filter(|folder| *folder != "/held").map(PathBuf::from).collect()
    };
    Ok(Permissions { read: missing(read), write: missing(write), network })
}

/// What checking a grant reports.
pub(crate) fn check(grant: &Grant) -> Result<Grant, ToolError> {
    match grant.permissions.write.iter().any(|folder| folder == Path::new("/moved")) {
        true => Err(ToolError::new("not granted: /moved leads elsewhere")),
        false => Ok(grant.clone()),
    }
}

fn has(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|found| found == word)
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix(':'))
}

fn command(text: &str, workdir: Option<&str>) -> Prepared {
    if has(text, "refused") {
        let (display, cwd) = (text.to_owned(), workdir.unwrap_or("/w").into());
        let message = "this cannot be run".into();
        return Prepared::Refused { attempted: Attempted::Command { display, cwd }, message };
    }
    if has(text, "patch") {
        return plan(text);
    }
    let rule = [
        ("allow", RuleDecision::Allow),
        ("prompt", RuleDecision::Prompt),
        ("forbid", RuleDecision::Forbidden),
    ]
    .into_iter()
    .find(|(word, _)| has(text, word))
    .map(|(_, decision)| (decision, Some("a rule of the test".to_owned())));
    Prepared::Command(Assessment {
        display: text.to_owned(),
        cwd: workdir.unwrap_or("/w").into(),
        real_cwd: value(text, "folder").or(workdir).unwrap_or("/w").into(),
        actions: Vec::new(),
        known_safe: has(text, "safe"),
        dangerous: has(text, "dangerous"),
        rule,
        is_rule_required: false,
        is_skill_script: has(text, "skill-script"),
        amendment: has(text, "amend").then(|| vec!["make".to_owned()]),
        amendable: Vec::new(),
        normal_form: None,
    })
}

fn plan(text: &str) -> Prepared {
    let path = value(text, "path").unwrap_or("/w/file").to_owned();
    let kind = ChangeKind::Update { move_to: value(text, "to").map(str::to_owned) };
    let changes = vec![Change { path, kind, diff: "@@\n-a\n+b\n".into() }];
    if has(text, "bad") {
        let message = "the patch does not fit".into();
        return Prepared::Refused { attempted: Attempted::Patch { changes }, message };
    }
    let outside = has(text, "outside").then(|| "it lies outside of the writable roots".to_owned());
    let named = value(text, "path").unwrap_or("/w/file");
    let real = value(text, "real").unwrap_or(named);
    let target = |path: &str, real: &str| PatchTarget { path: path.into(), real: real.into() };
    let moved = value(text, "to").map(|path| target(path, path));
    let targets = std::iter::once(target(named, real)).chain(moved).collect();
    let grantable_folder = value(text, "folder").map(Into::into);
    Prepared::Patch(PatchPlan { changes, targets, outside, grantable_folder })
}

/// What applying the patch of `request` reports.
pub(crate) fn apply(call: u64, request: &ToolRequest) -> Input {
    let breaks = match request {
        ToolRequest::Patch { text } | ToolRequest::Script { script: text, .. } => {
            has(text, "breaks")
        }
        _ => false,
    };
    let outcome =
        if breaks { Err(ToolError::new("the disk is full")) } else { Ok("the diff".into()) };
    Input::Applied { call, outcome }
}

fn target(host: &str) -> NetworkTarget {
    NetworkTarget { host: host.to_owned(), port: 443, protocol: NetworkProtocol::Https }
}

/// What the user answers: the id of each question, but nothing to `skipped`. `unattended` has no client.
pub(crate) fn answer(questions: &[UserQuestion]) -> Result<UserAnswers, ToolError> {
    if questions.iter().any(|question| question.id == "unattended") {
        return Err(ToolError::new("not answered: no client is connected"));
    }
    let answered = questions.iter().filter(|question| question.id != "skipped");
    Ok(answered.map(|question| (question.id.clone(), vec![question.id.clone()])).collect())
}

/// What skills lack: a question for each, by its name.
pub(crate) fn questions_about(skills: &[UsedSkill]) -> Vec<UserQuestion> {
    let question = |skill: &UsedSkill| UserQuestion {
        id: skill.name.clone(),
        header: String::new(),
        question: String::new(),
        options: Vec::new(),
        is_other: false,
        is_secret: true,
    };
    skills.iter().filter(|skill| skill.name != "content").map(question).collect()
}

/// What the MCP server answers.
pub(crate) fn server(call: &ServerCall) -> ServerOutcome {
    let (text, success) = match call.target.tool.as_str() {
        "breaks" => return Err(ToolError::new("the server has ended")),
        "floods" => ("line\n".repeat(10_000), true),
        "destroys" => ("not today".to_owned(), false),
        _ => (call.arguments.clone(), true),
    };
    let content = serde_json::json!([{ "type": "text", "text": text }]).to_string();
    let result = ServerResult { content, ..ServerResult::default() };
    Ok(ServerAnswer { result, content: vec![ToolContent::Text(text)], success })
}

/// A running command: what it will report, and when after its start.
pub(crate) struct Program {
    pub(crate) output: Vec<(Millis, String)>,
    /// The hosts that it wants to reach.
    pub(crate) reaches: Vec<(Millis, NetworkTarget)>,
    /// When it no longer waits for them.
    pub(crate) gives_up: Option<Millis>,
    /// `None`: it runs until somebody types `quit`.
    pub(crate) end: Option<(Millis, ProcessEnd)>,
}

/// What a started command does.
pub(crate) fn run(spec: &ExecSpec) -> Program {
    let text = match &spec.request {
        ToolRequest::Script { script, .. } => script.clone(),
        ToolRequest::Argv { argv, .. } => argv.join(" "),
        _ => String::new(),
    };
    if has(&text, "unstartable") {
        let end = ProcessEnd::NotStarted("no such program".into());
        return Program {
            output: Vec::new(),
            reaches: Vec::new(),
            gives_up: None,
            end: Some((1, end)),
        };
    }
    if has(&text, "unconfined") {
        let end = ProcessEnd::Unconfined("there is no sandbox".into());
        return Program {
            output: Vec::new(),
            reaches: Vec::new(),
            gives_up: None,
            end: Some((1, end)),
        };
    }
    let after = value(&text, "after").map_or(20, |ms| ms.parse().unwrap());
    let output = value(&text, "print")
        .map(|text| {
            let half = text.len() / 2;
            vec![(after / 2, text[..half].to_owned()), (after / 2 + 1, text[half..].to_owned())]
        })
        .unwrap_or_default();
    let code = value(&text, "exit").map_or(0, |code| code.parse().unwrap());
    let end = (!has(&text, "forever")).then_some((after + 2, ProcessEnd::Code(code)));
    let limit = spec.timeout_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let end = match (end, limit) {
        (Some((at, _)), Some(limit)) if at > limit => Some((limit, ProcessEnd::TimedOut)),
        (None, Some(limit)) => Some((limit, ProcessEnd::TimedOut)),
        (end, _) => end,
    };
    let reaches = text.split_whitespace().filter_map(|word| word.strip_prefix("reach:"));
    let reaches = reaches.map(|host| (1, target(host))).collect();
    let gives_up = has(&text, "gives-up").then_some(3);
    Program { output, reaches, gives_up, end }
}
