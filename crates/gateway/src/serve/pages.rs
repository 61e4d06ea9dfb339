//! The dashboard and the administration API, which have a router of their own.

use std::net::IpAddr;
use std::sync::Arc;

use gateway_admin::{OverHttps, Peer, Services};
use gateway_policy::settings::Client;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tower_service::Service;

use crate::answer::AnswerBody;
use crate::state::Gateway;

/// The administration's router. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pages {
    router: axum::Router,
    client: Option<Client>,
}

impl Pages {
    pub(super) fn new(gateway: &Gateway) -> Self {
        let router = gateway_admin::router(Services {
            database: Arc::clone(&gateway.database),
            directory: Arc::clone(&gateway.directory),
            ledger: gateway.ledger.clone(),
            settings: Arc::clone(&gateway.settings),
            limits: Arc::clone(&gateway.limits),
            clock: Arc::clone(&gateway.clock),
            random: Arc::clone(&gateway.random),
            sign_ins: Arc::clone(&gateway.sign_ins),
        });
        Self { router, client: None }
    }

    /// The same for the requests of one client.
    pub(super) fn for_client(&self, client: Client) -> Self {
        Self { router: self.router.clone(), client: Some(client) }
    }

    /// The client's address, if it is known.
    pub(super) fn client(&self) -> Option<IpAddr> {
        self.client.map(|client| client.address)
    }

    pub(super) async fn answer(mut self, request: Request<Incoming>) -> Response<AnswerBody> {
        let mut request = request.map(axum::body::Body::new);
        if let Some(client) = self.client {
            request.extensions_mut().insert(Peer(client.address));
            if client.is_https {
                request.extensions_mut().insert(OverHttps);
            }
        }
        let answered = self.router.call(request).await;
        answered.unwrap_or_else(|never| match never {}).map(AnswerBody::Page)
    }
}
