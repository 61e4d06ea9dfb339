//! Collaboration modes. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{CollaborationMethods, CollaborationModeListResponse, Empty};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl CollaborationMethods<Cx> for Server {
    not_implemented! {
        collaboration_mode_list(Empty) -> CollaborationModeListResponse = "collaborationMode/list";
    }
}
