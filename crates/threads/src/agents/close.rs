//! Ends agents: with everything that they started.

use std::sync::Arc;

use hooks::EndReason;
use tokio::task::JoinHandle;

use super::Agents;

impl Agents {
    /// Ends an agent and those that it started. Each that works is interrupted; what it stored
    /// stays readable.
    pub(super) async fn close(self: &Arc<Self>, id: &str) {
        let ids = self.forest().close(id);
        self.end_all(ids).await;
    }

    /// Ends the agents that a thread started, directly or not.
    pub async fn close_children(self: &Arc<Self>, id: &str) {
        let ids = self.forest().close_below(id);
        self.end_all(ids).await;
    }

    /// Ends them at the same time, each in a task of its own: none waits for another, and all end
    /// when the caller goes away.
    async fn end_all(self: &Arc<Self>, ids: Vec<String>) {
        let end = |id: String| {
            let agents = self.clone();
            tokio::spawn(async move {
                if agents.threads.end(&id, EndReason::Closed).await {
                    agents.threads.notify_closed(&id);
                }
                agents.forest().ended(&id);
            })
        };
        let ends: Vec<JoinHandle<()>> = ids.into_iter().map(end).collect();
        for end in ends {
            if let Err(error) = end.await {
                tracing::warn!(target: "server::agents", "an agent did not end: {error}");
            }
        }
    }
}
