//! The port through which agents get their threads. What loads the threads of the server implements it,
//! so that agents know nothing of how a thread is made.

use std::pin::Pin;
use std::sync::Arc;

use config::Config;
use session::{Overrides, Settings};
use store::ThreadRecord;

use services::allowed::Allowed;
use services::configurations::ConfigurationOrigin;
use services::error::Error;
use services::peer::Peer;
use services::thread_port::{Extra, ThreadHandle};

/// A thread that is being made or loaded.
pub type Starting<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Makes and loads the threads of agents. `clients` are sent what is wrong with their configuration.
pub trait StartAgents: Send + Sync {
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
pub struct AgentThread {
    pub id: String,
    /// That of its tree.
    pub session_id: String,
    pub git_info: Option<String>,
    pub ephemeral: bool,
    /// The settings of its parent.
    pub settings: Allowed<Settings>,
    /// The call's changes of them.
    pub overrides: Overrides,
    pub config: Arc<Config>,
    pub origin: ConfigurationOrigin,
    /// With what makes it an agent.
    pub extra: Extra,
}
