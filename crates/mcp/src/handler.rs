//! Requests of a server: its questions to the user, and for the folders. Sampling is refused.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ConstString, CreateMessageRequestMethod, CustomRequest, CustomResult,
    ElicitRequestParams, ElicitResult, ElicitationCapability, ElicitationCreateRequestMethod,
    ErrorCode, ErrorData, FormElicitationCapability, InitializeRequestParams,
    ListRootsRequestMethod, ListRootsResult, PingRequestMethod, ProtocolVersion, RootsCapabilities,
    UrlElicitationCapability,
};
use rmcp::service::RequestContext;

use crate::calls::Origin;
use crate::elicitation;
use crate::server::Shared;

/// The handler of a server's requests.
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

    /// A request of an unknown method, or one whose parameters do not have their form.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let params = params.unwrap_or_default();
        let problem = match method.as_str() {
            ElicitationCreateRequestMethod::VALUE => elicitation::problem_of_params(&params),
            CreateMessageRequestMethod::VALUE => {
                return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
            }
            ListRootsRequestMethod::VALUE | PingRequestMethod::VALUE => {
                "the parameters do not have the form that the protocol demands".to_owned()
            }
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)),
        };
        Err(ErrorData::invalid_params(problem, None))
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
