//! Tokens that a client provides: when they are refused, the client is asked for fresh ones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use account::{Bearer, Error as AccountError, ExternalTokens, Settings};
use http_client::Secret;
use protocol::{
    HostedAuthTokensRefreshParams, HostedAuthTokensRefreshReason, HostedAuthTokensRefreshResponse,
};
use tokio::sync::Mutex as AsyncMutex;

use crate::connections::Connections;
use crate::direct_requests::{DirectRequest, DirectRequests};
use crate::peer::{ConnectionId, Peer};

/// Time for a client to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A source of tokens that a client provides.
pub(super) struct ExternalSource {
    connections: Arc<Connections>,
    requests: Arc<DirectRequests>,
    /// The connection that provided the tokens.
    owner: Mutex<Option<ConnectionId>>,
    /// Held while clients are asked: once for all requests that wait.
    asking: AsyncMutex<()>,
}

impl ExternalSource {
    pub(super) fn new(connections: Arc<Connections>, requests: Arc<DirectRequests>) -> Self {
        Self { connections, requests, owner: Mutex::default(), asking: AsyncMutex::default() }
    }

    pub(super) fn set_owner(&self, connection: ConnectionId) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    /// A connection has ended: it is no longer waited for.
    pub(super) fn detach(&self, connection: ConnectionId) {
        self.requests.left(connection);
    }

    /// Asks for fresh tokens, unless another request has got them meanwhile.
    pub(super) async fn refresh(
        &self,
        account_id: String,
        account: &account::Accounts,
        settings: &Settings,
        rejected: Option<&Secret>,
    ) -> Result<Bearer, AccountError> {
        let _asking = self.asking.lock().await;
        match account.bearer(settings, rejected).await {
            Err(AccountError::ExternalRejected { .. }) => {}
            outcome => return outcome,
        }
        let tokens = self.ask(account_id).await?;
        if rejected == Some(&tokens.access_token) {
            return Err(failed("the client answered with the same access token"));
        }
        account.use_external(settings, tokens)?;
        account.bearer(settings, None).await
    }

    /// Asks the connection that provided the tokens; when it is gone, all others.
    async fn ask(&self, account_id: String) -> Result<ExternalTokens, AccountError> {
        let clients = self.clients();
        let params = HostedAuthTokensRefreshParams {
            reason: HostedAuthTokensRefreshReason::Unauthorized,
            previous_account_id: Some(account_id),
        };
        let mut request = self
            .requests
            .send::<protocol::AccountHostedAuthTokensRefresh>(&params, &clients)
            .ok_or_else(|| failed("no client is connected that could provide fresh ones"))?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, valid_answer(&mut request)).await;
        let after = ANSWER_TIMEOUT.as_secs();
        answer.unwrap_or_else(|_| {
            Err(failed(&format!("no client provided fresh ones within {after} s")))
        })
    }

    fn clients(&self) -> Vec<Arc<Peer>> {
        let owner = *self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.connections.all();
        all.retain(|peer| peer.is_initialized());
        match all.iter().find(|peer| Some(peer.id) == owner) {
            Some(owner) => vec![owner.clone()],
            None => all,
        }
    }
}

/// The first valid answer.
async fn valid_answer(request: &mut DirectRequest) -> Result<ExternalTokens, AccountError> {
    let mut problem = "the client disconnected before it provided fresh ones".to_owned();
    while let Some(answer) = request.next().await {
        // No part of an answer is quoted: it could be a token.
        match answer.map(|result| serde_json::from_str(result.get())) {
            Ok(Ok(answer)) => {
                let HostedAuthTokensRefreshResponse {
                    access_token,
                    hosted_account_id,
                    hosted_plan_type,
                } = answer;
                return Ok(ExternalTokens {
                    access_token: Secret::new(access_token),
                    account_id: hosted_account_id,
                    plan: hosted_plan_type,
                });
            }
            Ok(Err(_)) => {
                "the client's answer is not `{\"accessToken\": …, \"hostedAccountId\": …}`"
                    .clone_into(&mut problem);
            }
            Err(error) => {
                problem = format!("the client answered with the error {}", error.code);
            }
        }
    }
    Err(failed(&problem))
}

fn failed(problem: &str) -> AccountError {
    let reason = format!("the tokens that a client provided are no longer accepted, and {problem}");
    AccountError::Ended { reason }
}
