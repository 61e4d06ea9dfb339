//! Connections to other servers of this home, each in the place of one client: how one is made, whether the server at
//! its other end is alive, and its end.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jsonrpc::{Client, Connection, Method as _, Notification as _};
use protocol::connection::{ClientInfo, InitializeParams};
use protocol::{
    Initialize, ServerRequestResolved, ThreadArchived, ThreadClosed, ThreadDeleted, ThreadStarted,
    ThreadStatusChanged, TurnCompleted, TurnStarted,
};
use services::door::{self, OpenElsewhere};
use services::peer::Peer;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::elsewhere::joined::Joined;
use crate::elsewhere::link::{Link, TURNS_WITH_THREAD, limits};
use crate::elsewhere::questions::Questions;
use crate::elsewhere::relay::Relay;
use crate::server::{Server, Services};

/// Longest wait for another server's handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// A server that has not answered a request for this long is asked whether it is alive.
const PATIENCE: Duration = Duration::from_secs(2);

/// Notifications that tell this server what the client has joined. A client that opted out of them does not get them.
const NEEDED: [&str; 8] = [
    ServerRequestResolved::NAME,
    ThreadArchived::NAME,
    ThreadClosed::NAME,
    ThreadDeleted::NAME,
    ThreadStarted::NAME,
    ThreadStatusChanged::NAME,
    TurnCompleted::NAME,
    TurnStarted::NAME,
];

impl Server {
    /// The connection to the server at `place` in the place of a client.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] and [`io::ErrorKind::WouldBlock`] if the server does not answer;
    /// [`io::ErrorKind::ConnectionReset`] if the connection that was in use has just ended, and the place of its threads
    /// is found out; others if there is no server.
    pub(super) async fn link(
        &self,
        joined: &Arc<Joined>,
        place: &OpenElsewhere,
    ) -> io::Result<Arc<Link>> {
        let asked = Instant::now();
        if let Some(link) = known(joined, place).await? {
            return Ok(link);
        }
        let mut connecting = joined.connecting.lock().await;
        if let Some(link) = known(joined, place).await? {
            return Ok(link);
        }
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        // Those that waited meanwhile need not wait as long again.
        if connecting.as_ref().is_some_and(|(owner, at)| *owner == place.owner && *at >= asked) {
            return Err(late());
        }
        match timeout(HANDSHAKE, self.connect(joined, place)).await {
            Ok(connected) => connected,
            Err(_) => {
                *connecting = Some((place.owner.clone(), Instant::now()));
                Err(late())
            }
        }
    }

    async fn connect(&self, joined: &Arc<Joined>, place: &OpenElsewhere) -> io::Result<Arc<Link>> {
        let handshake = handshake(&joined.peer).ok_or(io::ErrorKind::NotConnected)?;
        let stream = door::visit(&self.services.store.folder(), &place.owner).await?;
        let (reader, writer) = stream.into_split();
        let (client, reader) = Client::over(Connection::over(reader, writer, limits()));
        let direct = self.services.direct_requests.clone();
        let questions = Arc::new(Questions::new(direct, client.clone()));
        let (ended, has_ended) = watch::channel(false);
        let number = self.services.elsewhere.next_link();
        let relay = Relay { joined: Arc::downgrade(joined), questions: questions.clone() };
        let end = LinkEnd {
            services: Arc::downgrade(&self.services),
            joined: Arc::downgrade(joined),
            owner: place.owner.clone(),
            number,
            ended,
        };
        let relaying = tokio::spawn(async move {
            relay.run(reader).await;
            end.reached();
        });
        let relaying = relaying.abort_handle();
        let (ended, alive) = (has_ended, tokio::sync::Mutex::default());
        let link = Arc::new(Link { number, client, questions, relaying, ended, alive });
        let shaken = link.client.request_taken(Initialize::NAME, &handshake, None).await;
        shaken.map_err(io::Error::other)?;
        if joined.peer.wants_turns_with_thread() {
            let told = link.client.notify_raw(TURNS_WITH_THREAD, &serde_json::json!({}));
            told.map_err(io::Error::other)?;
        }
        joined.insert_link(&place.owner, &link)?;
        Ok(link)
    }

    /// Waits until the server at the other end of a link no longer answers, however long its requests take.
    pub(super) async fn silence(&self, link: &Link, owner: &str) {
        loop {
            sleep(PATIENCE).await;
            let asked = Instant::now();
            let mut alive = link.alive.lock().await;
            // Another request may have asked meanwhile.
            let known = alive.filter(|(at, _)| *at >= asked);
            let (_, is_alive) = match known {
                Some(known) => known,
                None => *alive.insert((Instant::now(), self.is_alive(owner).await)),
            };
            if !is_alive {
                return;
            }
        }
    }

    /// Asks a server for a sign of life, on a connection of its own: what is sent on the link may wait for a client that
    /// does not read.
    async fn is_alive(&self, owner: &str) -> bool {
        let asked = async {
            let stream = match door::visit(&self.services.store.folder(), owner).await {
                Ok(stream) => stream,
                // The queue of one that takes no visitors is full. Without a door, the end of the link will show.
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            };
            let (reader, writer) = stream.into_split();
            let (client, mut reader) = Client::over(Connection::over(reader, writer, limits()));
            let client_info = ClientInfo {
                name: "agentd".to_owned(),
                title: None,
                version: self.services.options.version.clone(),
            };
            let params = InitializeParams { client_info, capabilities: None };
            let read = async { while reader.next().await.is_some() {} };
            tokio::select! {
                // An error is a sign of life as well.
                _ = client.request_taken(Initialize::NAME, &params, None) => true,
                () = read => true,
            }
        };
        timeout(HANDSHAKE, asked).await.unwrap_or(false)
    }
}

/// The connection that is in use.
async fn known(joined: &Joined, place: &OpenElsewhere) -> io::Result<Option<Arc<Link>>> {
    match joined.link(&place.owner) {
        None => Ok(None),
        Some(link) if link.is_open() => Ok(Some(link)),
        Some(link) => {
            link.ended().await;
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

/// A client's handshake, for a link in its place.
fn handshake(peer: &Peer) -> Option<InitializeParams> {
    let mut params = peer.handshake()?.clone();
    let asked = params.capabilities.as_mut();
    if let Some(names) = asked.and_then(|asked| asked.opt_out_notification_methods.as_mut()) {
        names.retain(|name| !NEEDED.contains(&name.as_str()));
    }
    Some(params)
}

/// Called when a link has ended.
struct LinkEnd {
    services: Weak<Services>,
    joined: Weak<Joined>,
    owner: String,
    number: u64,
    ended: watch::Sender<bool>,
}

impl LinkEnd {
    /// Has the threads taken over that were joined through it.
    fn reached(self) {
        let Some(joined) = self.joined.upgrade() else { return };
        // From here on requests about these threads wait.
        let lost = joined.lost(&self.owner, self.number, &self.ended);
        let Some(services) = self.services.upgrade() else { return };
        for lost in lost {
            tokio::spawn(Server { services: services.clone() }.go_on(lost));
        }
    }
}
