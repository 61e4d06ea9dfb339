//! The tables name every message of the specification and of the reference list beside it, with
//! the stability that the specification gives it.

use std::collections::BTreeSet;

use protocol::{
    CLIENT_NOTIFICATIONS, METHODS, NOTIFICATIONS, Ordering, SERVER_REQUESTS, Stability,
};

/// Requests of the client in the two documents.
const DOCUMENTED_METHODS: &[&str] = &[
    "account/login/cancel",
    "account/login/start",
    "account/logout",
    "account/rateLimits/read",
    "account/read",
    "account/sendAddCreditsNudgeEmail",
    "app/list",
    "collaborationMode/list",
    "command/exec",
    "command/exec/resize",
    "command/exec/terminate",
    "command/exec/write",
    "config/batchWrite",
    "config/mcpServer/reload",
    "config/read",
    "config/value/write",
    "configRequirements/read",
    "experimentalFeature/enablement/set",
    "experimentalFeature/list",
    "externalAgentConfig/detect",
    "externalAgentConfig/import",
    "feedback/upload",
    "fs/copy",
    "fs/createDirectory",
    "fs/getMetadata",
    "fs/readDirectory",
    "fs/readFile",
    "fs/remove",
    "fs/unwatch",
    "fs/watch",
    "fs/writeFile",
    "fuzzyFileSearch",
    "fuzzyFileSearch/sessionStart",
    "fuzzyFileSearch/sessionStop",
    "fuzzyFileSearch/sessionUpdate",
    "hooks/list",
    "initialize",
    "marketplace/add",
    "marketplace/remove",
    "marketplace/upgrade",
    "mcpServer/oauth/login",
    "mcpServer/resource/read",
    "mcpServer/tool/call",
    "mcpServerStatus/list",
    "memory/reset",
    "mock/experimentalMethod",
    "model/list",
    "modelProvider/capabilities/read",
    "plugin/install",
    "plugin/list",
    "plugin/read",
    "plugin/share/delete",
    "plugin/share/list",
    "plugin/share/save",
    "plugin/share/updateTargets",
    "plugin/skill/read",
    "plugin/uninstall",
    "process/kill",
    "process/resizePty",
    "process/spawn",
    "process/writeStdin",
    "review/start",
    "skills/config/write",
    "skills/list",
    "thread/approveGuardianDeniedAction",
    "thread/archive",
    "thread/backgroundTerminals/clean",
    "thread/compact/start",
    "thread/decrement_elicitation",
    "thread/fork",
    "thread/goal/clear",
    "thread/goal/get",
    "thread/goal/set",
    "thread/increment_elicitation",
    "thread/inject_items",
    "thread/list",
    "thread/loaded/list",
    "thread/memoryMode/set",
    "thread/metadata/update",
    "thread/name/set",
    "thread/read",
    "thread/realtime/appendAudio",
    "thread/realtime/appendText",
    "thread/realtime/listVoices",
    "thread/realtime/start",
    "thread/realtime/stop",
    "thread/resume",
    "thread/rollback",
    "thread/shellCommand",
    "thread/start",
    "thread/turns/items/list",
    "thread/turns/list",
    "thread/unarchive",
    "thread/unsubscribe",
    "turn/interrupt",
    "turn/start",
    "turn/steer",
    "windowsSandbox/readiness",
    "windowsSandbox/setupStart",
];

/// Our own, on top of those.
const OWN_METHODS: &[&str] = &[
    "mcpServer/prompt/get",
    "mcpServer/prompt/list",
    "modelProvider/find",
    "modelProvider/list",
    "thread/delete",
    "thread/items/list",
    "thread/queue/add",
    "thread/queue/delete",
    "thread/queue/list",
    "thread/queue/reorder",
    "thread/queue/start",
    "thread/queue/update",
    "thread/search",
    "thread/search/cancel",
    "thread/search/stream",
    "thread/search/stream/cancel",
    "thread/searchOccurrences",
    "worktree/list",
    "worktree/merge",
    "worktree/remove",
];

const DOCUMENTED_SERVER_REQUESTS: &[&str] = &[
    "account/hostedAuthTokens/refresh",
    "applyPatchApproval",
    "execCommandApproval",
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "item/tool/call",
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
];

const DOCUMENTED_NOTIFICATIONS: &[&str] = &[
    "account/login/completed",
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "command/exec/outputDelta",
    "configWarning",
    "deprecationNotice",
    "error",
    "externalAgentConfig/import/completed",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "guardianWarning",
    "hook/completed",
    "hook/started",
    "item/agentMessage/delta",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/outputDelta",
    "item/commandExecution/terminalInteraction",
    "item/completed",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "item/started",
    "mcpServer/oauthLogin/completed",
    "mcpServer/startupStatus/updated",
    "model/rerouted",
    "model/verification",
    "process/exited",
    "process/outputDelta",
    "remoteControl/status/changed",
    "serverRequest/resolved",
    "skills/changed",
    "thread/archived",
    "thread/closed",
    "thread/compacted",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "thread/started",
    "thread/status/changed",
    "thread/tokenUsage/updated",
    "thread/unarchived",
    "turn/completed",
    "turn/diff/updated",
    "turn/plan/updated",
    "turn/started",
    "warning",
    "windows/worldWritableWarning",
    "windowsSandbox/setupCompleted",
];

const OWN_NOTIFICATIONS: &[&str] = &[
    "item/commandExecution/running",
    "thread/deleted",
    "thread/metadata/updated",
    "thread/queue/changed",
    "thread/rolledBack",
    "thread/search/partial",
    "thread/settings/updated",
];

fn check(
    table: impl Iterator<Item = &'static str>,
    documented: &[&'static str],
    own: &[&'static str],
) {
    let table: Vec<&str> = table.collect();
    let unique: BTreeSet<&str> = table.iter().copied().collect();
    assert_eq!(unique.len(), table.len(), "a name appears twice");
    assert_eq!(unique, documented.iter().chain(own).copied().collect());
}

#[test]
fn tables_are_complete() {
    check(METHODS.iter().map(|info| info.name), DOCUMENTED_METHODS, OWN_METHODS);
    check(SERVER_REQUESTS.iter().map(|info| info.name), DOCUMENTED_SERVER_REQUESTS, &[]);
    check(NOTIFICATIONS.iter().map(|info| info.name), DOCUMENTED_NOTIFICATIONS, OWN_NOTIFICATIONS);
    check(CLIENT_NOTIFICATIONS.iter().map(|info| info.name), &["initialized"], &[]);
}

/// Prefixes of experimental names: what "Versioning" lists, what the reference list marks, ours.
const EXPERIMENTAL: &[&str] = &[
    "collaborationMode/list",
    "fuzzyFileSearch/session",
    "item/commandExecution/running",
    "item/tool/call",
    "item/tool/requestUserInput",
    "mcpServer/prompt/",
    "memory/reset",
    "mock/experimentalMethod",
    "modelProvider/capabilities/read",
    "modelProvider/find",
    "modelProvider/list",
    "process/",
    "thread/backgroundTerminals/clean",
    "thread/decrement_elicitation",
    "thread/delete",
    "thread/goal/",
    "thread/increment_elicitation",
    "thread/items/list",
    "thread/memoryMode/set",
    "thread/metadata/updated",
    "thread/queue/",
    "thread/realtime/",
    "thread/rolledBack",
    "thread/search",
    "thread/settings/updated",
    "worktree/",
];

#[test]
fn stability_matches_the_specification() {
    let methods = METHODS.iter().map(|info| (info.name, info.stability));
    let messages = SERVER_REQUESTS.iter().chain(NOTIFICATIONS);
    for (name, stability) in methods.chain(messages.map(|info| (info.name, info.stability))) {
        let listed = EXPERIMENTAL.iter().any(|prefix| name.starts_with(prefix));
        assert_eq!(stability == Stability::Experimental, listed, "{name}");
    }
}

#[test]
fn input_to_a_running_process_or_thread_keeps_its_order() {
    for name in ["command/exec/write", "process/writeStdin"] {
        assert_eq!(protocol::lookup(name).unwrap().ordering, Ordering::Ordered, "{name}");
    }
    for name in ["turn/start", "turn/steer", "thread/resume"] {
        assert_eq!(protocol::lookup(name).unwrap().ordering, Ordering::InThread, "{name}");
    }
    for name in ["thread/start", "turn/interrupt"] {
        assert_eq!(protocol::lookup(name).unwrap().ordering, Ordering::Independent, "{name}");
    }
    for name in ["command/exec", "process/spawn"] {
        assert_eq!(protocol::lookup(name).unwrap().ordering, Ordering::Begins, "{name}");
    }
    for name in ["review/start", "config/mcpServer/reload"] {
        assert_eq!(protocol::lookup(name).unwrap().ordering, Ordering::Concurrent, "{name}");
    }
    assert_eq!(protocol::lookup("thread/star"), None);
}
