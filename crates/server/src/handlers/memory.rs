//! Memory. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{Empty, MemoryMethods};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl MemoryMethods<Cx> for Server {
    not_implemented! {
        memory_reset(Empty) -> Empty = "memory/reset";
    }
}
