//! Connections to other servers of this home, each in the place of one client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jsonrpc::{Client, Connection, Method as _};
use protocol::Initialize;
use services::door::{self, OpenElsewhere};

use crate::elsewhere::joined::{Joined, Link};
use crate::elsewhere::relay::Relay;
use crate::server::Server;

/// Longest wait for another server's handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);

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
        let relay = Relay {
            joined: Arc::downgrade(joined),
            direct_requests: self.services.direct_requests.clone(),
            client: client.clone(),
        };
        let (services, lost) = (Arc::downgrade(&self.services), Arc::downgrade(joined));
        let owner = place.owner.clone();
        let ended = move || {
            if let (Some(services), Some(joined)) = (services.upgrade(), lost.upgrade()) {
                tokio::spawn(Self { services }.take_over(joined, owner));
            }
        };
        let relaying = tokio::spawn(relay.run(reader, ended)).abort_handle();
        let link = Arc::new(Link { client, relaying });
        let shaken = link.client.request_taken(Initialize::NAME, handshake, None).await;
        shaken.map_err(io::Error::other)?;
        Ok(link)
    }
}
