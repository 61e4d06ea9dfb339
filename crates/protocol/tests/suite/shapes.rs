//! Representative messages, in the specification's spelling: read, and written as they came.

use protocol::{
    AccountLoginStartParams, AgentErrorInfo, AskForApproval, CommandExecParams,
    CommandExecutionApprovalDecision, ConfigRequirements, InitializeParams,
    McpServerElicitationRequestParams, ModelListResponse, ResponseItem, ReviewTarget, SandboxMode,
    SandboxPolicy, SessionSource, Thread, ThreadItem, ThreadListCwdFilter,
    ThreadMetadataUpdateParams, ThreadStatus, Turn, TurnStartParams, UserInput,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn check<T: Serialize + DeserializeOwned>(message: Value) {
    check_read::<T>(message.clone(), message);
}

fn check_read<T: Serialize + DeserializeOwned>(read: Value, written: Value) {
    let value: T =
        serde_json::from_value(read.clone()).unwrap_or_else(|why| panic!("{read}: {why}"));
    assert_eq!(serde_json::to_value(value).unwrap(), written);
}

fn refuse<T: DeserializeOwned>(message: Value) {
    assert!(serde_json::from_value::<T>(message.clone()).is_err(), "{message}");
}

#[test]
fn items() {
    for item in [
        json!({"type": "userMessage", "id": "i", "content": [
            {"type": "text", "text": "a", "text_elements": [{"byteRange": {"start": 0, "end": 1}}]},
            {"type": "image", "url": "https://a/b.png"},
            {"type": "localImage", "path": "/a.png"},
            {"type": "skill", "name": "s", "path": "/s/SKILL.md"},
            {"type": "mention", "name": "m", "path": "app://m"}]}),
        json!({"type": "hookPrompt", "id": "i", "fragments": [{"hookRunId": "h", "text": "t"}]}),
        json!({"type": "agentMessage", "id": "i", "text": "a", "phase": "final_answer"}),
        json!({"type": "plan", "id": "i", "text": "a"}),
        json!({"type": "reasoning", "id": "i", "summary": ["a"], "content": []}),
        json!({"type": "commandExecution", "id": "i", "command": "ls", "cwd": "/", "processId": "1",
            "source": "userShell", "status": "declined",
            "commandActions": [{"type": "listFiles", "command": "ls"}],
            "aggregatedOutput": "", "exitCode": -1, "durationMs": 3}),
        json!({"type": "fileChange", "id": "i", "status": "inProgress", "changes": [
            {"path": "a", "kind": {"type": "add"}, "diff": "x"},
            {"path": "b", "kind": {"type": "update", "move_path": "c"}, "diff": "@@"},
            {"path": "d", "kind": {"type": "delete"}, "diff": ""}]}),
        json!({"type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "failed",
            "arguments": {"a": 1}, "error": {"message": "no"}}),
        json!({"type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "completed",
            "arguments": null, "result": {"content": [1], "structuredContent": {}, "_meta": {}}}),
        json!({"type": "dynamicToolCall", "id": "i", "tool": "t", "arguments": {},
            "status": "completed", "success": true, "durationMs": 1,
            "contentItems": [{"type": "inputText", "text": "a"},
                {"type": "inputImage", "imageUrl": "data:"}]}),
        json!({"type": "collabToolCall", "id": "i", "tool": "spawnAgent", "status": "inProgress",
            "senderThreadId": "a", "receiverThreadIds": ["b"], "agentsStates": {"b": {"status":
            "running"}}, "newThreadId": "b", "prompt": "p",
            "agentStatus": "pendingInit"}),
        json!({"type": "webSearch", "id": "i", "query": "q",
            "action": {"type": "findInPage", "url": "u", "pattern": "p"}}),
        json!({"type": "imageView", "id": "i", "path": "/a.png"}),
        json!({"type": "imageGeneration", "id": "i", "status": "completed", "result": "aGk="}),
        json!({"type": "enteredReviewMode", "id": "i", "review": "changes"}),
        json!({"type": "exitedReviewMode", "id": "i", "review": "fine"}),
        json!({"type": "contextCompaction", "id": "i"}),
    ] {
        check::<ThreadItem>(item);
    }
    refuse::<ThreadItem>(json!({"type": "unheardOf", "id": "i"}));
}

#[test]
fn approval_policies_in_both_spellings() {
    for (read, written) in [
        ("unlessTrusted", "unlessTrusted"),
        ("untrusted", "unlessTrusted"),
        ("onFailure", "onFailure"),
        ("on-failure", "onFailure"),
        ("onRequest", "onRequest"),
        ("on-request", "onRequest"),
        ("never", "never"),
    ] {
        check_read::<AskForApproval>(json!(read), json!(written));
    }
    check_read::<AskForApproval>(
        json!({"granular": {"sandbox_approval": true, "rules": false, "mcp_elicitations": true}}),
        json!({"granular": {"sandbox_approval": true, "rules": false, "mcp_elicitations": true,
            "request_permissions": false, "skill_approval": false}}),
    );
    refuse::<AskForApproval>(json!("sometimes"));
}

#[test]
fn sandboxes_in_both_spellings() {
    for (read, written) in [
        ("read-only", "readOnly"),
        ("workspace-write", "workspaceWrite"),
        ("danger-full-access", "dangerFullAccess"),
        ("workspaceWrite", "workspaceWrite"),
    ] {
        check_read::<SandboxMode>(json!(read), json!(written));
    }
    check_read::<SandboxPolicy>(
        json!({"type": "workspace-write", "excludeSlashTmp": true}),
        json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": true}),
    );
    check_read::<SandboxPolicy>(
        json!({"type": "workspaceWrite", "writableRoots": ["/a"], "networkAccess": true,
            "readOnlyAccess": {"type": "restricted", "readableRoots": ["/b"]}}),
        json!({"type": "workspaceWrite", "writableRoots": ["/a"], "networkAccess": true,
            "readOnlyAccess": {"type": "restricted", "includePlatformDefaults": false,
                "readableRoots": ["/b"]},
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": false}),
    );
    check::<SandboxPolicy>(json!({"type": "readOnly", "networkAccess": false,
        "access": {"type": "fullAccess"}}));
    check_read::<SandboxPolicy>(
        json!({"type": "externalSandbox"}),
        json!({"type": "externalSandbox", "networkAccess": "restricted"}),
    );
    check::<SandboxPolicy>(json!({"type": "dangerFullAccess"}));
}

#[test]
fn error_kinds_in_both_spellings() {
    for name in [
        "ContextWindowExceeded",
        "UsageLimitExceeded",
        "HttpConnectionFailed",
        "ResponseStreamConnectionFailed",
        "ResponseStreamDisconnected",
        "ResponseTooManyFailedAttempts",
        "BadRequest",
        "Unauthorized",
        "SandboxError",
        "InternalServerError",
        "ServerOverloaded",
        "CyberPolicy",
        "ThreadRollbackFailed",
        "Other",
    ] {
        check::<AgentErrorInfo>(json!(name));
        let camel = name[..1].to_lowercase() + &name[1..];
        check_read::<AgentErrorInfo>(json!(camel), json!(name));
    }
    check::<AgentErrorInfo>(json!({"HttpConnectionFailed": {"httpStatusCode": 502}}));
    check_read::<AgentErrorInfo>(
        json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
        json!({"ResponseTooManyFailedAttempts": {"httpStatusCode": 429}}),
    );
    check_read::<AgentErrorInfo>(
        json!({"HttpConnectionFailed": {"httpStatusCode": null}}),
        json!("HttpConnectionFailed"),
    );
    check::<AgentErrorInfo>(json!({"ActiveTurnNotSteerable": {"turnKind": "review"}}));
    for bad in [json!({}), json!("ActiveTurnNotSteerable"), json!("é"), json!(""), json!(3)] {
        refuse::<AgentErrorInfo>(bad);
    }
}

#[test]
fn null_and_absent_are_distinguished_where_required() {
    check::<ThreadMetadataUpdateParams>(json!({"threadId": "t", "gitInfo": {"branch": null}}));
    check::<ThreadMetadataUpdateParams>(json!({"threadId": "t", "gitInfo": {"sha": "a"}}));
    check::<ThreadMetadataUpdateParams>(json!({"threadId": "t"}));
    check::<TurnStartParams>(json!({"threadId": "t", "input": [], "serviceTier": null}));
    check_read::<TurnStartParams>(
        json!({"threadId": "t", "input": [], "model": null}),
        json!({"threadId": "t", "input": []}),
    );
}

#[test]
fn threads_and_turns_carry_what_the_specification_lists() {
    check::<Thread>(json!({
        "id": "t", "sessionId": "t", "preview": "", "ephemeral": false, "modelProvider": "default",
        "createdAt": 1, "updatedAt": 2, "status": {"type": "active", "activeFlags": []},
        "cwd": "/", "cliVersion": "0.1.0", "source": "appServer", "name": null, "gitInfo": null,
        "turns": [],
    }));
    check::<Turn>(json!({"id": "u", "status": "failed", "items": [], "itemsView": "full",
        "error": {"message": "no", "agentErrorInfo": "Other", "additionalDetails": "d"}}));
    check_read::<Turn>(
        json!({"id": "u", "status": "inProgress"}),
        json!({"id": "u", "status": "inProgress", "items": [], "itemsView": "full", "error": null}),
    );
    check::<ThreadStatus>(json!({"type": "notLoaded"}));
    check::<SessionSource>(
        json!({"subAgent": {"thread_spawn": {"parent_thread_id": "t", "depth": 1}}}),
    );
    check::<SessionSource>(json!({"subAgent": "review"}));
    check::<SessionSource>(json!({"custom": "x"}));
}

#[test]
fn requests() {
    check::<InitializeParams>(json!({"clientInfo": {"name": "c", "version": "1"},
        "capabilities": {"experimentalApi": true, "optOutNotificationMethods": ["thread/started"]}}));
    check_read::<InitializeParams>(
        json!({"clientInfo": {"name": "c", "title": null, "version": "1"}, "capabilities": null}),
        json!({"clientInfo": {"name": "c", "version": "1"}}),
    );
    check::<ThreadListCwdFilter>(json!("/a"));
    check::<ThreadListCwdFilter>(json!(["/a", "/b"]));
    check::<ReviewTarget>(json!({"type": "commit", "sha": "abc"}));
    check::<ReviewTarget>(json!({"type": "uncommittedChanges"}));
    check::<CommandExecParams>(
        json!({"command": ["ls"], "env": {"A": "b", "C": null}, "tty": true,
        "size": {"rows": 24, "cols": 80}}),
    );
    check::<AccountLoginStartParams>(json!({"type": "apiKey", "apiKey": "k"}));
    check_read::<UserInput>(
        json!({"type": "text", "text": "a", "textElements": []}),
        json!({"type": "text", "text": "a"}),
    );
    check::<ResponseItem>(json!({"type": "function_call_output", "call_id": "c", "output": "o"}));
    check::<ResponseItem>(json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "a"}]}));
    check_read::<ResponseItem>(
        json!({"type": "from_the_future", "x": 1}),
        json!({"type": "other"}),
    );
}

#[test]
fn answers_and_results() {
    for decision in [
        json!("accept"),
        json!("acceptForSession"),
        json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "status"]}}),
        json!({"applyNetworkPolicyAmendment":
            {"network_policy_amendment": {"host": "a", "action": "allow"}}}),
        json!("decline"),
        json!("cancel"),
    ] {
        check::<CommandExecutionApprovalDecision>(decision);
    }
    for field in [
        json!({"type": "string", "enum": ["a"]}),
        json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}),
        json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1}),
        json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
        json!({"type": "string", "format": "date-time", "maxLength": 9}),
        json!({"type": "integer", "minimum": 1.5}),
        json!({"type": "boolean", "default": true}),
    ] {
        check::<McpServerElicitationRequestParams>(json!({"threadId": "t", "turnId": null,
            "serverName": "s", "mode": "form", "message": "m",
            "requestedSchema": {"type": "object", "properties": {"f": field}}}));
    }
    check::<McpServerElicitationRequestParams>(json!({"threadId": "t", "turnId": "u",
        "serverName": "s", "mode": "url", "message": "m", "url": "https://a", "elicitationId": "e"}));
    check::<ConfigRequirements>(json!({"allowedApprovalPolicies": ["onRequest"],
        "allowedSandboxModes": ["readOnly"], "featureRequirements": {"goals": true},
        "network": {"enabled": true, "allowedDomains": ["a"]}}));
    let models: ModelListResponse =
        serde_json::from_value(json!({"data": [{"id": "m", "model": "m",
        "displayName": "M", "hidden": false, "isDefault": true, "supportedReasoningEfforts": [],
        "defaultReasoningEffort": "medium"}]}))
        .unwrap();
    assert_eq!(models.data[0].input_modalities.len(), 2, "missing means text and image");
}
