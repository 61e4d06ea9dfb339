//! Counts prompts that are open outside the server (`thread/increment_elicitation`).

use protocol::thread_edit::ThreadElicitationResponse;
use tokio::sync::oneshot;

use crate::server::Server;
use services::error::Error;
use services::peer::Caller;
use services::thread_port::{Command, ElicitationChange};

impl Server {
    pub(super) async fn change_elicitation(
        &self,
        caller: &Caller,
        thread: &str,
        change: ElicitationChange,
    ) -> Result<ThreadElicitationResponse, Error> {
        let handle = self.loaded_thread(thread).await?;
        let (answer, count) = oneshot::channel();
        let connection = caller.peer.id;
        handle.send(Command::Elicitation { connection, change, answer }).await;
        let count = count.await.map_err(|_| handle.unloaded())??;
        Ok(ThreadElicitationResponse { count, paused: count > 0 })
    }
}
