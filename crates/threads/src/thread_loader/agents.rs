//! Makes the threads of agents: from the settings and the configuration of the thread that starts
//! them.

use std::path::PathBuf;
use std::sync::Arc;

use config::{Config, LayerName, Resolved};
use session::{Mode, Permissions, PolicyBound, Restored, Settings, ThreadStart};
use store::ThreadRecord;

use super::{ClientOverrides, Clients, StoredParts, ThreadLoader, limit, to_each};
use crate::agents::{AgentThread, StartAgents, Starting};
use services::allowed::{BoundedBy, ThreadBound, replacements};
use services::configurations::ConfigurationOrigin;
use services::error::Error;
use services::thread_port::{AgentIdentity, Extra, ThreadHandle, wire};
use services::thread_store::NewThread;
use services::warnings;

impl StartAgents for ThreadLoader {
    fn start_agent<'a>(
        &'a self,
        clients: Clients<'a>,
        agent: AgentThread,
    ) -> Starting<'a, (ThreadHandle, ThreadRecord)> {
        Box::pin(self.new_agent(clients, agent))
    }

    fn load_agent<'a>(&'a self, clients: Clients<'a>, id: &'a str) -> Starting<'a, ThreadHandle> {
        Box::pin(async move {
            let loaded = self.resume_thread(clients, id, &ClientOverrides::default()).await;
            loaded.map(|(handle, _)| handle)
        })
    }
}

impl ThreadLoader {
    /// Makes the thread of an agent: stored before a client learns of it, unless it is ephemeral.
    async fn new_agent(
        &self,
        clients: Clients<'_>,
        agent: AgentThread,
    ) -> Result<(ThreadHandle, ThreadRecord), Error> {
        let AgentThread { id, session_id, git_info, ephemeral, .. } = agent;
        let (mut config, mut origin, mut extra) = (agent.config, agent.origin, agent.extra);
        let Some(identity) = extra.agent.clone() else {
            return Err(Error::failed("the thread of an agent has no identity"));
        };
        // Plan mode holds for an agent as long as for the thread that started it.
        let mut settings = Settings {
            mode: Mode::Default,
            mode_instructions: None,
            ..agent.settings.into_inner()
        };
        if let Some(role) = &identity.role
            && let Some(file) = role_file(&config, role)
        {
            let key = role_key(role);
            let overrides = origin.overrides.clone();
            let loaded =
                self.load_configuration(clients, &settings.cwd, overrides.as_ref(), Some(&file));
            let loaded = loaded.await.map_err(|error| error.within(&key))?;
            let configured = self.defaults.settings(&loaded.resolved.config, &settings.cwd);
            let set = |key: &str| is_set_by_role(&loaded.resolved, key);
            settings = with_role(settings, configured, set);
            if set("developer_instructions") {
                extra.developer_instructions = None;
            }
            if set("model_instructions_file") {
                extra.base_instructions = None;
            }
            origin = super::origin(&loaded, &settings.cwd, overrides, Some(file));
            config = Arc::new(loaded.resolved.config);
        }
        settings.apply(agent.overrides);
        let replaced = identity.bound.limit(&mut settings);
        let widened = replacements(&replaced, BoundedBy::Role);
        for (peer, replaced) in to_each(clients, &widened) {
            warnings::send_plain(peer, replaced.clone());
        }
        let settings = limit(clients, settings, &config);
        let (source_kind, source) = wire::agent_source(&identity);
        let now = self.options.clock.now_ms() / 1000;
        let record = ThreadRecord {
            id,
            session_id,
            created_at: now,
            updated_at: now,
            source_kind,
            source,
            git_info,
            cli_version: self.options.version.clone(),
            extra: Some(extra.json()),
            ..ThreadRecord::default()
        };
        let new = NewThread::new(record, &settings);
        let parts = self.parts(clients, &config, &extra, settings).await?;
        let bound = self.bound(new.id(), &extra).await?;
        if !ephemeral {
            self.store.create(&new).await?;
        }
        let record = new.into_record();
        let stored = StoredParts::new(record.clone(), extra, ephemeral);
        let restored = Restored {
            history: Some(Vec::new()),
            start: ThreadStart::Agent,
            ..Restored::default()
        };
        Ok((self.start_actor((config, origin), (parts, bound), stored, restored), record))
    }

    /// Returns the bound on the policies of a thread from above.
    pub(super) async fn bound(&self, id: &str, extra: &Extra) -> Result<ThreadBound, Error> {
        let agent = extra.agent.as_ref();
        let above = agent.map(AgentIdentity::above).unwrap_or_default();
        let stored = self.store.threads_above(self.policies.unloaded(&above)).await?;
        let started_with = agent.map(|agent| agent.bound.clone());
        Ok(self.policies.bound(id, started_with, &above, stored))
    }

    /// Returns the present permissions of an agent, loaded or not; `None` for a thread that no
    /// other started.
    pub(super) async fn present_bound(&self, extra: &Extra) -> Result<Option<PolicyBound>, Error> {
        let Some(agent) = &extra.agent else { return Ok(None) };
        let above = agent.above();
        let stored = self.store.threads_above(self.policies.unloaded(&above)).await?;
        Ok(Some(self.policies.present_bound(agent.bound.clone(), &above, stored)))
    }

    /// The configuration of an agent's thread that is loaded again: with the file of its role. A role
    /// that is no longer configured is reported, and the agent goes on without its file.
    pub(super) async fn with_role(
        &self,
        clients: Clients<'_>,
        config: Arc<Config>,
        origin: ConfigurationOrigin,
        role: Option<&str>,
    ) -> Result<(Arc<Config>, ConfigurationOrigin), Error> {
        let Some(role) = role else { return Ok((config, origin)) };
        if !config.agents.roles.contains_key(role) {
            let message =
                format!("the role `{role}` no longer exists: its agent continues without its file");
            clients.iter().for_each(|peer| warnings::send_plain(peer, message.clone()));
            return Ok((config, origin));
        }
        let Some(file) = role_file(&config, role) else { return Ok((config, origin)) };
        let (cwd, overrides) = (origin.cwd, origin.overrides);
        let loaded = self.load_configuration(clients, &cwd, overrides.as_ref(), Some(&file));
        let loaded = loaded.await.map_err(|error| error.within(&role_key(role)))?;
        let origin = super::origin(&loaded, &cwd, overrides, Some(file));
        Ok((Arc::new(loaded.resolved.config), origin))
    }
}

fn role_file(config: &Config, role: &str) -> Option<PathBuf> {
    config.agents.roles.get(role)?.config_file.clone()
}

fn role_key(role: &str) -> String {
    format!("`agents.{role}.config_file`")
}

fn is_set_by_role(resolved: &Resolved, key: &str) -> bool {
    let origin = resolved.value(key).map(|(_, origin)| origin.layer());
    matches!(origin, Some(LayerName::Role { .. }))
}

/// The settings of an agent: those of its parent, and of `configured` what its role sets.
fn with_role(parent: Settings, configured: Settings, set: impl Fn(&str) -> bool) -> Settings {
    fn pick<T>(set: bool, configured: T, parent: T) -> T {
        if set { configured } else { parent }
    }
    let sandbox = ["sandbox_mode", "default_permissions"].iter().any(|key| set(key))
        || ["writable_roots", "network_access", "exclude_slash_tmp", "exclude_tmpdir_env_var"]
            .iter()
            .any(|key| set(&format!("sandbox_workspace_write.{key}")));
    let approval = set("approval_policy")
        || set("approval_policy.granular")
        || set("approval_policy.granular.sandbox_approval");
    Settings {
        model: pick(set("model"), configured.model, parent.model),
        provider: pick(set("model_provider"), configured.provider, parent.provider),
        cwd: parent.cwd,
        approval: pick(approval, configured.approval, parent.approval),
        reviewer: pick(set("approvals_reviewer"), configured.reviewer, parent.reviewer),
        sandbox: pick(sandbox, configured.sandbox, parent.sandbox),
        // What the user granted to the parent is the parent's alone.
        granted: Permissions::default(),
        effort: pick(set("model_reasoning_effort"), configured.effort, parent.effort),
        summary: pick(set("model_reasoning_summary"), configured.summary, parent.summary),
        verbosity: pick(set("model_verbosity"), configured.verbosity, parent.verbosity),
        personality: pick(set("personality"), configured.personality, parent.personality),
        service_tier: pick(set("service_tier"), configured.service_tier, parent.service_tier),
        mode: parent.mode,
        mode_instructions: parent.mode_instructions,
    }
}
