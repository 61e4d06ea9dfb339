//! Ends agents: with everything that they started.

use super::Agents;

impl Agents {
    /// Ends an agent and those that it started. Each that works is interrupted; what it stored
    /// stays readable.
    pub(super) async fn close(&self, id: &str) {
        let _loading = self.threads.lock_loading().await;
        self.close_all(vec![id.to_owned()]).await;
    }

    /// Ends the agents that a thread started, directly or not. The caller holds the loading lock.
    pub(crate) async fn close_children(&self, id: &str) {
        let children = self.forest().children(id).into_iter().map(|(child, _)| child).collect();
        self.close_all(children).await;
    }

    /// As [`Agents::close_children`], for a thread whose actor has failed.
    pub(crate) async fn close_orphaned(&self, id: &str) {
        let _loading = self.threads.lock_loading().await;
        self.close_children(id).await;
    }

    async fn close_all(&self, mut ids: Vec<String>) {
        while let Some(id) = ids.pop() {
            // From here on it starts no other agent.
            self.forest().close(&id);
            if self.threads.end(&id).await {
                self.threads.notify_closed(&id);
            }
            ids.extend(self.forest().children(&id).into_iter().map(|(child, _)| child));
        }
    }
}
