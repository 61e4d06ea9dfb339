//! Parameters and results of the methods that open a thread: start, resume and fork.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::AbsolutePath;
use crate::model::{Personality, ReasoningEffort};
use crate::permission::{
    self, ActivePermissionProfile, PermissionProfile, PermissionProfileSelectionParams,
};
use crate::policy::{ApprovalsReviewer, AskForApproval, SandboxMode, SandboxPolicy};
use crate::response_item::ResponseItem;
use crate::thread_record::{Thread, ThreadSource};
use crate::tool::{self, DynamicToolSpec};
use crate::turn::TurnEnvironmentParams;
use crate::wire;
use crate::worktree::ThreadWorktreeParams;

/// Declares the parameters of a method that opens a thread: its members before the overrides, the
/// overrides, and its other members. A flattened struct is no alternative: the errors of flattened members
/// have no positions, by which misspelled names are found.
macro_rules! opening_params {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            { $($before:tt)* }
            overrides,
            { $($after:tt)* }
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $($before)*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub model: Option<String>,
            /// Id of a configured provider.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub model_provider: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub service_tier: Option<String>,
            /// Working directory of the thread.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub cwd: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub approval_policy: Option<AskForApproval>,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub approvals_reviewer: Option<ApprovalsReviewer>,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub sandbox: Option<SandboxMode>,
            #[serde(
                default,
                deserialize_with = "permission::selection",
                skip_serializing_if = "Option::is_none"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub permissions: Option<PermissionProfileSelectionParams>,
            /// Configuration overrides, by dotted key.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub config: Option<BTreeMap<String, Value>>,
            /// Replaces the built-in instructions.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub base_instructions: Option<String>,
            /// Text added to the instructions.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub developer_instructions: Option<String>,
            $($after)*
        }

        impl From<OpeningOverrides> for $name {
            /// Parameters with these overrides and nothing else.
            fn from(overrides: OpeningOverrides) -> Self {
                Self {
                    model: overrides.model,
                    model_provider: overrides.model_provider,
                    service_tier: overrides.service_tier,
                    cwd: overrides.cwd,
                    approval_policy: overrides.approval_policy,
                    approvals_reviewer: overrides.approvals_reviewer,
                    sandbox: overrides.sandbox,
                    permissions: overrides.permissions,
                    config: overrides.config,
                    base_instructions: overrides.base_instructions,
                    developer_instructions: overrides.developer_instructions,
                    ..Self::default()
                }
            }
        }

        impl $name {
            /// Takes the overrides out of the parameters.
            pub fn take_overrides(&mut self) -> OpeningOverrides {
                OpeningOverrides {
                    model: self.model.take(),
                    model_provider: self.model_provider.take(),
                    service_tier: self.service_tier.take(),
                    cwd: self.cwd.take(),
                    approval_policy: self.approval_policy.take(),
                    approvals_reviewer: self.approvals_reviewer.take(),
                    sandbox: self.sandbox.take(),
                    permissions: self.permissions.take(),
                    config: self.config.take(),
                    base_instructions: self.base_instructions.take(),
                    developer_instructions: self.developer_instructions.take(),
                }
            }
        }
    };
}

/// The settings that all methods that open a thread can override.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpeningOverrides {
    pub model: Option<String>,
    pub model_provider: Option<String>,
    pub service_tier: Option<String>,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox: Option<SandboxMode>,
    pub permissions: Option<PermissionProfileSelectionParams>,
    pub config: Option<BTreeMap<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
}

opening_params! {
    /// Parameters of `thread/start`; absent members are taken from the configuration.
    pub struct ThreadStartParams {
        {}
        overrides,
        {
            #[serde(skip_serializing_if = "Option::is_none")]
            pub personality: Option<Personality>,
            /// Label of the thread's metrics.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub service_name: Option<String>,
            /// The thread is not stored.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub ephemeral: Option<bool>,
            /// Tools that the client runs.
            #[serde(
                default,
                deserialize_with = "tool::specs",
                skip_serializing_if = "Option::is_none"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub environments: Option<Vec<TurnEnvironmentParams>>,
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub experimental_raw_events: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub mock_experimental_field: Option<String>,
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub persist_extended_history: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub session_start_source: Option<ThreadStartSource>,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub thread_source: Option<ThreadSource>,
            /// Makes a git worktree, in which the thread works.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub worktree: Option<ThreadWorktreeParams>,
        }
    }
}

/// Why a thread was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadStartSource {
    Startup,
    Clear,
}

/// Result of `thread/start`, `thread/resume` and `thread/fork`: the thread and its effective
/// settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<String>,
    pub cwd: AbsolutePath,
    /// Instruction files that were loaded.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub instruction_sources: Vec<AbsolutePath>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    pub reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub permission_profile: Option<PermissionProfile>,
    /// The position of this response among the thread's events, with `capabilities.eventCursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub event_cursor: Option<String>,
    /// The way in which this client receives the events that it missed, with `eventCursor` in the
    /// parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub event_replay: Option<EventReplay>,
}

/// The way in which a client that reconnects receives the events that it missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventReplay {
    /// All missed events follow as notifications, with the deltas of a stream merged into one.
    Replayed {
        /// Number of notifications, including methods that the client opted out of.
        events: u64,
        /// Ids of the server's requests that are sent again after them. Every other request that
        /// the client has open is resolved.
        open_request_ids: Vec<i64>,
    },
    /// The missed events are no longer available: `thread.turns` contains the current state.
    Snapshot {
        /// Why they are not available.
        reason: SnapshotReason,
        /// `thread.turns` replaces this turn and all later ones; `null`: all turns that the client
        /// knows.
        from_turn_id: Option<String>,
        /// True if `thread.turns` contains all turns from there on. If not, it contains the newest
        /// turns; read the others with `thread/turns/list`.
        is_complete: bool,
        /// Ids of the server's requests that are sent again after the response. Every other request
        /// that the client has open is resolved.
        open_request_ids: Vec<i64>,
    },
}

/// Why events cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SnapshotReason {
    /// The thread was unloaded or the server restarted in the meantime.
    Reloaded,
    /// The event log no longer contains the events, or turns were rolled back.
    TooOld,
}

opening_params! {
    /// Parameters of `thread/resume`.
    pub struct ThreadResumeParams {
        {
            pub thread_id: String,
        }
        overrides,
        {
            #[serde(skip_serializing_if = "Option::is_none")]
            pub personality: Option<Personality>,
            /// Label of the thread's metrics; a thread that is loaded already keeps its own.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub service_name: Option<String>,
            /// Tools that the client runs, in place of the thread's; none: an empty list. A thread that is
            /// loaded already takes no others than it has.
            #[serde(
                default,
                deserialize_with = "tool::specs",
                skip_serializing_if = "Option::is_none"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
            /// Leaves `thread.turns` empty.
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub exclude_turns: bool,
            /// Starts a thread with these items as its history; `threadId` is ignored.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub history: Option<Vec<ResponseItem>>,
            /// An exported file with the thread, which is imported unless it is already stored; `threadId`
            /// is ignored.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub path: Option<String>,
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub persist_extended_history: bool,
            /// The last `eventCursor` of the thread that this client received: later events are replayed
            /// after the response. Requires `capabilities.eventCursor`.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub event_cursor: Option<String>,
        }
    }
}

opening_params! {
    /// Parameters of `thread/fork`.
    pub struct ThreadForkParams {
        {
            pub thread_id: String,
        }
        overrides,
        {
            /// The fork is not stored.
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            pub ephemeral: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub thread_source: Option<ThreadSource>,
            /// The last turn of the fork; the last completed turn when absent.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub last_turn_id: Option<String>,
            /// Leaves `thread.turns` empty.
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub exclude_turns: bool,
            /// An exported file with the thread to fork; `threadId` is ignored.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(extend("x-experimental" = true))]
            pub path: Option<String>,
            #[serde(
                default,
                deserialize_with = "wire::or_default",
                skip_serializing_if = "wire::is_false"
            )]
            #[schemars(extend("x-experimental" = true))]
            pub persist_extended_history: bool,
        }
    }
}
