//! Unsolicited messages of a server, before the protocol's implementation takes them: requests are
//! bounded in number and get their origin, and reports are handled, in order and without a task for
//! each. The bound is the same for both transports: while too many requests have no answer that the
//! server has taken, its messages are not read.

use std::future::Future;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{Extensions, GetExtensions, JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{InboundStreamOrigin, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::watch;

use crate::calls::{Origin, Progress};
use crate::intake::Intake;
use crate::server::Shared;
use crate::server::lists::List;

/// A request of the server, until its answer was written or given up.
struct Answering {
    intake: Intake,
    id: RequestId,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.intake.finish(&self.id);
    }
}

/// A transport that bounds and handles the unsolicited messages of a server.
pub(crate) struct Inbound<T> {
    inner: T,
    shared: Arc<Shared>,
    intake: Intake,
    has_warned: bool,
    /// Set when the connection has ended. Its questions end then; what runs on waits for them.
    closed: watch::Sender<bool>,
}

impl<T: Transport<RoleClient>> Inbound<T> {
    /// `inner` must await [`Intake::room`] before it reads further.
    pub(crate) fn new(inner: T, shared: Arc<Shared>, intake: Intake) -> Self {
        Self { inner, shared, intake, has_warned: false, closed: watch::Sender::new(false) }
    }

    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(mut message) = self.inner.receive().await else {
                self.closed.send_replace(true);
                return None;
            };
            match &mut message {
                JsonRpcMessage::Request(request) => {
                    if !self.intake.begin(&request.id) {
                        self.warn_of_repeated_id();
                        continue;
                    }
                    self.add_origin(request.request.extensions_mut());
                }
                JsonRpcMessage::Notification(notification) => {
                    if self.take(&notification.notification) {
                        continue;
                    }
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
            return Some(message);
        }
    }

    /// Notes the requests that a question may belong to.
    fn add_origin(&self, extensions: &mut Extensions) {
        let id = match extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
            Some(InboundStreamOrigin::Unassociated) | None => None,
        };
        let calls = self.shared.calls.asked_by(id);
        extensions.insert(Origin { calls, closed: self.closed.subscribe() });
    }

    /// Logs, once, that a request was ignored.
    fn warn_of_repeated_id(&mut self) {
        if !std::mem::replace(&mut self.has_warned, true) {
            let server = &self.shared.definition.name;
            tracing::warn!(
                target: "mcp",
                "a request of the server `{server}` has the id of another one that awaits its answer, \
                 and is ignored"
            );
        }
    }

    /// Handles a notification; `false` for those that the protocol's implementation needs.
    fn take(&self, notification: &ServerNotification) -> bool {
        let shared = &self.shared;
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                if let Some(call) = shared.calls.of_token(&progress.params.progress_token) {
                    call.report(Progress::new(progress.params.clone()));
                }
            }
            ServerNotification::ToolListChangedNotification(_) => {
                shared.note_tool_change();
                shared.refresh.notify_one();
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                shared.lists.forget(&[List::Resources, List::ResourceTemplates]);
                // Skills are resources, and have no notification of their own.
                if shared.live().is_none_or(|live| live.capabilities.supports_skills()) {
                    shared.refresh.notify_one();
                }
            }
            ServerNotification::PromptListChangedNotification(_) => {
                shared.lists.forget(&[List::Prompts]);
            }
            ServerNotification::CancelledNotification(cancelled) => {
                // A request that the server withdraws gets no answer.
                if let Some(id) = &cancelled.params.request_id {
                    self.intake.finish(id);
                }
                return false;
            }
            ServerNotification::SubscriptionsAcknowledgedNotification(_) => return false,
            // Nothing here depends on them.
            _ => {}
        }
        true
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Inbound<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let answering = answered.map(|id| Answering { intake: self.intake.clone(), id });
        let sent = self.inner.send(message);
        async move {
            let _answering = answering;
            sent.await
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.next()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests;
