//! Import of other agents' configuration. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, ExternalAgentConfigDetectParams, ExternalAgentConfigDetectResponse,
    ExternalAgentConfigImportParams, ExternalAgentMethods,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl ExternalAgentMethods<Cx> for Server {
    not_implemented! {
        external_agent_config_detect(ExternalAgentConfigDetectParams) -> ExternalAgentConfigDetectResponse = "externalAgentConfig/detect";
        external_agent_config_import(ExternalAgentConfigImportParams) -> Empty = "externalAgentConfig/import";
    }
}
