//! Processes outside of any sandbox. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, ProcessKillParams, ProcessMethods, ProcessResizePtyParams, ProcessSpawnParams,
    ProcessWriteStdinParams,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl ProcessMethods<Cx> for Server {
    not_implemented! {
        process_spawn(ProcessSpawnParams) -> Empty = "process/spawn";
        process_write_stdin(ProcessWriteStdinParams) -> Empty = "process/writeStdin";
        process_resize_pty(ProcessResizePtyParams) -> Empty = "process/resizePty";
        process_kill(ProcessKillParams) -> Empty = "process/kill";
    }
}
