//! The Windows sandbox. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, WindowsMethods, WindowsSandboxReadinessResponse, WindowsSandboxSetupStartParams,
    WindowsSandboxSetupStartResponse,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl WindowsMethods<Cx> for Server {
    not_implemented! {
        windows_sandbox_readiness(Empty) -> WindowsSandboxReadinessResponse = "windowsSandbox/readiness";
        windows_sandbox_setup_start(WindowsSandboxSetupStartParams) -> WindowsSandboxSetupStartResponse = "windowsSandbox/setupStart";
    }
}
