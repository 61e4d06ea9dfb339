//! Commands without a thread. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    CommandExecParams, CommandExecResizeParams, CommandExecResponse, CommandExecTerminateParams,
    CommandExecWriteParams, CommandMethods, Empty,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl CommandMethods<Cx> for Server {
    not_implemented! {
        command_exec(CommandExecParams) -> CommandExecResponse = "command/exec";
        command_exec_write(CommandExecWriteParams) -> Empty = "command/exec/write";
        command_exec_resize(CommandExecResizeParams) -> Empty = "command/exec/resize";
        command_exec_terminate(CommandExecTerminateParams) -> Empty = "command/exec/terminate";
    }
}
