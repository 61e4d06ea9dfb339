//! The dialect `codex`: the names of the server that the specification was generalised from. Its
//! clients of version 0.163 and its terminals of versions 0.130 and 0.171 are the tests (`cargo xtask interop`).

use super::table::{Names, Table, TypeTable, left_out, members, values};

pub(super) static TABLE: Table = Table {
    name: "codex",
    protocol_version: "0.163.0",
    home_variable: "CODEX_HOME",
    key_variable: "CODEX_API_KEY",
    turns_with_thread: true,
    methods: &[("account/hostedAuthTokens/refresh", "account/chatgptAuthTokens/refresh")],
    config_keys: &[
        ("default_provider_base_url", "openai_base_url"),
        ("hosted_base_url", "chatgpt_base_url"),
    ],
    types: &[
        members("InitializeResponse", &[("agentHome", "codexHome")]),
        // Errors of turns.
        members("TurnError", &[("agentErrorInfo", "codexErrorInfo")]),
        TypeTable {
            name: "AgentErrorInfo",
            members: ERRORS_WITH_DETAILS,
            values: ERRORS,
            ..TypeTable::EMPTY
        },
        // Policies and sources.
        values(
            "AskForApproval",
            &[
                ("unlessTrusted", "untrusted"),
                ("onFailure", "on-failure"),
                ("onRequest", "on-request"),
            ],
        ),
        values(
            "SandboxMode",
            &[
                ("readOnly", "read-only"),
                ("workspaceWrite", "workspace-write"),
                ("dangerFullAccess", "danger-full-access"),
            ],
        ),
        values("SessionSource", &[("editor", "vscode")]),
        values("ThreadSourceKind", &[("editor", "vscode")]),
        values("FileSystemAccessMode", &[("none", "deny")]),
        members("ConfigLayerSource", &[("dotAgentFolder", "dotCodexFolder")]),
        // Calls between agents.
        values("ThreadItem", &[("collabToolCall", "collabAgentToolCall")]),
        // Accounts.
        members("AccountReadResponse", &[("requiresDefaultAuth", "requiresOpenaiAuth")]),
        values("Account", &[("hosted", "chatgpt")]),
        values("AuthMode", &[("hosted", "chatgpt"), ("hostedAuthTokens", "chatgptAuthTokens")]),
        TypeTable {
            name: "AccountLoginStartParams",
            members: &[
                ("agentStreamlinedLogin", "codexStreamlinedLogin"),
                ("hostedAccountId", "chatgptAccountId"),
                ("hostedPlanType", "chatgptPlanType"),
            ],
            values: LOGINS,
            ..TypeTable::EMPTY
        },
        values("AccountLoginStartResponse", LOGINS),
        members(
            "HostedAuthTokensRefreshResponse",
            &[("hostedAccountId", "chatgptAccountId"), ("hostedPlanType", "chatgptPlanType")],
        ),
        // Newer clients.
        TypeTable { name: "ConfigReadParams", relative: &["cwd"], ..TypeTable::EMPTY },
        left_out("ThreadStartParams", NEWER_OF_THREADS),
        left_out("ThreadResumeParams", NEWER_OF_THREADS),
        left_out("ThreadForkParams", NEWER_OF_THREADS),
        left_out(
            "TurnStartParams",
            &[
                "additionalContext",
                "clientUserMessageId",
                "disabledPluginIds",
                "multiAgentMode",
                "parentTurnId",
                "responsesapiClientMetadataPatch",
                "rootTurnId",
                "runtimeWorkspaceRoots",
            ],
        ),
        left_out(
            "TurnSteerParams",
            &["additionalContext", "clientUserMessageId", "responsesapiClientMetadataPatch"],
        ),
        left_out("ThreadShellCommandParams", &["timeoutMs"]),
        left_out("ThreadGoalSetParams", &["origin"]),
        left_out("PluginListParams", &["forceRefetch"]),
        left_out("PluginInstallParams", &["installAttemptId"]),
        TypeTable {
            name: "ThreadSortKey",
            also: &[("updated_at", "recency_at"), ("updated_at", "section_position")],
            ..TypeTable::EMPTY
        },
    ],
};

/// Modes, labels and further folders: without them a thread has less, never more.
const NEWER_OF_THREADS: &[&str] = &[
    "allowProviderModelFallback",
    "attachToSource",
    "deferGoalContinuation",
    "disabledPluginIds",
    "historyMode",
    "initialTurnsPage",
    "multiAgentMode",
    "projectId",
    "runtimeWorkspaceRoots",
    "selectedCapabilityRoots",
];

const ERRORS: &[Names] = &[
    ("ContextWindowExceeded", "contextWindowExceeded"),
    ("UsageLimitExceeded", "usageLimitExceeded"),
    ("HttpConnectionFailed", "httpConnectionFailed"),
    ("ResponseStreamConnectionFailed", "responseStreamConnectionFailed"),
    ("ResponseStreamDisconnected", "responseStreamDisconnected"),
    ("ResponseTooManyFailedAttempts", "responseTooManyFailedAttempts"),
    ("BadRequest", "badRequest"),
    ("Unauthorized", "unauthorized"),
    ("SandboxError", "sandboxError"),
    ("InternalServerError", "internalServerError"),
    ("ServerOverloaded", "serverOverloaded"),
    ("CyberPolicy", "cyberPolicy"),
    ("ThreadRollbackFailed", "threadRollbackFailed"),
    ("Other", "other"),
];

const ERRORS_WITH_DETAILS: &[Names] = &[
    ("HttpConnectionFailed", "httpConnectionFailed"),
    ("ResponseStreamConnectionFailed", "responseStreamConnectionFailed"),
    ("ResponseStreamDisconnected", "responseStreamDisconnected"),
    ("ResponseTooManyFailedAttempts", "responseTooManyFailedAttempts"),
    ("ActiveTurnNotSteerable", "activeTurnNotSteerable"),
];

const LOGINS: &[Names] = &[
    ("hosted", "chatgpt"),
    ("hostedDeviceCode", "chatgptDeviceCode"),
    ("hostedAuthTokens", "chatgptAuthTokens"),
];
