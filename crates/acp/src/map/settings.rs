//! A session's settings: modes, which are presets of approvals, and the options model, effort and sandbox.
//! What is changed applies from the next turn on.

use protocol::{
    AskForApproval, Model, ReasoningEffort, SandboxPolicy, ThreadStartResponse, TurnStartParams,
};

use crate::schema::session::{ConfigOption, ConfigValue, SessionMode, SessionModeState};

/// Ids of modes: those of the terminal's `/approvals`, and the thread's own settings.
const READ_ONLY: &str = "read-only";
const AUTO: &str = "auto";
const FULL_ACCESS: &str = "full-access";
const CUSTOM: &str = "custom";

const MODES: [SessionModeRow; 3] = [
    (READ_ONLY, "Read only", "Reads files, and asks for everything else"),
    (AUTO, "Auto", "Writes in the folder and runs commands in the sandbox; asks for more"),
    (
        FULL_ACCESS,
        "Full access",
        "Runs every command with your rights, without a sandbox and without asking",
    ),
];
type SessionModeRow = (&'static str, &'static str, &'static str);

/// Values of the option `sandbox`.
const SANDBOXES: [SessionModeRow; 3] = [
    (READ_ONLY, "Read only", "Commands read files and write none"),
    (
        "workspace-write",
        "Write in the folder",
        "Commands write in the folder and in temporary folders",
    ),
    ("danger-full-access", "No sandbox", "Commands run with your rights"),
];
const EXTERNAL: SessionModeRow =
    ("external-sandbox", "Sandboxed from outside", "The server itself runs in a sandbox");

/// The options of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionId {
    Mode,
    Model,
    Effort,
    Sandbox,
}

impl OptionId {
    const ALL: [(&'static str, Self); 4] = [
        ("mode", Self::Mode),
        ("model", Self::Model),
        ("effort", Self::Effort),
        ("sandbox", Self::Sandbox),
    ];

    /// # Errors
    /// No option has this id.
    pub(crate) fn read(id: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == id);
        found.map(|(_, option)| option).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name).join(", ");
            format!("`configId`: there is no option `{id}`; there are {known}")
        })
    }
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    approval: AskForApproval,
    sandbox: SandboxPolicy,
    /// Those that the thread was opened with, for the mode `custom`.
    opened: (AskForApproval, SandboxPolicy),
    /// The sandbox that writes in the folder: the thread's own, with the session's other folders.
    writing: SandboxPolicy,
    model: String,
    effort: Option<ReasoningEffort>,
    models: Vec<Model>,
    unsent: Unsent,
}

/// The changes that were not yet sent to the server.
#[derive(Clone, Debug, Default)]
struct Unsent {
    approval: bool,
    sandbox: bool,
    model: bool,
    effort: bool,
}

impl Settings {
    /// The settings of a thread that was opened. `folders` become writable where the folder is.
    pub(crate) fn new(
        opened: &ThreadStartResponse,
        models: Vec<Model>,
        folders: &[String],
    ) -> Self {
        let writing = writing(&opened.sandbox, &opened.cwd, folders);
        let is_writing = matches!(opened.sandbox, SandboxPolicy::WorkspaceWrite { .. });
        let sandbox = if is_writing { writing.clone() } else { opened.sandbox.clone() };
        let unsent = Unsent { sandbox: sandbox != opened.sandbox, ..Unsent::default() };
        Self {
            approval: opened.approval_policy.clone(),
            opened: (opened.approval_policy.clone(), sandbox.clone()),
            sandbox,
            writing,
            model: opened.model.clone(),
            effort: opened.reasoning_effort.or_else(|| {
                let model = models.iter().find(|model| model.model == opened.model)?;
                Some(model.default_reasoning_effort)
            }),
            models,
            unsent,
        }
    }

    pub(crate) fn mode(&self) -> &'static str {
        mode(&self.approval, &self.sandbox)
    }

    pub(crate) fn modes(&self) -> SessionModeState {
        let row = |(id, name, description)| SessionMode { id, name, description };
        let available_modes = self.mode_rows().into_iter().map(row).collect();
        SessionModeState { current_mode_id: self.mode(), available_modes }
    }

    pub(crate) fn options(&self) -> Vec<ConfigOption> {
        let option = |id, name, description, category, current_value, options| ConfigOption {
            kind: "select",
            id,
            name,
            description,
            category,
            current_value,
            options,
        };
        let mut all = vec![
            option(
                "mode",
                "Approvals",
                "What runs without asking",
                "mode",
                self.mode().to_owned(),
                values(self.mode_rows()),
            ),
            option("model", "Model", "The model", "model", self.model.clone(), self.model_values()),
        ];
        let efforts = self.efforts();
        if let Some(effort) = self.effort.filter(|_| !efforts.is_empty()) {
            let about = "How much the model reasons before it answers";
            all.push(option("effort", "Effort", about, "thought_level", word(effort), efforts));
        }
        let mut sandboxes = SANDBOXES.to_vec();
        if matches!(self.sandbox, SandboxPolicy::ExternalSandbox { .. }) {
            sandboxes.push(EXTERNAL);
        }
        let current = sandbox_word(&self.sandbox).to_owned();
        let about = "What commands may do without approval";
        all.push(option("sandbox", "Sandbox", about, "_sandbox", current, values(sandboxes)));
        all
    }

    /// Chooses a value.
    ///
    /// # Errors
    /// The option does not have the value, for the client.
    pub(crate) fn choose(&mut self, option: OptionId, value: &str) -> Result<(), String> {
        match option {
            OptionId::Mode => self.choose_mode(value),
            OptionId::Model => self.choose_model(value),
            OptionId::Effort => {
                let known = self.efforts();
                if !known.iter().any(|known| known.value == value) {
                    return Err(unknown("effort", value, known.into_iter().map(|it| it.value)));
                }
                self.effort = effort(value);
                self.unsent.effort = true;
                Ok(())
            }
            OptionId::Sandbox => {
                self.sandbox = match value {
                    "read-only" => SandboxPolicy::ReadOnly { access: None, network_access: false },
                    "workspace-write" => self.writing.clone(),
                    "danger-full-access" => SandboxPolicy::DangerFullAccess {},
                    value if value == sandbox_word(&self.sandbox) => self.sandbox.clone(),
                    value => {
                        let known = SANDBOXES.iter().map(|(id, ..)| (*id).to_owned());
                        return Err(unknown("sandbox", value, known));
                    }
                };
                self.unsent.sandbox = true;
                Ok(())
            }
        }
    }

    /// Adds what was changed to the parameters of a turn. After [`Self::sent`] it is not added again.
    pub(crate) fn apply(&self, params: &mut TurnStartParams) {
        let Unsent { approval, sandbox, model, effort } = self.unsent;
        params.approval_policy = approval.then(|| self.approval.clone());
        params.sandbox_policy = sandbox.then(|| self.sandbox.clone());
        params.model = model.then(|| self.model.clone());
        params.effort = self.effort.filter(|_| effort);
    }

    /// A turn has begun with the parameters.
    pub(crate) fn sent(&mut self) {
        self.unsent = Unsent::default();
    }

    /// Chooses again what was chosen before the session was reopened, and not sent yet.
    pub(crate) fn choose_as(&mut self, before: &Self) {
        if before.unsent.approval {
            self.approval = before.approval.clone();
            self.unsent.approval = true;
        }
        if before.unsent.sandbox {
            // The folders are those of now.
            let is_writing = before.sandbox == before.writing;
            self.sandbox = if is_writing { &self.writing } else { &before.sandbox }.clone();
            self.unsent.sandbox = true;
        }
        if before.unsent.model {
            self.model.clone_from(&before.model);
            self.unsent.model = true;
        }
        if before.unsent.effort {
            self.effort = before.effort;
            self.unsent.effort = true;
        }
    }

    fn choose_mode(&mut self, id: &str) -> Result<(), String> {
        (self.approval, self.sandbox) = match id {
            READ_ONLY => (
                AskForApproval::OnRequest,
                SandboxPolicy::ReadOnly { access: None, network_access: false },
            ),
            AUTO => (AskForApproval::OnRequest, self.writing.clone()),
            FULL_ACCESS => (AskForApproval::Never, SandboxPolicy::DangerFullAccess {}),
            CUSTOM if self.has_custom() => self.opened.clone(),
            _ => {
                let known = self.mode_rows().into_iter().map(|(id, ..)| id.to_owned());
                return Err(unknown("mode", id, known));
            }
        };
        self.unsent.approval = true;
        self.unsent.sandbox = true;
        Ok(())
    }

    fn choose_model(&mut self, id: &str) -> Result<(), String> {
        if id != self.model && !self.models.iter().any(|model| model.model == id) {
            let known = self.models.iter().map(|model| model.model.clone());
            return Err(unknown("model", id, known));
        }
        self.model = id.to_owned();
        self.unsent.model = true;
        let model = self.models.iter().find(|model| model.model == id);
        if let Some(model) = model {
            let keeps = |effort: ReasoningEffort| {
                let mut known = model.supported_reasoning_efforts.iter();
                known.any(|option| option.reasoning_effort == effort)
            };
            if !self.effort.is_some_and(keeps) {
                self.effort = Some(model.default_reasoning_effort);
                self.unsent.effort = true;
            }
        }
        Ok(())
    }

    fn has_custom(&self) -> bool {
        mode(&self.opened.0, &self.opened.1) == CUSTOM
    }

    fn mode_rows(&self) -> Vec<SessionModeRow> {
        let mut rows = MODES.to_vec();
        if self.has_custom() || self.mode() == CUSTOM {
            rows.push((
                CUSTOM,
                "As configured",
                "The approval policy and the sandbox of the thread",
            ));
        }
        rows
    }

    fn model_values(&self) -> Vec<ConfigValue> {
        let mut values: Vec<ConfigValue> = self
            .models
            .iter()
            .filter(|model| !model.hidden || model.model == self.model)
            .map(|model| ConfigValue {
                value: model.model.clone(),
                name: model.display_name.clone(),
                description: Some(model.description.clone()).filter(|text| !text.is_empty()),
            })
            .collect();
        if !values.iter().any(|value| value.value == self.model) {
            let (value, name) = (self.model.clone(), self.model.clone());
            values.insert(0, ConfigValue { value, name, description: None });
        }
        values
    }

    /// Those of the model, with the current one.
    fn efforts(&self) -> Vec<ConfigValue> {
        let model = self.models.iter().find(|model| model.model == self.model);
        let options = model.map(|model| &model.supported_reasoning_efforts[..]).unwrap_or_default();
        let mut values: Vec<ConfigValue> = options
            .iter()
            .map(|option| ConfigValue {
                value: word(option.reasoning_effort),
                name: word(option.reasoning_effort),
                description: Some(option.description.clone()).filter(|text| !text.is_empty()),
            })
            .collect();
        if let Some(current) = self.effort.map(word)
            && !values.is_empty()
            && !values.iter().any(|value| value.value == current)
        {
            values.insert(
                0,
                ConfigValue { value: current.clone(), name: current, description: None },
            );
        }
        values
    }
}

/// The thread's policy if it writes in the folder, else the default one, with the folders.
fn writing(policy: &SandboxPolicy, cwd: &str, folders: &[String]) -> SandboxPolicy {
    let mut writing = match policy {
        SandboxPolicy::WorkspaceWrite { .. } => policy.clone(),
        _ => SandboxPolicy::WorkspaceWrite {
            writable_roots: Vec::new(),
            read_only_access: None,
            network_access: false,
            exclude_tmpdir_env_var: false,
            exclude_slash_tmp: false,
        },
    };
    if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &mut writing {
        policy::add_roots(writable_roots, cwd.to_owned(), folders.iter().cloned());
    }
    writing
}

fn mode(approval: &AskForApproval, sandbox: &SandboxPolicy) -> &'static str {
    match (approval, sandbox) {
        (AskForApproval::OnRequest, SandboxPolicy::ReadOnly { .. }) => READ_ONLY,
        (AskForApproval::OnRequest, SandboxPolicy::WorkspaceWrite { .. }) => AUTO,
        (AskForApproval::Never, SandboxPolicy::DangerFullAccess {}) => FULL_ACCESS,
        _ => CUSTOM,
    }
}

fn sandbox_word(policy: &SandboxPolicy) -> &'static str {
    match policy {
        SandboxPolicy::ReadOnly { .. } => SANDBOXES[0].0,
        SandboxPolicy::WorkspaceWrite { .. } => SANDBOXES[1].0,
        SandboxPolicy::DangerFullAccess {} => SANDBOXES[2].0,
        SandboxPolicy::ExternalSandbox { .. } => EXTERNAL.0,
    }
}

fn values(rows: Vec<SessionModeRow>) -> Vec<ConfigValue> {
    let value = |(value, name, description): SessionModeRow| ConfigValue {
        value: value.to_owned(),
        name: name.to_owned(),
        description: Some(description.to_owned()),
    };
    rows.into_iter().map(value).collect()
}

fn word(effort: ReasoningEffort) -> String {
    match effort {
        ReasoningEffort::None => "none",
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::Xhigh => "xhigh",
    }
    .to_owned()
}

fn effort(word: &str) -> Option<ReasoningEffort> {
    serde_json::from_value(word.into()).ok()
}

fn unknown(option: &str, value: &str, known: impl Iterator<Item = String>) -> String {
    let known: Vec<String> = known.collect();
    if known.is_empty() {
        return format!("the option `{option}` has no values here: leave it out");
    }
    format!("the option `{option}` has no value `{value}`; it has {}", known.join(", "))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
