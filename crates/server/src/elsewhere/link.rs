//! Connections to other servers of this home, each in the place of one client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jsonrpc::{Client, Connection, Method as _};
use protocol::Initialize;
use services::door::{self, OpenElsewhere};
use tokio::task::AbortHandle;

use crate::elsewhere::{Joined, relay};
use crate::server::Server;

/// Longest wait for another server's handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// A connection to another server. Dropping it closes it.
pub(super) struct Link {
    pub(super) client: Client,
    relaying: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.relaying.abort();
    }
}

impl Server {
    /// The connection to the server at `place` in the place of a client.
    pub(super) async fn link(
        &self,
        joined: &Arc<Joined>,
        place: &OpenElsewhere,
    ) -> io::Result<Arc<Link>> {
        let known = || joined.state().links.get(&place.owner).cloned();
        if let Some(link) = known() {
            return Ok(link);
        }
        let _connecting = joined.connecting.lock().await;
        if let Some(link) = known() {
            return Ok(link);
        }
        let made = self.connect(joined, place);
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        let link = tokio::time::timeout(HANDSHAKE, made).await.map_err(|_| late())??;
        joined.state().links.insert(place.owner.clone(), link.clone());
        Ok(link)
    }

    async fn connect(&self, joined: &Arc<Joined>, place: &OpenElsewhere) -> io::Result<Arc<Link>> {
        let handshake = joined.peer.handshake().ok_or(io::ErrorKind::NotConnected)?;
        let stream = door::visit(&self.services.store.folder(), &place.owner).await?;
        let (reader, writer) = stream.into_split();
        let connection = Connection::over(reader, writer, crate::connection_limits());
        let (client, reader) = Client::over(connection);
        let relay = relay::Relay {
            services: Arc::downgrade(&self.services),
            joined: Arc::downgrade(joined),
            client: client.clone(),
            owner: place.owner.clone(),
        };
        let relaying = tokio::spawn(relay.run(reader)).abort_handle();
        let link = Arc::new(Link { client, relaying });
        let shaken = link.client.request_taken(Initialize::NAME, handshake, None).await;
        shaken.map_err(io::Error::other)?;
        Ok(link)
    }
}
