//! Hooks. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{HooksListParams, HooksListResponse, HooksMethods};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl HooksMethods<Cx> for Server {
    not_implemented! {
        hooks_list(HooksListParams) -> HooksListResponse = "hooks/list";
    }
}
