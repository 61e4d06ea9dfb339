//! The port through which agents get their threads. What loads the threads of the server implements it,
//! so that agents know nothing of how a thread is made.

use std::pin::Pin;
use std::sync::Arc;

use config::Config;
use session::{Overrides, Settings};
use store::ThreadRecord;

use crate::allowed::Allowed;
use crate::configurations::ConfigurationOrigin;
use crate::error::Error;
use crate::peer::Peer;
use crate::thread_port::{Extra, ThreadHandle};

/// A thread that is being made or loaded.
pub(crate) type Starting<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Makes and loads the threads of agents. `clients` are sent what is wrong with their configuration.
pub(crate) trait StartAgents: Send + Sync {
    /// Makes the thread of an agent: stored before a client learns of it, unless it is ephemeral.
    fn start_agent<'a>(
        &'a self,
        clients: &'a [Arc<Peer>],
        agent: AgentThread,
    ) -> Starting<'a, (ThreadHandle, ThreadRecord)>;

    /// Returns the loaded thread of an agent, loaded now if need be.
    fn load_agent<'a>(
        &'a self,
        clients: &'a [Arc<Peer>],
        id: &'a str,
    ) -> Starting<'a, ThreadHandle>;
}

/// The thread of an agent that is about to start.
pub(crate) struct AgentThread {
    pub(crate) id: String,
    /// That of its tree.
    pub(crate) session_id: String,
    pub(crate) git_info: Option<String>,
    pub(crate) ephemeral: bool,
    /// The settings of its parent.
    pub(crate) settings: Allowed<Settings>,
    /// The call's changes of them.
    pub(crate) overrides: Overrides,
    pub(crate) config: Arc<Config>,
    pub(crate) origin: ConfigurationOrigin,
    /// With what makes it an agent.
    pub(crate) extra: Extra,
}
