//! The Windows sandbox. On other systems each method is refused as not applicable.

use protocol::{
    Empty, WindowsMethods, WindowsSandboxReadinessResponse, WindowsSandboxSetupStartParams,
    WindowsSandboxSetupStartResponse,
};

use crate::server::Server;
use services::error::{Error, ErrorKind};
use services::peer::Caller;

impl WindowsMethods<Caller> for Server {
    async fn windows_sandbox_readiness(
        &self,
        _caller: Caller,
        _params: Empty,
    ) -> Result<WindowsSandboxReadinessResponse, Error> {
        Err(refusal("windowsSandbox/readiness"))
    }

    async fn windows_sandbox_setup_start(
        &self,
        _caller: Caller,
        _params: WindowsSandboxSetupStartParams,
    ) -> Result<WindowsSandboxSetupStartResponse, Error> {
        Err(refusal("windowsSandbox/setupStart"))
    }
}

fn refusal(method: &str) -> Error {
    if cfg!(windows) {
        return Error::not_implemented(method);
    }
    let system = std::env::consts::OS;
    let message = format!("`{method}` applies to Windows only, and this server runs on {system}");
    Error::new(ErrorKind::NotApplicable, message)
        .next_step("`agentd doctor` shows what the sandbox needs here")
}
