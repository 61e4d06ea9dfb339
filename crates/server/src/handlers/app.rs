//! Connected apps. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{AppListParams, AppListResponse, AppMethods};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl AppMethods<Cx> for Server {
    not_implemented! {
        app_list(AppListParams) -> AppListResponse = "app/list";
    }
}
