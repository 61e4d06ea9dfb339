//! Makes the threads of agents: from the settings and the configuration of the thread that starts
//! them.

use std::sync::Arc;

use config::Config;
use session::{Overrides, Restored, Settings};
use store::ThreadRecord;

use super::{Clients, ThreadLoader, limit};
use crate::allowed::Allowed;
use crate::configurations::ConfigurationOrigin;
use crate::convert;
use crate::error::Error;
use crate::thread::{Extra, ThreadHandle};
use crate::thread_store::NewThread;

/// The thread of an agent that is about to start.
pub(crate) struct AgentThread {
    pub(crate) id: String,
    /// That of its tree.
    pub(crate) session_id: String,
    pub(crate) git_info: Option<String>,
    pub(crate) ephemeral: bool,
    /// The settings of its parent.
    pub(crate) settings: Allowed<Settings>,
    /// What the call changes of them.
    pub(crate) overrides: Overrides,
    pub(crate) config: Arc<Config>,
    pub(crate) origin: ConfigurationOrigin,
    /// With what makes it an agent.
    pub(crate) extra: Extra,
}

impl ThreadLoader {
    /// Makes the thread of an agent: stored before anybody hears of it, unless it is ephemeral.
    pub(crate) async fn new_agent(
        &self,
        clients: Clients<'_>,
        agent: AgentThread,
    ) -> Result<(ThreadHandle, ThreadRecord), Error> {
        let AgentThread { id, session_id, git_info, ephemeral, config, origin, extra, .. } = agent;
        let Some(identity) = &extra.agent else {
            return Err(Error::failed("the thread of an agent has no identity"));
        };
        let mut settings = agent.settings.into_inner();
        settings.apply(agent.overrides);
        let settings = limit(clients, settings, &config);
        let (source_kind, source) = convert::agent::source(identity);
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
        if !ephemeral {
            self.store.create(&new).await?;
        }
        let record = new.into_record();
        let stored = (record.clone(), extra, ephemeral);
        let restored = Restored { history: Some(Vec::new()), ..Restored::default() };
        Ok((self.start_actor((config, origin), parts, stored, restored), record))
    }
}
