//! A client's changes of a thread's configured settings when it loads the thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use protocol::permission::PermissionProfileSelectionParams;
use protocol::{ApprovalsReviewer, AskForApproval, Personality, SandboxMode};
use serde_json::{Map, Value};
use session::{DynamicTool, Overrides};

use services::convert::policies::mode_policy;
use services::convert::settings::{
    check_model, chosen_tier, client_approval, client_mode, client_reviewer, name,
};
use services::error::Error;
use services::thread_defaults::ThreadDefaults;
use services::thread_port::Extra;

/// The settings that `thread/start`, `thread/resume` and `thread/fork` may override alike.
#[derive(Clone, Default)]
pub struct ClientOverrides {
    pub model: Option<String>,
    pub model_provider: Option<String>,
    pub service_tier: Option<String>,
    pub cwd: Option<PathBuf>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox: Option<SandboxMode>,
    pub permissions: Option<PermissionProfileSelectionParams>,
    pub personality: Option<Personality>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub config: Option<Map<String, Value>>,
    /// Label of the thread's metrics, when it is loaded.
    pub service_name: Option<String>,
    /// These in place of the thread's tools, when it is loaded.
    pub dynamic_tools: Option<Arc<[DynamicTool]>>,
}

impl ClientOverrides {
    /// Changes what is stored of the thread beyond its settings.
    pub(super) fn change_extra(&self, extra: &mut Extra) {
        if let Some(instructions) = &self.base_instructions {
            extra.base_instructions = Some(instructions.clone());
        }
        if let Some(instructions) = &self.developer_instructions {
            extra.developer_instructions = Some(instructions.clone());
        }
        if let Some(name) = &self.service_name {
            extra.service_name = Some(name.clone());
        }
        if let Some(tools) = &self.dynamic_tools {
            extra.dynamic_tools = tools.clone();
        }
    }

    /// The same as changes of a thread's settings.
    ///
    /// # Errors
    /// A value cannot be used, or two exclude each other.
    pub(super) fn checked(
        &self,
        config: &Config,
        defaults: &ThreadDefaults,
        cwd: &Path,
    ) -> Result<Overrides, Error> {
        check_model("model", self.model.as_deref())?;
        let service_tier = chosen_tier("serviceTier", self.service_tier.as_deref())?;
        if let Some(provider) = &self.model_provider {
            check_provider(config, provider)?;
        }
        let workspace = &config.sandbox_workspace_write;
        let sandbox = match (&self.permissions, self.sandbox) {
            (Some(_), Some(_)) => return Err(Error::exclusive("permissions", "sandbox")),
            (Some(selection), None) => Some(defaults.profile_policy(config, selection, cwd)?),
            (None, Some(mode)) => Some(mode_policy(client_mode(mode), cwd, workspace)),
            (None, None) => None,
        };
        Ok(Overrides {
            model: self.model.clone(),
            provider: self.model_provider.clone(),
            approval: self.approval_policy.as_ref().map(client_approval),
            reviewer: self.approvals_reviewer.map(client_reviewer),
            sandbox,
            cwd: self.cwd.clone(),
            personality: self.personality.as_ref().map(name),
            service_tier,
            turn_service_tier: None,
            ..Overrides::default()
        })
    }
}

fn check_provider(config: &Config, provider: &str) -> Result<(), Error> {
    if config.providers.contains_key(provider) {
        return Ok(());
    }
    if let Some(mistake) = config.broken_providers.get(provider) {
        let message = format!("`modelProvider`: `{provider}` cannot be used: {mistake}");
        return Err(Error::invalid_params(message));
    }
    let known: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    Err(Error::invalid_params(format!(
        "`modelProvider`: there is no provider `{provider}`; the configuration has {}",
        known.join(", ")
    )))
}
