//! Messages of a server: its questions to the user and its reports. Sampling is refused.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
    FormElicitationCapability, InitializeRequestParams, ListRootsResult, ProgressNotificationParam,
    ProtocolVersion, RootsCapabilities, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};

use crate::calls::{Origin, Progress};
use crate::server::Shared;
use crate::server::lists::List;

/// See the module.
pub(crate) struct Handler {
    pub(crate) shared: Arc<Shared>,
}

impl ClientHandler for Handler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(origin) = context.extensions.get::<Origin>().cloned() else {
            return Err(ErrorData::internal_error("the question came on no connection", None));
        };
        tokio::select! {
            answer = self.shared.ask(request, origin) => answer,
            () = context.ct.cancelled() => {
                Err(ErrorData::invalid_request("the question was withdrawn", None))
            }
        }
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(self.shared.roots())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(call) = self.shared.calls.of_token(&params.progress_token) {
            call.report(Progress::new(params));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.refresh.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.lists.forget(&[List::Resources, List::ResourceTemplates]);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.lists.forget(&[List::Prompts]);
    }

    fn get_info(&self) -> InitializeRequestParams {
        let mut capabilities = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        capabilities.roots = Some(roots);
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        InitializeRequestParams::new(capabilities, self.shared.identity.clone())
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
