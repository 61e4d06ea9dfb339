//! Queues of threads (experimental): messages that wait for a turn of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::input::UserInput;
use crate::table::{methods, notifications};
use crate::turn::TurnStartResponse;

methods! {
    Queue, QueueMethods;

    /// Appends a message to a thread's queue. Each message gets a turn of its own, in order, as soon as no turn
    /// runs: at once when the thread is idle. The same `clientUserMessageId` with the same input returns the
    /// message that waits already.
    ThreadQueueAdd = "thread/queue/add",
        thread_queue_add(ThreadQueueAddParams) -> ThreadQueueAddResponse,
        Experimental, InThread, ["responsesapiClientMetadata"];

    /// Lists the messages of a thread's queue in order, also of a thread that is not loaded.
    ThreadQueueList = "thread/queue/list",
        thread_queue_list(ThreadQueueListParams) -> ThreadQueueListResponse,
        Experimental, InThread, [];

    /// Replaces the input of a queued message, which keeps its ids and its place.
    ThreadQueueUpdate = "thread/queue/update",
        thread_queue_update(ThreadQueueUpdateParams) -> ThreadQueueAddResponse,
        Experimental, InThread, ["responsesapiClientMetadata"];

    /// Deletes a queued message.
    ThreadQueueDelete = "thread/queue/delete",
        thread_queue_delete(ThreadQueueDeleteParams) -> ThreadQueueDeleteResponse,
        Experimental, InThread, [];

    /// Sets the order of a thread's queue.
    ThreadQueueReorder = "thread/queue/reorder",
        thread_queue_reorder(ThreadQueueReorderParams) -> Empty,
        Experimental, InThread, [];

    /// Starts the turn of a queued message now, by default of the first one, and ends a pause of the queue.
    /// Refused while a turn runs.
    ThreadQueueStart = "thread/queue/start",
        thread_queue_start(ThreadQueueStartParams) -> TurnStartResponse,
        Experimental, InThread, [], StartsWork;
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A thread's queue or its pause changed. `thread/queue/list` returns the messages.
    ThreadQueueChanged = "thread/queue/changed", ThreadQueueChangedNotification, Experimental, Newest;
}

/// A message that waits for a turn of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedSubmission {
    pub id: String,
    pub input: Vec<UserInput>,
    /// Becomes the `clientId` of the turn's user message.
    pub client_user_message_id: String,
}

/// Why a queue waits although no turn runs. It waits for `thread/queue/start`; an empty queue has no pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueuePause {
    pub reason: ThreadQueuePauseReason,
    /// For people, where there is more to say than the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Cause of a queue's pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadQueuePauseReason {
    /// A turn was interrupted.
    Interrupted,
    /// A turn failed.
    Failed,
    /// The turn of the first message could not be started.
    NotStarted,
    /// The thread was archived.
    Archived,
}

/// Parameters of `thread/queue/add`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadQueueAddParams {
    pub thread_id: String,
    /// At least one part.
    pub input: Vec<UserInput>,
    /// The client's id of the message, 1 to 128 characters.
    pub client_user_message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
}

/// A queued message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddResponse {
    pub queued_submission: QueuedSubmission,
}

/// Parameters of `thread/queue/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListParams {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of a thread's queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListResponse {
    pub data: Vec<QueuedSubmission>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
    /// Null while the queue goes on by itself.
    pub pause: Option<ThreadQueuePause>,
}

/// Parameters of `thread/queue/update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadQueueUpdateParams {
    pub thread_id: String,
    pub queued_submission_id: String,
    /// At least one part.
    pub input: Vec<UserInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
}

/// Parameters of `thread/queue/delete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadQueueDeleteParams {
    pub thread_id: String,
    pub queued_submission_id: String,
}

/// Result of `thread/queue/delete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadQueueDeleteResponse {
    /// False if the queue had no such message: its turn may have started.
    pub deleted: bool,
}

/// Parameters of `thread/queue/reorder`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadQueueReorderParams {
    pub thread_id: String,
    /// Every queued message exactly once.
    pub queued_submission_ids: Vec<String>,
}

/// Parameters of `thread/queue/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadQueueStartParams {
    pub thread_id: String,
    /// The first message when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_submission_id: Option<String>,
}

/// Payload of `thread/queue/changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueChangedNotification {
    pub thread_id: String,
    /// Number of queued messages.
    pub length: u32,
    /// Null while the queue goes on by itself.
    pub pause: Option<ThreadQueuePause>,
}
