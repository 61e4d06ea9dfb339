//! The Windows sandbox, which servers on other systems do not have: there each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, WindowsMethods, WindowsSandboxReadinessResponse, WindowsSandboxSetupStartParams,
    WindowsSandboxSetupStartResponse,
};
use serde_json::json;

use crate::connection::Cx;
use crate::handlers::missing;
use crate::server::Server;

impl WindowsMethods<Cx> for Server {
    async fn windows_sandbox_readiness(
        &self,
        _cx: Cx,
        _params: Empty,
    ) -> Result<WindowsSandboxReadinessResponse, ErrorObject> {
        Err(refusal("windowsSandbox/readiness"))
    }

    async fn windows_sandbox_setup_start(
        &self,
        _cx: Cx,
        _params: WindowsSandboxSetupStartParams,
    ) -> Result<WindowsSandboxSetupStartResponse, ErrorObject> {
        Err(refusal("windowsSandbox/setupStart"))
    }
}

fn refusal(method: &str) -> ErrorObject {
    if cfg!(windows) {
        return missing(method);
    }
    let system = std::env::consts::OS;
    let message = format!(
        "`{method}` applies to servers on Windows only; this one runs on {system}, where \
         `agentd doctor` tells what the sandbox needs"
    );
    ErrorObject::invalid_request(message).with_data(json!({ "reason": "notApplicable" }))
}
