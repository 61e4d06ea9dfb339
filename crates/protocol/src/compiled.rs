//! Reading of the large types, compiled in this crate.
//!
//! A crate that is compiled for size links the copy of a generic function that a crate below it holds, and
//! makes one of its own only where there is none. The terminal, the editors' adapter and the server read
//! the same results and notifications: without these functions each would hold its own 200 kB for it.

use serde_json::{Result, Value};

use crate::{
    AccountReadResponse, CommandExecutionRequestApprovalParams, ConfigReadResponse,
    ErrorNotification, FileChangeRequestApprovalParams, ItemCompletedNotification,
    McpServerElicitationRequestParams, ModelListResponse, PermissionsRequestApprovalParams,
    ResponseItem, ThreadListResponse, ThreadReadResponse, ThreadStartResponse,
    ThreadStartedNotification, ThreadTurnsListResponse, ToolRequestUserInputParams,
    TurnCompletedNotification,
};

macro_rules! compiled {
    ($($name:ident: $type:ty,)+) => {$(
        #[doc(hidden)]
        pub fn $name(value: Value, text: &str) -> Result<[$type; 2]> {
            Ok([serde_json::from_value(value)?, serde_json::from_str(text)?])
        }
    )+};
}

compiled! {
    account: AccountReadResponse,
    command_approval: CommandExecutionRequestApprovalParams,
    config: ConfigReadResponse,
    elicitation: McpServerElicitationRequestParams,
    error: ErrorNotification,
    file_approval: FileChangeRequestApprovalParams,
    item: ItemCompletedNotification,
    models: ModelListResponse,
    permissions_approval: PermissionsRequestApprovalParams,
    question: ToolRequestUserInputParams,
    response_item: ResponseItem,
    thread: ThreadReadResponse,
    thread_start: ThreadStartResponse,
    thread_started: ThreadStartedNotification,
    threads: ThreadListResponse,
    turn: TurnCompletedNotification,
    turns: ThreadTurnsListResponse,
}
