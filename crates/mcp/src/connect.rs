//! Establishes a connection: starts the program or reaches the endpoint, and agrees on the era.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};

use crate::auth;
use crate::definition::{self, HttpServer};
use crate::end_reason::EndReason;
use crate::eras::{Era, Eras};
use crate::error::{Error, ErrorKind};
use crate::handler::Handler;
use crate::http::Http;
use crate::inbound::Inbound;
use crate::intake::Intake;
use crate::port::Launcher;
use crate::probe::{self, FailedStart, Probed};
use crate::server::{Live, Shared};
use crate::stdio::{MAX_MESSAGE, StdioTransport};

/// The shared parts from which connections are made.
pub(crate) struct Connector {
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) http: Http,
    pub(crate) eras: Arc<Eras>,
    pub(crate) logins: auth::Store,
}

/// An established connection. Dropped, it ends.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) live: Live,
    pub(crate) era: Era,
}

impl Connector {
    /// Connects in the era that is known of the server, or finds it out.
    pub(crate) async fn connect(&self, shared: &Arc<Shared>) -> Result<Connection, Error> {
        let known = self.known_era(shared).await;
        let connected = match self.attempt(shared, known).await {
            // A program that ends at a message that it does not know.
            Err((_, late)) if known.is_none() && late.has_ended() => {
                self.attempt(shared, Some(Era::Handshake)).await
            }
            // A server that was replaced by one of the other era.
            Err((error, _)) if known.is_some() && disagrees(error.kind) => {
                self.attempt(shared, None).await
            }
            // It answered the probe too late, and does not know the handshake.
            Err((_, late)) if late.is_set() => self.attempt(shared, Some(Era::Discover)).await,
            connected => connected,
        };
        let connection = connected.map_err(|(error, _)| error)?;
        self.remember(shared, connection.era).await;
        Ok(connection)
    }

    async fn attempt(
        &self,
        shared: &Arc<Shared>,
        known: Option<Era>,
    ) -> Result<Connection, (Error, FailedStart)> {
        let late = FailedStart::default();
        let limit = known.is_none().then_some(probe::LIMIT);
        let end = EndReason::default();
        let connected = match &shared.definition.transport {
            definition::Transport::Stdio(program) => {
                let launched = self.launcher.launch(program.clone()).await;
                let child = launched.map_err(|problem| {
                    (Error::new(ErrorKind::Unavailable, problem), late.clone())
                })?;
                let name = shared.definition.name.clone();
                let intake = Intake::default();
                let transport = StdioTransport::new(name, child, end.clone(), intake.clone());
                let transport = Probed::new(transport, limit, late.clone());
                let served = serve(shared, transport, known, (&end, intake)).await;
                if served.is_err() && end.get().is_some() {
                    late.set_ended();
                }
                served
            }
            definition::Transport::Http(server) => {
                self.http.prepare().await;
                self.reach(shared, server, (limit, &late), known).await
            }
            definition::Transport::Unusable(reason) => Err(Error::configuration(reason.clone())),
        };
        connected.map_err(|error| (error, late))
    }

    /// Connects to an endpoint, with the login at it if there is one.
    async fn reach(
        &self,
        shared: &Arc<Shared>,
        server: &HttpServer,
        (limit, late): (Option<Duration>, &FailedStart),
        known: Option<Era>,
    ) -> Result<Connection, Error> {
        let end = EndReason::default();
        let settings = settings(server)?;
        let intake = Intake::default();
        let http = self.http.of_connection(intake.clone(), limit.map(|_| late.clone()));
        let authorized = match server.has_credentials() {
            true => None,
            false => auth::authorized(&http, server, &self.logins).await?,
        };
        match authorized {
            Some(client) => {
                let transport = StreamableHttpClientTransport::with_client(client, settings);
                let transport = Probed::new(transport, limit, late.clone());
                serve(shared, transport, known, (&end, intake)).await
            }
            None => {
                let transport = StreamableHttpClientTransport::with_client(http, settings);
                let transport = Probed::new(transport, limit, late.clone());
                serve(shared, transport, known, (&end, intake)).await
            }
        }
    }

    async fn known_era(&self, shared: &Arc<Shared>) -> Option<Era> {
        let (eras, definition) = (self.eras.clone(), shared.definition.clone());
        let read = tokio::task::spawn_blocking(move || eras.get(&definition.transport));
        read.await.ok().flatten()
    }

    async fn remember(&self, shared: &Arc<Shared>, era: Era) {
        let (eras, definition) = (self.eras.clone(), shared.definition.clone());
        let write = move || eras.set(&definition.transport, Some(era));
        // The file is a cache.
        let _ = tokio::task::spawn_blocking(write).await;
    }
}

/// Returns whether a failure can mean that a server is of another era than before.
fn disagrees(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Refused | ErrorKind::Protocol | ErrorKind::Unavailable)
}

async fn serve<T>(
    shared: &Arc<Shared>,
    transport: T,
    known: Option<Era>,
    (end, intake): (&EndReason, Intake),
) -> Result<Connection, Error>
where
    T: Transport<RoleClient> + 'static,
{
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = match known {
        Some(Era::Handshake) => ClientLifecycleMode::Initialize,
        Some(Era::Discover) => ClientLifecycleMode::Discover { preferred_versions },
        None => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let transport = Inbound::new(transport, shared.clone(), intake);
    let handler = Handler { shared: shared.clone() };
    let served = handler.serve_with_lifecycle(transport, lifecycle).await;
    let service = served.map_err(|error| match end.get() {
        Some(reason) => {
            let message = format!("the server could not be started: {reason}");
            Error::new(ErrorKind::Unavailable, message)
        }
        None => {
            if let Some(challenge) = error.auth_challenge() {
                shared.set_challenge(challenge);
            }
            Error::initialize(&error)
        }
    })?;
    let Some(info) = service.peer().peer_info() else { return Err(Error::ended()) };
    let era = match info.protocol_version.has_initialize() {
        true => Era::Handshake,
        false => Era::Discover,
    };
    let (peer, capabilities) = (service.peer().clone(), info.capabilities.clone());
    let live = Live { peer, capabilities, end: end.clone() };
    Ok(Connection { service, live, era })
}

fn settings(server: &HttpServer) -> Result<StreamableHttpClientTransportConfig, Error> {
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let unusable = |what: &str| {
            Error::configuration(format!("the header `{name}` has {what} that HTTP does not allow"))
        };
        let parsed: HeaderName = name.parse().map_err(|_| unusable("a name"))?;
        let mut value: HeaderValue = value.parse().map_err(|_| unusable("a value"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    let mut settings = StreamableHttpClientTransportConfig::with_uri(server.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(MAX_MESSAGE)
        .max_json_response_size(MAX_MESSAGE);
    settings.auth_header.clone_from(&server.bearer);
    Ok(settings)
}
