// Generated from the protocol's types. Do not edit.

/** The account that is logged in. */
export type Account =
  | {
    type: "apiKey";
  }
  | {
    type: "hosted";
    email: string;
    planType: PlanType;
  }
  | {
    type: "amazonBedrock";
  };

/** Parameters of `account/login/cancel`. */
export interface AccountLoginCancelParams {
  loginId: string;
}

/** Result of `account/login/cancel`. */
export interface AccountLoginCancelResponse {
  status: AccountLoginCancelStatus;
}

/** The outcome of canceling a login. */
export type AccountLoginCancelStatus = "canceled" | "notFound";

/** Payload of `account/login/completed`. */
export interface AccountLoginCompletedNotification {
  loginId: string | null;
  success: boolean;
  error: string | null;
}

/** Parameters of `account/login/start`. */
export type AccountLoginStartParams =
  | {
    type: "apiKey";
    apiKey: string;
  }
  /** Login in a browser. */
  | {
    type: "hosted";
    agentStreamlinedLogin?: boolean;
  }
  /** Login with a code entered on another device. */
  | {
    type: "hostedDeviceCode";
  }
  /** Login with tokens that the client provides. */
  | {
    type: "hostedAuthTokens";
    accessToken: string;
    hostedAccountId: string;
    hostedPlanType?: string | null;
  };

/** Result of `account/login/start`. */
export type AccountLoginStartResponse =
  | {
    type: "apiKey";
  }
  | {
    type: "hosted";
    loginId: string;
    authUrl: string;
  }
  | {
    type: "hostedDeviceCode";
    loginId: string;
    verificationUrl: string;
    userCode: string;
  }
  | {
    type: "hostedAuthTokens";
  };

/** Result of `account/rateLimits/read`. */
export interface AccountRateLimitsReadResponse {
  rateLimits: RateLimitSnapshot;
}

/** Payload of `account/rateLimits/updated`. */
export interface AccountRateLimitsUpdatedNotification {
  rateLimits: RateLimitSnapshot;
}

/** Parameters of `account/read`. */
export interface AccountReadParams {
  refreshToken?: boolean;
}

/** Result of `account/read`. */
export interface AccountReadResponse {
  account: Account | null;
  /** The provider needs a login. */
  requiresDefaultAuth: boolean;
}

/** Parameters of `account/sendAddCreditsNudgeEmail`. */
export interface AccountSendAddCreditsNudgeEmailParams {
  creditType: AddCreditsNudgeCreditType;
}

/** Result of `account/sendAddCreditsNudgeEmail`. */
export interface AccountSendAddCreditsNudgeEmailResponse {
  status: AddCreditsNudgeEmailStatus;
}

/** Payload of `account/updated`. */
export interface AccountUpdatedNotification {
  authMode: AuthMode | null;
  planType: PlanType | null;
}

/** The profile in effect for a thread. */
export interface ActivePermissionProfile {
  id: string;
  /** Profile that this one extends. */
  extends?: string | null;
  modifications?: Array<PermissionProfileModification>;
}

/** The resource that is exhausted. */
export type AddCreditsNudgeCreditType = "credits" | "usage_limit";

/** The outcome of requesting an email. */
export type AddCreditsNudgeEmailStatus = "sent" | "cooldown_active";

/** Additional file-system permissions. */
export interface AdditionalFileSystemPermissions {
  entries?: Array<FileSystemSandboxEntry> | null;
  globScanMaxDepth?: number | null;
  read?: Array<string> | null;
  write?: Array<string> | null;
}

/** Additional network permissions. */
export interface AdditionalNetworkPermissions {
  enabled?: boolean | null;
}

/** Permissions beyond those in effect, requested or granted. */
export interface AdditionalPermissionProfile {
  fileSystem?: AdditionalFileSystemPermissions | null;
  network?: AdditionalNetworkPermissions | null;
}

/** Kind of a turn's error: its name, or an object where there is something to add. */
export type AgentErrorInfo =
  | "ContextWindowExceeded" | "UsageLimitExceeded" | "HttpConnectionFailed" | "ResponseStreamConnectionFailed" | "ResponseStreamDisconnected" | "ResponseTooManyFailedAttempts" | "BadRequest" | "Unauthorized" | "SandboxError" | "InternalServerError" | "ServerOverloaded" | "CyberPolicy" | "ThreadRollbackFailed" | "Other"
  | {
    HttpConnectionFailed: {
      httpStatusCode?: number | null;
    };
  }
  | {
    ResponseStreamConnectionFailed: {
      httpStatusCode?: number | null;
    };
  }
  | {
    ResponseStreamDisconnected: {
      httpStatusCode?: number | null;
    };
  }
  | {
    ResponseTooManyFailedAttempts: {
      httpStatusCode?: number | null;
    };
  }
  | {
    ActiveTurnNotSteerable: {
      turnKind: NonSteerableTurnKind;
    };
  };

/** Payload of `item/agentMessage/delta`. */
export interface AgentMessageDeltaNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
}

/** A message from the model. */
export interface AgentMessageItem {
  id: string;
  text: string;
  phase?: MessagePhase | null;
  memoryCitation?: MemoryCitation | null;
  /**
   * Why the model's response broke off before this was whole. Where the turn went on, the model was asked
   * again, and its next response takes the place of this text.
   */
  reason?: string | null;
}

/** The publisher of an app. */
export interface AppBranding {
  isDiscoverableApp: boolean;
  category?: string | null;
  developer?: string | null;
  website?: string | null;
  privacyPolicy?: string | null;
  termsOfService?: string | null;
}

/** An app. */
export interface AppInfo {
  id: string;
  name: string;
  description?: string | null;
  logoUrl?: string | null;
  logoUrlDark?: string | null;
  distributionChannel?: string | null;
  branding?: AppBranding | null;
  appMetadata?: AppMetadata | null;
  labels?: { [key: string]: string } | null;
  installUrl?: string | null;
  isAccessible: boolean;
  isEnabled: boolean;
  pluginDisplayNames?: Array<string>;
}

/** Parameters of `app/list`. */
export interface AppListParams {
  cursor?: string | null;
  limit?: number | null;
  /**
   * The servers and the configuration of this loaded thread, instead of those of the folder that the
   * server runs in.
   */
  threadId?: string | null;
  /** Requests the tools of the servers again. */
  forceRefetch?: boolean;
}

/** A page of apps. */
export interface AppListResponse {
  data: Array<AppInfo>;
  nextCursor: string | null;
}

/** Payload of `app/list/updated`. */
export interface AppListUpdatedNotification {
  data: Array<AppInfo>;
}

/** The directory's description of an app. */
export interface AppMetadata {
  review?: AppReview | null;
  categories?: Array<string> | null;
  subCategories?: Array<string> | null;
  seoDescription?: string | null;
  screenshots?: Array<AppScreenshot> | null;
  developer?: string | null;
  version?: string | null;
  versionId?: string | null;
  versionNotes?: string | null;
  firstPartyType?: string | null;
  firstPartyRequiresInstall?: boolean | null;
  showInComposerWhenUnlinked?: boolean | null;
}

/** State of an app's review. */
export interface AppReview {
  status: string;
}

/** A screenshot of an app. */
export interface AppScreenshot {
  userPrompt: string;
  url?: string | null;
  fileId?: string | null;
}

/** A summary of an app. */
export interface AppSummary {
  id: string;
  name: string;
  description?: string | null;
  installUrl?: string | null;
  needsAuth: boolean;
}

/** Parameters of `applyPatchApproval`. */
export interface ApplyPatchApprovalParams {
  conversationId: string;
  callId: string;
  /** Changes by path. */
  fileChanges: { [key: string]: LegacyFileChange };
  reason?: string | null;
  grantRoot?: string | null;
}

/** Who decides on approval requests. */
export type ApprovalsReviewer = "user" | "auto_review" | "guardian_subagent";

/** When the agent asks for approval. */
export type AskForApproval =
  /** Asks for everything but commands known to be harmless. */
  | "unlessTrusted"
  /** Deprecated: asks only after a sandboxed command failed. */
  | "onFailure"
  /** The model decides when to ask. */
  | "onRequest"
  /** Never asks. */
  | "never"
  /** Controls each kind of prompt separately. */
  | {
    granular: GranularApproval;
  };

/** The server's way to authenticate. */
export type AuthMode = "apikey" | "hosted" | "hostedAuthTokens" | "agentIdentity";

/** Source of a decision. */
export type AutoReviewDecisionSource = "agent";

/** Byte offsets; the end is exclusive. */
export interface ByteRange {
  start: number;
  end: number;
}

/** The program that embeds the server; `name` appears in compliance logs. */
export interface ClientInfo {
  /** Must be valid in an HTTP header. */
  name: string;
  /** Display name. */
  title?: string | null;
  version: string;
}

/** State of an agent, with its final message or the reason for its failure. */
export interface CollabAgentState {
  status: CollabAgentStatus;
  message?: string | null;
}

/** State of the other agent. */
export type CollabAgentStatus = "pendingInit" | "running" | "interrupted" | "completed" | "errored" | "shutdown" | "notFound";

/** Tool that one agent uses on another. */
export type CollabAgentTool = "spawnAgent" | "sendInput" | "resumeAgent" | "wait" | "closeAgent";

/** A tool call between agents. */
export interface CollabToolCallItem {
  id: string;
  tool: CollabAgentTool;
  status: CollabToolCallStatus;
  senderThreadId: string;
  receiverThreadId?: string | null;
  /** Thread of a spawned agent. */
  newThreadId?: string | null;
  prompt?: string | null;
  /** State of the agent, when the call is about one. */
  agentStatus?: CollabAgentStatus | null;
  /**
   * Threads of the agents that the call is about. While it runs, as the model named them: by id or
   * nickname.
   */
  receiverThreadIds: Array<string>;
  /** State of each of them, by thread id. */
  agentsStates: { [key: string]: CollabAgentState };
  model?: string | null;
  reasoningEffort?: ReasoningEffort | null;
  /** Why it failed; absent if it succeeded. */
  reason?: string | null;
}

/** State of a call between agents. */
export type CollabToolCallStatus = "inProgress" | "completed" | "failed";

/** The mode of a turn. */
export interface CollaborationMode {
  mode: ModeKind;
  settings: CollaborationSettings;
}

/** Result of `collaborationMode/list`. */
export interface CollaborationModeListResponse {
  data: Array<CollaborationModeMask>;
}

/** A preset. */
export interface CollaborationModeMask {
  name: string;
  mode?: ModeKind | null;
  model?: string | null;
  reasoning_effort?: ReasoningEffort | null;
}

/** Settings of a mode. */
export interface CollaborationSettings {
  model: string;
  reasoning_effort?: ReasoningEffort | null;
  /** Null: the mode's built-in instructions. */
  developer_instructions?: string | null;
}

/** An apparent action of a command, for display. */
export type CommandAction =
  | {
    type: "read";
    command: string;
    name: string;
    path: string;
  }
  | {
    type: "listFiles";
    command: string;
    path?: string | null;
  }
  | {
    type: "search";
    command: string;
    query?: string | null;
    path?: string | null;
  }
  | {
    type: "unknown";
    command: string;
  };

/** Payload of `command/exec/outputDelta`. */
export interface CommandExecOutputDeltaNotification {
  processId: string;
  stream: OutputStream;
  deltaBase64: string;
  /** No more output of this stream follows. */
  capReached: boolean;
}

/** Parameters of `command/exec`. */
export interface CommandExecParams {
  /** Program and arguments; must not be empty. */
  command: Array<string>;
  cwd?: string | null;
  /** Variables to set; null unsets one. */
  env?: { [key: string]: string | null } | null;
  sandboxPolicy?: SandboxPolicy | null;
  permissionProfile?: PermissionProfile | null;
  /** The server's default applies when absent. */
  timeoutMs?: number | null;
  disableTimeout?: boolean;
  /** Maximum number of bytes kept of each stream. */
  outputBytesCap?: number | null;
  disableOutputCap?: boolean;
  /** The client's name for the session; required for `tty`, streaming and follow-up calls. */
  processId?: string | null;
  /** Runs on a pseudo-terminal. */
  tty?: boolean;
  /** Size of that terminal. */
  size?: TerminalSize | null;
  /** Accepts input from `command/exec/write`. */
  streamStdin?: boolean;
  /** Sends output as it arrives. */
  streamStdoutStderr?: boolean;
}

/** Parameters of `command/exec/resize`. */
export interface CommandExecResizeParams {
  processId: string;
  size: TerminalSize;
}

/** Result of `command/exec`. */
export interface CommandExecResponse {
  /** 124 after a timeout, -1 if the command was terminated. */
  exitCode: number;
  /** Empty when streamed. */
  stdout: string;
  /** Empty when streamed. */
  stderr: string;
}

/** Parameters of `command/exec/terminate`. */
export interface CommandExecTerminateParams {
  processId: string;
}

/** Parameters of `command/exec/write`. */
export interface CommandExecWriteParams {
  processId: string;
  deltaBase64?: string | null;
  closeStdin?: boolean;
}

/** Decision on a command. */
export type CommandExecutionApprovalDecision =
  | "accept"
  /** Accepts this command, and the same command later in the session. */
  | "acceptForSession"
  /** Accepts, and allows the command prefix from now on. */
  | {
    acceptWithExecpolicyAmendment: {
      execpolicy_amendment: Array<string>;
    };
  }
  /** Applies and stores the host rule. */
  | {
    applyNetworkPolicyAmendment: {
      network_policy_amendment: NetworkPolicyAmendment;
    };
  }
  /** Declines; the turn continues. */
  | "decline"
  /** Declines; the turn ends. */
  | "cancel";

/** A command that was run or awaits approval. */
export interface CommandExecutionItem {
  id: string;
  /** The command as displayed to people. */
  command: string;
  cwd: string;
  processId?: string | null;
  source: CommandExecutionSource;
  status: CommandExecutionStatus;
  /** The apparent actions of the command. */
  commandActions: Array<CommandAction>;
  /** Output of both streams, in order of arrival. */
  aggregatedOutput?: string | null;
  /**
   * Number of bytes of long output that are left out in the middle of `aggregatedOutput`, where
   * a line says so.
   */
  omittedOutputBytes?: number | null;
  exitCode?: number | null;
  durationMs?: number | null;
}

/** Payload of `item/commandExecution/outputDelta`. */
export interface CommandExecutionOutputDeltaNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
}

/** Parameters of `item/commandExecution/requestApproval`. */
export interface CommandExecutionRequestApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  /** Unix time in milliseconds. */
  startedAtMs: number;
  /** Distinguishes several requests for one item. */
  approvalId?: string | null;
  reason?: string | null;
  /** Present when the request concerns the network. */
  networkApprovalContext?: NetworkApprovalContext | null;
  command?: string | null;
  cwd?: string | null;
  commandActions?: Array<CommandAction> | null;
  /** Permissions that the command requests. */
  additionalPermissions?: AdditionalPermissionProfile | null;
  /** Command prefix that the client can allow from now on. */
  proposedExecpolicyAmendment?: Array<string> | null;
  proposedNetworkPolicyAmendments?: Array<NetworkPolicyAmendment> | null;
  availableDecisions?: Array<CommandExecutionApprovalDecision> | null;
}

/** The client's response to `item/commandExecution/requestApproval`. */
export interface CommandExecutionRequestApprovalResponse {
  decision: CommandExecutionApprovalDecision;
}

/** Source of a command. */
export type CommandExecutionSource =
  | "agent"
  /** The user, with `thread/shellCommand`. */
  | "userShell"
  /** The agent, when it starts an interactive session. */
  | "unifiedExecStartup"
  /** The agent, when it types into one. */
  | "unifiedExecInteraction";

/** State of a command. */
export type CommandExecutionStatus = "inProgress" | "completed" | "failed" | "declined";

/** Parameters of `config/batchWrite`. */
export interface ConfigBatchWriteParams {
  edits: Array<ConfigEdit>;
  filePath?: string | null;
  expectedVersion?: string | null;
  /** Applies the new values to loaded threads. */
  reloadUserConfig?: boolean;
}

/** One edit. */
export interface ConfigEdit {
  keyPath: string;
  value: unknown;
  mergeStrategy: MergeStrategy;
}

/** One source of configuration. */
export interface ConfigLayer {
  name: ConfigLayerSource;
  /** Changes whenever the content does. */
  version: string;
  config: unknown;
  disabledReason?: string | null;
}

/** A layer and its version. */
export interface ConfigLayerMetadata {
  name: ConfigLayerSource;
  version: string;
  /**
   * Why the written value has no effect: the program does not contain the part that it
   * configures. A feature disabled for that reason is shown as `false`.
   */
  heldOff?: string | null;
}

/** Where a layer comes from. */
export type ConfigLayerSource =
  /** Mobile device management. */
  | {
    type: "mdm";
    domain: string;
    key: string;
  }
  | {
    type: "system";
    file: string;
  }
  | {
    type: "user";
    file: string;
  }
  | {
    type: "project";
    dotAgentFolder: string;
  }
  /** Flags and overrides of this process. */
  | {
    type: "sessionFlags";
  }
  | {
    type: "legacyManagedConfigTomlFromFile";
    file: string;
  }
  | {
    type: "legacyManagedConfigTomlFromMdm";
  }
  /** Not set in any layer; only with `includeDefaults`. Its version is the program's. */
  | {
    type: "default";
  };

/** Why the written value is not effective. */
export interface ConfigOverriddenMetadata {
  message: string;
  overridingLayer: ConfigLayerMetadata;
  effectiveValue: unknown;
}

/** Parameters of `config/read`. */
export interface ConfigReadParams {
  /** Adds the project layers that apply to this folder. */
  cwd?: string | null;
  includeLayers?: boolean;
  /**
   * Adds the defaults of unset keys: `config` is then the effective configuration, with absolute
   * paths.
   */
  includeDefaults?: boolean;
}

/** Result of `config/read`. */
export interface ConfigReadResponse {
  /** Keys and values as in the configuration file. */
  config: { [key: string]: unknown };
  /** Layer of each value, by dotted key. */
  origins: { [key: string]: ConfigLayerMetadata };
  /** Layers, highest priority first. */
  layers?: Array<ConfigLayer> | null;
}

/** Limits on the configuration; an absent member is unconstrained. */
export interface ConfigRequirements {
  allowedApprovalPolicies?: Array<AskForApproval> | null;
  allowedApprovalsReviewers?: Array<ApprovalsReviewer> | null;
  allowedSandboxModes?: Array<SandboxMode> | null;
  allowedWebSearchModes?: Array<WebSearchMode> | null;
  enforceResidency?: ResidencyRequirement | null;
  /** Required state, by feature name. */
  featureRequirements?: { [key: string]: boolean } | null;
  hooks?: ManagedHooksRequirements | null;
  network?: NetworkRequirements | null;
}

/** Result of `configRequirements/read`. */
export interface ConfigRequirementsReadResponse {
  requirements: ConfigRequirements | null;
}

/** Parameters of `config/value/write`. */
export interface ConfigValueWriteParams {
  /** Dotted key. */
  keyPath: string;
  /** Null removes the key. */
  value: unknown;
  mergeStrategy: MergeStrategy;
  /** The user's file when absent. */
  filePath?: string | null;
  /** The write is refused if the file has another version. */
  expectedVersion?: string | null;
}

/** Payload of `configWarning`. */
export interface ConfigWarningNotification {
  summary: string;
  details?: string | null;
  /** File that the warning concerns. */
  path?: string | null;
  /** Position in that file. */
  range?: TextRange | null;
}

/** Result of a write. */
export interface ConfigWriteResponse {
  status: ConfigWriteStatus;
  /** New version of the file. */
  version: string;
  filePath: string;
  overriddenMetadata: ConfigOverriddenMetadata | null;
}

/** The effect of the written value. */
export type ConfigWriteStatus = "ok" | "okOverridden";

/** Handler of a hook. */
export type ConfiguredHookHandler =
  | {
    type: "command";
    command: string;
    async: boolean;
    statusMessage?: string | null;
    timeoutSec?: number | null;
  }
  | {
    type: "prompt";
  }
  | {
    type: "agent";
  };

/** Hooks with the same matcher. */
export interface ConfiguredHookMatcherGroup {
  matcher?: string | null;
  hooks: Array<ConfiguredHookHandler>;
}

/** Content of a message. */
export type ContentItem =
  | {
    type: "input_text";
    text: string;
  }
  | {
    type: "input_image";
    image_url: string;
    detail?: ImageDetail | null;
  }
  | {
    type: "output_text";
    text: string;
  };

/** A compaction of the history. With `reason`, the history was not replaced. */
export interface ContextCompactionItem {
  id: string;
  /** Why the history was not replaced; absent if the compaction succeeded. */
  reason?: string | null;
}

/** Credits of an account. */
export interface CreditsSnapshot {
  hasCredits: boolean;
  unlimited: boolean;
  balance?: string | null;
}

/** Payload of `deprecationNotice`. */
export interface DeprecationNoticeNotification {
  summary: string;
  details?: string | null;
}

/** A call of a tool that the client runs. */
export interface DynamicToolCallItem {
  id: string;
  namespace?: string | null;
  tool: string;
  arguments: unknown;
  status: DynamicToolCallStatus;
  contentItems?: Array<DynamicToolCallOutputContentItem> | null;
  success?: boolean | null;
  durationMs?: number | null;
}

/** Output of a dynamic tool. */
export type DynamicToolCallOutputContentItem =
  | {
    type: "inputText";
    text: string;
  }
  | {
    type: "inputImage";
    imageUrl: string;
  };

/** Parameters of `item/tool/call`. */
export interface DynamicToolCallParams {
  threadId: string;
  turnId: string;
  callId: string;
  namespace?: string | null;
  tool: string;
  arguments: unknown;
}

/** The client's response to `item/tool/call`. */
export interface DynamicToolCallResponse {
  contentItems: Array<DynamicToolCallOutputContentItem>;
  success: boolean;
}

/** State of a dynamic tool call. */
export type DynamicToolCallStatus = "inProgress" | "completed" | "failed";

/** A tool that the client runs. */
export interface DynamicToolSpec {
  namespace?: string | null;
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  inputSchema: unknown;
  /** Offers the tool to the model only in search results. */
  deferLoading?: boolean;
}

/** An object without members, for methods without parameters or result. */
export type Empty = Record<string, never>;

/** Payload of `error`. */
export interface ErrorNotification {
  error: TurnError;
  willRetry: boolean;
  /** The attempt that follows, with `willRetry`. */
  retry?: ErrorRetry | null;
  threadId: string;
  turnId: string;
}

/** The attempt that follows a failed request to the model. */
export interface ErrorRetry {
  /** Number of the attempt, from 1. */
  attempt: number;
  maxAttempts: number;
  /** Milliseconds until it begins, at most. */
  waitMs: number;
}

/** The way in which a client that reconnects receives the events that it missed. */
export type EventReplay =
  /** All missed events follow as notifications, with the deltas of a stream merged into one. */
  | {
    type: "replayed";
    /** Number of notifications, including methods that the client opted out of. */
    events: number;
    /**
     * Ids of the server's requests that are sent again after them. Every other request that
     * the client has open is resolved.
     */
    openRequestIds: Array<number>;
  }
  /** The missed events are no longer available: `thread.turns` contains the current state. */
  | {
    type: "snapshot";
    /** Why they are not available. */
    reason: SnapshotReason;
    /**
     * `thread.turns` replaces this turn and all later ones; `null`: all turns that the client
     * knows.
     */
    fromTurnId: string | null;
    /**
     * True if `thread.turns` contains all turns from there on. If not, it contains the newest
     * turns; read the others with `thread/turns/list`.
     */
    isComplete: boolean;
    /**
     * Ids of the server's requests that are sent again after the response. Every other request
     * that the client has open is resolved.
     */
    openRequestIds: Array<number>;
  };

/** Parameters of `execCommandApproval`. */
export interface ExecCommandApprovalParams {
  conversationId: string;
  callId: string;
  approvalId?: string | null;
  command: Array<string>;
  cwd: string;
  reason?: string | null;
  parsedCmd: Array<ParsedCommand>;
}

/** A feature that can be enabled or disabled. */
export interface ExperimentalFeature {
  name: string;
  stage: ExperimentalFeatureStage;
  displayName: string | null;
  description: string | null;
  announcement: string | null;
  enabled: boolean;
  defaultEnabled: boolean;
}

/** Parameters of `experimentalFeature/enablement/set`. */
export interface ExperimentalFeatureEnablementSetParams {
  /** By feature name. */
  enablement: { [key: string]: boolean };
}

/** Result of `experimentalFeature/enablement/set`. */
export interface ExperimentalFeatureEnablementSetResponse {
  /** The new state, by feature name. */
  enablement: { [key: string]: boolean };
}

/** Parameters of `experimentalFeature/list`. */
export interface ExperimentalFeatureListParams {
  cursor?: string | null;
  limit?: number | null;
}

/** A page of features. */
export interface ExperimentalFeatureListResponse {
  data: Array<ExperimentalFeature>;
  nextCursor: string | null;
}

/** The maturity of a feature. */
export type ExperimentalFeatureStage = "beta" | "underDevelopment" | "stable" | "deprecated" | "removed";

/** Parameters of `externalAgentConfig/detect`. */
export interface ExternalAgentConfigDetectParams {
  /** Projects to search. */
  cwds?: Array<string> | null;
  includeHome?: boolean;
}

/** Result of `externalAgentConfig/detect`. */
export interface ExternalAgentConfigDetectResponse {
  items: Array<ExternalAgentConfigMigrationItem>;
}

/** Parameters of `externalAgentConfig/import`. */
export interface ExternalAgentConfigImportParams {
  migrationItems: Array<ExternalAgentConfigMigrationItem>;
}

/** An item to import. */
export interface ExternalAgentConfigMigrationItem {
  itemType: ExternalAgentConfigMigrationItemType;
  description: string;
  /** The project's folder; absent for the home folder. */
  cwd?: string | null;
  details?: MigrationDetails | null;
}

/** Kind of item to import. */
export type ExternalAgentConfigMigrationItemType = "AGENTS_MD" | "CONFIG" | "SKILLS" | "PLUGINS" | "MCP_SERVER_CONFIG" | "SUBAGENTS" | "HOOKS" | "COMMANDS" | "SESSIONS";

/** Parameters of `feedback/upload`. */
export interface FeedbackUploadParams {
  classification: string;
  reason?: string | null;
  threadId?: string | null;
  includeLogs: boolean;
  extraLogFiles?: Array<string> | null;
  tags?: { [key: string]: string } | null;
  /** Write nothing, and answer with what the report would hold. */
  dryRun?: boolean;
}

/** Result of `feedback/upload`. */
export interface FeedbackUploadResponse {
  /** Id to quote in further communication: that of the thread, or of the report. */
  threadId: string;
  /** The file that was written. */
  path?: string | null;
  /** With `dryRun`: what would be written. */
  report?: unknown;
}

/** Decision on a patch. */
export type FileChangeApprovalDecision =
  | "accept"
  /** Accepts this change, and changes of the same files later in the session. */
  | "acceptForSession"
  /** Declines; the turn continues. */
  | "decline"
  /** Declines; the turn ends. */
  | "cancel";

/** A patch to files. */
export interface FileChangeItem {
  id: string;
  changes: Array<FileUpdateChange>;
  status: PatchApplyStatus;
  /** Why it failed or was declined, unless the user declined it. */
  reason?: string | null;
}

/** Payload of `item/fileChange/outputDelta`. */
export interface FileChangeOutputDeltaNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
}

/**
 * Payload of `item/fileChange/patchUpdated`: all changes that have come so far. The lines of a
 * changed file are those of the patch; the last of these notifications has the changes of the item.
 */
export interface FileChangePatchUpdatedNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  changes: Array<FileUpdateChange>;
}

/** Parameters of `item/fileChange/requestApproval`. */
export interface FileChangeRequestApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  /** Unix time in milliseconds. */
  startedAtMs: number;
  reason?: string | null;
  /** Folder that would become writable for the session. */
  grantRoot?: string | null;
}

/** The client's response to `item/fileChange/requestApproval`. */
export interface FileChangeRequestApprovalResponse {
  decision: FileChangeApprovalDecision;
}

/** Access to a location. */
export type FileSystemAccessMode = "read" | "write" | "none";

/** A location in the file system. */
export type FileSystemPath =
  | {
    type: "path";
    path: string;
  }
  | {
    type: "glob_pattern";
    pattern: string;
  }
  | {
    type: "special";
    value: FileSystemSpecialPath;
  };

/** File-system part of a profile. */
export type FileSystemPermissions =
  /** Only the access in the entries. */
  | {
    type: "restricted";
    entries: Array<FileSystemSandboxEntry>;
    globScanMaxDepth?: number | null;
  }
  /** Full access. */
  | {
    type: "unrestricted";
  };

/** One rule: a location and the access to it. */
export interface FileSystemSandboxEntry {
  path: FileSystemPath;
  access: FileSystemAccessMode;
}

/** A location that depends on the machine or the project. */
export type FileSystemSpecialPath =
  /** The whole file system. */
  | {
    kind: "root";
  }
  /** The files that a program needs to start. */
  | {
    kind: "minimal";
  }
  /** The detected project roots. */
  | {
    kind: "project_roots";
    subpath?: string | null;
  }
  /** The folder named by `TMPDIR`. */
  | {
    kind: "tmpdir";
  }
  /** `/tmp`. */
  | {
    kind: "slash_tmp";
  }
  /** A location defined by a newer version. */
  | {
    kind: "unknown";
    path: string;
    subpath?: string | null;
  };

/** The change to one file. */
export interface FileUpdateChange {
  path: string;
  kind: PatchChangeKind;
  /** Unified diff; the whole content of an added file. */
  diff: string;
}

/** Payload of `fs/changed`. */
export interface FsChangedNotification {
  watchId: string;
  /**
   * The paths that were created, changed, replaced, renamed or removed, in order, as `fs/watch`
   * wrote them; bytes of a name that are not UTF-8 are replaced by U+FFFD. Of a folder, whatever
   * is not in it now is gone, and what is new in it is named too.
   */
  changedPaths: Array<string>;
  /** Too much changed to be named: anything at or below the watched path, which `changedPaths` holds then. */
  overflow?: boolean;
}

/** Parameters of `fs/copy`. */
export interface FsCopyParams {
  sourcePath: string;
  destinationPath: string;
  /** Required to copy a folder. */
  recursive?: boolean;
}

/** Parameters of `fs/createDirectory`. */
export interface FsCreateDirectoryParams {
  path: string;
  /** Defaults to `true`. */
  recursive?: boolean | null;
}

/** Parameters of `fs/getMetadata`. */
export interface FsGetMetadataParams {
  path: string;
}

/** Result of `fs/getMetadata`; times in Unix milliseconds. */
export interface FsGetMetadataResponse {
  isFile: boolean;
  isDirectory: boolean;
  isSymlink: boolean;
  /** 0 where the file system does not record it. */
  createdAtMs: number;
  modifiedAtMs: number;
}

/** An entry of a folder. */
export interface FsReadDirectoryEntry {
  fileName: string;
  isFile: boolean;
  isDirectory: boolean;
}

/** Parameters of `fs/readDirectory`. */
export interface FsReadDirectoryParams {
  path: string;
}

/** Result of `fs/readDirectory`. */
export interface FsReadDirectoryResponse {
  entries: Array<FsReadDirectoryEntry>;
}

/** Parameters of `fs/readFile`. */
export interface FsReadFileParams {
  path: string;
}

/** Result of `fs/readFile`. */
export interface FsReadFileResponse {
  dataBase64: string;
}

/** Parameters of `fs/remove`. */
export interface FsRemoveParams {
  path: string;
  /** Defaults to `true`. */
  recursive?: boolean | null;
  /** Defaults to `true`: a missing path is not an error. */
  force?: boolean | null;
}

/** Parameters of `fs/unwatch`. */
export interface FsUnwatchParams {
  watchId: string;
}

/** Parameters of `fs/watch`. */
export interface FsWatchParams {
  /** The client's name for the watch, of at most 1,024 bytes; must not be in use in this connection. */
  watchId: string;
  path: string;
  /** Reports what changes at any depth below a folder; otherwise, the folder and its own entries. */
  recursive?: boolean;
}

/** Result of `fs/watch`. */
export interface FsWatchResponse {
  /** The path under watch. */
  path: string;
}

/** Parameters of `fs/writeFile`. */
export interface FsWriteFileParams {
  path: string;
  dataBase64: string;
}

/** Output of a tool, as text or in parts. */
export type FunctionCallOutputBody =
  | string
  | Array<FunctionCallOutputContentItem>;

/** A part of a tool's output. */
export type FunctionCallOutputContentItem =
  | {
    type: "input_text";
    text: string;
  }
  | {
    type: "input_image";
    image_url: string;
    detail?: ImageDetail | null;
  };

/** Kind of a match. */
export type FuzzyFileSearchMatchType = "file" | "directory";

/** Parameters of `fuzzyFileSearch`. */
export interface FuzzyFileSearchParams {
  /** Words that a path must contain, each as letters in order; one with a capital minds case. */
  query: string;
  /** Absolute paths of folders, 16 at most. */
  roots: Array<string>;
  /** A later search of this connection with the same token cancels this one. */
  cancellationToken?: string | null;
}

/** Result of `fuzzyFileSearch`. */
export interface FuzzyFileSearchResponse {
  files: Array<FuzzyFileSearchResult>;
}

/** A match; results are sorted best first. */
export interface FuzzyFileSearchResult {
  /** As the request names it. */
  root: string;
  /** Relative to `root`; what is not UTF-8 in it is replaced by U+FFFD. */
  path: string;
  match_type: FuzzyFileSearchMatchType;
  file_name: string;
  /** The score of the match; more is better. */
  score: number;
  /** Indices of the characters of `path` that matched. */
  indices?: Array<number> | null;
}

/** Payload of `fuzzyFileSearch/sessionCompleted`. */
export interface FuzzyFileSearchSessionCompletedNotification {
  sessionId: string;
}

/** Parameters of `fuzzyFileSearch/sessionStart`. */
export interface FuzzyFileSearchSessionStartParams {
  /** Chosen by the client, unique within its connection. */
  sessionId: string;
  /** Absolute paths of folders, 16 at most. */
  roots: Array<string>;
}

/** Parameters of `fuzzyFileSearch/sessionStop`. */
export interface FuzzyFileSearchSessionStopParams {
  sessionId: string;
}

/** Parameters of `fuzzyFileSearch/sessionUpdate`. */
export interface FuzzyFileSearchSessionUpdateParams {
  sessionId: string;
  query: string;
}

/** Payload of `fuzzyFileSearch/sessionUpdated`. */
export interface FuzzyFileSearchSessionUpdatedNotification {
  sessionId: string;
  query: string;
  files: Array<FuzzyFileSearchResult>;
}

/** State of the repository when the thread was last used. */
export interface GitInfo {
  sha: string | null;
  branch: string | null;
  originUrl: string | null;
}

/** Which kinds of prompt are shown; the others are refused without asking. */
export interface GranularApproval {
  /** Escalations out of the sandbox. */
  sandbox_approval: boolean;
  /** Prompts raised by command rules. */
  rules: boolean;
  /** Elicitations of MCP servers. */
  mcp_elicitations: boolean;
  /** Prompts of the `request_permissions` tool. */
  request_permissions?: boolean;
  /** Prompts of skill scripts. */
  skill_approval?: boolean;
}

/** The reviewer's findings. */
export interface GuardianApprovalReview {
  status: GuardianApprovalReviewStatus;
  riskLevel?: GuardianRiskLevel | null;
  userAuthorization?: GuardianUserAuthorization | null;
  rationale?: string | null;
}

/** The action under review. */
export type GuardianApprovalReviewAction =
  | {
    type: "command";
    source: GuardianCommandSource;
    command: string;
    cwd: string;
  }
  | {
    type: "execve";
    source: GuardianCommandSource;
    program: string;
    argv: Array<string>;
    cwd: string;
  }
  | {
    type: "applyPatch";
    cwd: string;
    files: Array<string>;
  }
  | {
    type: "networkAccess";
    target: string;
    host: string;
    protocol: NetworkApprovalProtocol;
    port: number;
  }
  | {
    type: "mcpToolCall";
    server: string;
    toolName: string;
    connectorId?: string | null;
    connectorName?: string | null;
    toolTitle?: string | null;
  }
  | {
    type: "requestPermissions";
    reason?: string | null;
    permissions: AdditionalPermissionProfile;
  };

/** State of a review. */
export type GuardianApprovalReviewStatus = "inProgress" | "approved" | "denied" | "timedOut" | "aborted";

/** The way in which a command was to be started. */
export type GuardianCommandSource = "shell" | "unifiedExec";

/** The risk of an action. */
export type GuardianRiskLevel = "low" | "medium" | "high" | "critical";

/** The clarity of the user's authorization of the action. */
export type GuardianUserAuthorization = "unknown" | "low" | "medium" | "high";

/** Payload of `guardianWarning`. */
export interface GuardianWarningNotification {
  threadId: string;
  message: string;
}

/** A hook that could not be loaded. */
export interface HookErrorInfo {
  path: string;
  message: string;
}

/** When a hook runs. */
export type HookEventName = "preToolUse" | "permissionRequest" | "postToolUse" | "preCompact" | "postCompact" | "sessionStart" | "userPromptSubmit" | "stop" | "preModelRequest" | "postModelRequest" | "sessionEnd" | "subagentStart" | "subagentStop" | "interrupt";

/** The waiting of the turn for a hook. */
export type HookExecutionMode = "sync" | "async";

/** Type of a hook's handler. */
export type HookHandlerType = "command" | "prompt" | "agent" | "mcpTool";

/** A configured hook. */
export interface HookMetadata {
  key: string;
  eventName: HookEventName;
  handlerType: HookHandlerType;
  matcher?: string | null;
  command?: string | null;
  /** The prompt for the model. */
  prompt?: string | null;
  /** The model that is asked, when it is not the thread's. */
  model?: string | null;
  /** The MCP server of a tool. */
  server?: string | null;
  /** The tool that is called. */
  tool?: string | null;
  /** Its arguments. */
  arguments?: unknown;
  /** True if nothing waits for the hook. */
  async?: boolean;
  timeoutSec: number;
  statusMessage?: string | null;
  source: HookSource;
  sourcePath: string;
  pluginId?: string | null;
  displayOrder: number;
  enabled: boolean;
  isManaged: boolean;
  currentHash: string;
  trustStatus: HookTrustStatus;
}

/** Output of a hook. */
export interface HookOutputEntry {
  kind: HookOutputEntryKind;
  text: string;
}

/** Purpose of the text. */
export type HookOutputEntryKind = "warning" | "stop" | "feedback" | "context" | "error";

/** Text from one hook. */
export interface HookPromptFragment {
  hookRunId: string;
  text: string;
}

/** Text that hooks added to the conversation. */
export interface HookPromptItem {
  id: string;
  fragments: Array<HookPromptFragment>;
}

/** Payload of `hook/started` and `hook/completed`. */
export interface HookRunNotification {
  threadId: string;
  turnId: string | null;
  run: HookRunSummary;
}

/** State of a run. */
export type HookRunStatus = "running" | "completed" | "failed" | "blocked" | "stopped";

/** One run of a hook. */
export interface HookRunSummary {
  id: string;
  eventName: HookEventName;
  handlerType: HookHandlerType;
  executionMode: HookExecutionMode;
  scope: HookScope;
  source: HookSource;
  sourcePath: string;
  displayOrder: number;
  status: HookRunStatus;
  statusMessage?: string | null;
  /** Unix time in seconds. */
  startedAt: number;
  /** Unix time in seconds. */
  completedAt?: number | null;
  durationMs?: number | null;
  entries: Array<HookOutputEntry>;
}

/** Scope of a hook. */
export type HookScope = "thread" | "turn";

/** Where a hook is configured. */
export type HookSource = "system" | "user" | "project" | "mdm" | "sessionFlags" | "plugin" | "cloudRequirements" | "legacyManagedConfigFile" | "legacyManagedConfigMdm" | "unknown";

/** The user's trust in a hook. */
export type HookTrustStatus = "managed" | "untrusted" | "trusted" | "modified";

/** Hooks of one folder. */
export interface HooksListEntry {
  cwd: string;
  /** True if hooks are on. While they are off, only those of the administrator run. */
  hooksEnabled: boolean;
  hooks: Array<HookMetadata>;
  warnings: Array<string>;
  errors: Array<HookErrorInfo>;
}

/** Parameters of `hooks/list`. */
export interface HooksListParams {
  /** The server's working folder when empty. */
  cwds?: Array<string>;
}

/** Result of `hooks/list`. */
export interface HooksListResponse {
  data: Array<HooksListEntry>;
}

/** Parameters of `account/hostedAuthTokens/refresh`. */
export interface HostedAuthTokensRefreshParams {
  reason: HostedAuthTokensRefreshReason;
  previousAccountId?: string | null;
}

/** Why fresh tokens are needed. */
export type HostedAuthTokensRefreshReason = "unauthorized";

/** The client's response to `account/hostedAuthTokens/refresh`. */
export interface HostedAuthTokensRefreshResponse {
  accessToken: string;
  hostedAccountId: string;
  hostedPlanType?: string | null;
}

/** Resolution at which the model sees an image. */
export type ImageDetail = "auto" | "low" | "high" | "original";

/** An image that the model generated. */
export interface ImageGenerationItem {
  id: string;
  status: string;
  revisedPrompt?: string | null;
  /** The image in base64. */
  result: string;
  savedPath?: string | null;
  /** Why there is no image; absent if it succeeded. */
  reason?: string | null;
}

/** An image that the agent viewed. */
export interface ImageViewItem {
  id: string;
  path: string;
  /** Why it could not be viewed; absent if it succeeded. */
  reason?: string | null;
}

/** Capabilities that the client requests for its connection. */
export interface InitializeCapabilities {
  /** Enables experimental methods and fields. */
  experimentalApi?: boolean;
  /**
   * Notifications about a thread carry `eventCursor` next to `method` and `params`: their
   * position, from which `thread/resume` can continue. Experimental.
   */
  eventCursor?: boolean;
  /** `thread/tokenUsage/updated` has `cost`: what the tokens cost. Experimental. */
  tokenCost?: boolean;
  /** Exact method names of notifications to suppress; unknown names are ignored. */
  optOutNotificationMethods?: Array<string> | null;
}

/** Parameters of `initialize`. */
export interface InitializeParams {
  clientInfo: ClientInfo;
  capabilities?: InitializeCapabilities | null;
}

/** Result of `initialize`. */
export interface InitializeResponse {
  /** The user agent that the server sends to model providers. */
  userAgent: string;
  /** Folder of the configuration and the stored threads. */
  agentHome: string;
  /** `unix` or `windows`. */
  platformFamily: string;
  /** For example `linux` or `macos`. */
  platformOs: string;
}

/** Kind of input. */
export type InputModality = "text" | "image";

/** Payload of `item/autoApprovalReview/completed`. */
export interface ItemAutoApprovalReviewCompletedNotification {
  threadId: string;
  turnId: string;
  reviewId: string;
  targetItemId: string | null;
  /** Unix time in milliseconds. */
  startedAtMs: number;
  /** Unix time in milliseconds. */
  completedAtMs: number;
  decisionSource: AutoReviewDecisionSource;
  review: GuardianApprovalReview;
  action: GuardianApprovalReviewAction;
}

/** Payload of `item/autoApprovalReview/started`. */
export interface ItemAutoApprovalReviewStartedNotification {
  threadId: string;
  turnId: string;
  reviewId: string;
  targetItemId: string | null;
  /** Unix time in milliseconds. */
  startedAtMs: number;
  review: GuardianApprovalReview;
  action: GuardianApprovalReviewAction;
}

/** Payload of `item/completed`. */
export interface ItemCompletedNotification {
  threadId: string;
  turnId: string;
  /** Unix time in milliseconds. */
  completedAtMs: number;
  item: ThreadItem;
}

/** Payload of `item/started`. */
export interface ItemStartedNotification {
  threadId: string;
  turnId: string;
  /** Unix time in milliseconds. */
  startedAtMs: number;
  item: ThreadItem;
}

/** The client's response. */
export interface LegacyApprovalResponse {
  decision: ReviewDecision;
}

/** The change to one file. */
export type LegacyFileChange =
  | {
    type: "add";
    content: string;
  }
  | {
    type: "delete";
    content: string;
  }
  | {
    type: "update";
    unified_diff: string;
    move_path?: string | null;
  };

/** Action of a shell call. */
export type LocalShellAction =
  | {
    type: "exec";
    command: Array<string>;
    env?: { [key: string]: string } | null;
    timeout_ms?: number | null;
    user?: string | null;
    working_directory?: string | null;
  };

/** State of a shell call. */
export type LocalShellStatus = "completed" | "in_progress" | "incomplete";

/** Hooks that the administrator installs, by event. */
export interface ManagedHooksRequirements {
  managedDir?: string | null;
  windowsManagedDir?: string | null;
  PreToolUse: Array<ConfiguredHookMatcherGroup>;
  PermissionRequest: Array<ConfiguredHookMatcherGroup>;
  PostToolUse: Array<ConfiguredHookMatcherGroup>;
  PreCompact: Array<ConfiguredHookMatcherGroup>;
  PostCompact: Array<ConfiguredHookMatcherGroup>;
  SessionStart: Array<ConfiguredHookMatcherGroup>;
  UserPromptSubmit: Array<ConfiguredHookMatcherGroup>;
  Stop: Array<ConfiguredHookMatcherGroup>;
}

/** Parameters of `marketplace/add`. */
export interface MarketplaceAddParams {
  /** Folder, repository URL or `owner/name`. */
  source: string;
  /** Branch, tag or commit. */
  refName?: string | null;
  /** Folders to check out; all when absent. */
  sparsePaths?: Array<string> | null;
}

/** Result of `marketplace/add`. */
export interface MarketplaceAddResponse {
  marketplaceName: string;
  installedRoot: string;
  alreadyAdded: boolean;
}

/** Display information of a marketplace. */
export interface MarketplaceInterface {
  displayName?: string | null;
}

/** A marketplace that could not be loaded. */
export interface MarketplaceLoadErrorInfo {
  marketplacePath: string;
  message: string;
}

/** Parameters of `marketplace/remove`. */
export interface MarketplaceRemoveParams {
  marketplaceName: string;
}

/** Result of `marketplace/remove`. */
export interface MarketplaceRemoveResponse {
  marketplaceName: string;
  installedRoot?: string | null;
  /** The plugins from it that stay installed, and in use. */
  installedPluginIds: Array<string>;
}

/** A marketplace that could not be upgraded. */
export interface MarketplaceUpgradeErrorInfo {
  marketplaceName: string;
  message: string;
}

/** Parameters of `marketplace/upgrade`. */
export interface MarketplaceUpgradeParams {
  /** The marketplace to update; all when absent. */
  marketplaceName?: string | null;
}

/** Result of `marketplace/upgrade`. */
export interface MarketplaceUpgradeResponse {
  selectedMarketplaces: Array<string>;
  upgradedRoots: Array<string>;
  errors: Array<MarketplaceUpgradeErrorInfo>;
}

/** The authentication of a server. */
export type McpAuthStatus = "unsupported" | "notLoggedIn" | "bearerToken" | "oAuth";

/** Content as base64. */
export interface McpBlobResourceContent {
  uri: string;
  mimeType?: string | null;
  blob: string;
  _meta?: unknown;
}

/** Discriminator of an array. */
export type McpElicitationArrayType = "array";

/** A boolean field. */
export interface McpElicitationBooleanSchema {
  type: McpElicitationBooleanType;
  title?: string | null;
  description?: string | null;
  default?: boolean | null;
}

/** Discriminator of a boolean. */
export type McpElicitationBooleanType = "boolean";

/** A value and its title. */
export interface McpElicitationConstOption {
  const: string;
  title: string;
}

/** A field with fixed choices. */
export type McpElicitationEnumSchema =
  | McpElicitationMultiSelectEnumSchema
  | McpElicitationSingleSelectEnumSchema;

/** A multiple choice. */
export type McpElicitationMultiSelectEnumSchema =
  | McpElicitationUntitledMultiSelectEnumSchema
  | McpElicitationTitledMultiSelectEnumSchema;

/** A number field. */
export interface McpElicitationNumberSchema {
  type: McpElicitationNumberType;
  minimum?: number | null;
  maximum?: number | null;
  title?: string | null;
  description?: string | null;
  default?: number | null;
}

/** Discriminator of a number. */
export type McpElicitationNumberType = "number" | "integer";

/** Discriminator of an object. */
export type McpElicitationObjectType = "object";

/** A field of a form. */
export type McpElicitationPrimitiveSchema =
  | McpElicitationEnumSchema
  | McpElicitationStringSchema
  | McpElicitationNumberSchema
  | McpElicitationBooleanSchema;

/** A flat form: an object of primitive fields. */
export interface McpElicitationSchema {
  $schema?: string | null;
  type: McpElicitationObjectType;
  properties: { [key: string]: McpElicitationPrimitiveSchema };
  required?: Array<string> | null;
}

/** A single choice. */
export type McpElicitationSingleSelectEnumSchema =
  | McpElicitationTitledSingleSelectEnumSchema
  | McpElicitationUntitledSingleSelectEnumSchema;

/** Format of a text field. */
export type McpElicitationStringFormat = "email" | "uri" | "date" | "date-time";

/** A text field. */
export interface McpElicitationStringSchema {
  type: McpElicitationStringType;
  format?: McpElicitationStringFormat | null;
  minLength?: number | null;
  maxLength?: number | null;
  title?: string | null;
  description?: string | null;
  default?: string | null;
}

/** Discriminator of a string. */
export type McpElicitationStringType = "string";

/** The available titled values. */
export interface McpElicitationTitledEnumItems {
  anyOf: Array<McpElicitationConstOption>;
}

/** A multiple choice of titled values. */
export interface McpElicitationTitledMultiSelectEnumSchema {
  type: McpElicitationArrayType;
  items: McpElicitationTitledEnumItems;
  minItems?: number | null;
  maxItems?: number | null;
  title?: string | null;
  description?: string | null;
  default?: Array<string> | null;
}

/** A single choice of titled values. */
export interface McpElicitationTitledSingleSelectEnumSchema {
  type: McpElicitationStringType;
  oneOf: Array<McpElicitationConstOption>;
  title?: string | null;
  description?: string | null;
  default?: string | null;
}

/** The available values. */
export interface McpElicitationUntitledEnumItems {
  type: McpElicitationStringType;
  enum: Array<string>;
}

/** A multiple choice of values. */
export interface McpElicitationUntitledMultiSelectEnumSchema {
  type: McpElicitationArrayType;
  items: McpElicitationUntitledEnumItems;
  minItems?: number | null;
  maxItems?: number | null;
  title?: string | null;
  description?: string | null;
  default?: Array<string> | null;
}

/** A single choice of values, with separate titles, in the older form. */
export interface McpElicitationUntitledSingleSelectEnumSchema {
  type: McpElicitationStringType;
  enum: Array<string>;
  enumNames?: Array<string> | null;
  title?: string | null;
  description?: string | null;
  default?: string | null;
}

/** A prompt of a server. */
export interface McpPrompt {
  name: string;
  title?: string | null;
  description?: string | null;
  arguments: Array<McpPromptArgument>;
  icons?: Array<unknown> | null;
  _meta?: unknown;
}

/** An argument of a prompt. */
export interface McpPromptArgument {
  name: string;
  title?: string | null;
  description?: string | null;
  required: boolean;
}

/** A message of an expanded prompt. */
export interface McpPromptMessage {
  /** `user` or `assistant`. */
  role: string;
  /** A content block, as in the results of tools. */
  content: unknown;
}

/** A resource of a server. */
export interface McpResource {
  name: string;
  uri: string;
  title?: string | null;
  description?: string | null;
  mimeType?: string | null;
  size?: number | null;
  annotations?: unknown;
  icons?: Array<unknown> | null;
  _meta?: unknown;
}

/** Content of a resource. */
export type McpResourceContent =
  | McpTextResourceContent
  | McpBlobResourceContent;

/** A template of resource URIs. */
export interface McpResourceTemplate {
  name: string;
  uriTemplate: string;
  title?: string | null;
  description?: string | null;
  mimeType?: string | null;
  annotations?: unknown;
}

/** The user's action. */
export type McpServerElicitationAction = "accept" | "decline" | "cancel";

/** Parameters of `mcpServer/elicitation/request`. */
export type McpServerElicitationRequestParams = ({
  threadId: string;
  turnId: string | null;
  serverName: string;
}) & ({
  mode: "form";
  message: string;
  requestedSchema: McpElicitationSchema;
  _meta?: unknown;
} | {
  mode: "url";
  message: string;
  url: string;
  elicitationId: string;
  _meta?: unknown;
});

/** The client's response to `mcpServer/elicitation/request`. */
export interface McpServerElicitationRequestResponse {
  action: McpServerElicitationAction;
  /** Values of the form. */
  content?: unknown;
  _meta?: unknown;
}

/** Payload of `mcpServer/oauthLogin/completed`. */
export interface McpServerOauthLoginCompletedNotification {
  name: string;
  success: boolean;
  error: string | null;
}

/** Parameters of `mcpServer/oauth/login`. */
export interface McpServerOauthLoginParams {
  name: string;
  scopes?: Array<string> | null;
  timeoutSecs?: number | null;
  /** Logs in at a server of this loaded thread. Experimental. */
  threadId?: string | null;
}

/** Result of `mcpServer/oauth/login`. */
export interface McpServerOauthLoginResponse {
  authorizationUrl: string;
}

/** Parameters of `mcpServer/prompt/get`. */
export interface McpServerPromptGetParams {
  server: string;
  name: string;
  arguments?: { [key: string]: string } | null;
  /** Uses this thread's connection to the server. */
  threadId?: string | null;
}

/** Result of `mcpServer/prompt/get`. */
export interface McpServerPromptGetResponse {
  description?: string | null;
  messages: Array<McpPromptMessage>;
  _meta?: unknown;
}

/** Parameters of `mcpServer/prompt/list`. */
export interface McpServerPromptListParams {
  server: string;
  /** Uses this thread's connection to the server. */
  threadId?: string | null;
}

/** Result of `mcpServer/prompt/list`. */
export interface McpServerPromptListResponse {
  data: Array<McpPrompt>;
}

/** Parameters of `mcpServer/resource/read`. */
export interface McpServerResourceReadParams {
  server: string;
  uri: string;
  /** Uses this thread's connection to the server. */
  threadId?: string | null;
}

/** Result of `mcpServer/resource/read`. */
export interface McpServerResourceReadResponse {
  contents: Array<McpResourceContent>;
}

/** Progress of a server's startup. */
export type McpServerStartupState = "starting" | "ready" | "failed" | "cancelled";

/** Payload of `mcpServer/startupStatus/updated`. */
export interface McpServerStartupStatusUpdatedNotification {
  name: string;
  status: McpServerStartupState;
  error: string | null;
}

/** A server with its tools and resources. */
export interface McpServerStatus {
  name: string;
  /** Tools by name. */
  tools: { [key: string]: McpTool };
  resources: Array<McpResource>;
  resourceTemplates: Array<McpResourceTemplate>;
  authStatus: McpAuthStatus;
}

/** The amount of detail to request from the servers. */
export type McpServerStatusDetail = "full" | "toolsAndAuthOnly";

/** Parameters of `mcpServerStatus/list`. */
export interface McpServerStatusListParams {
  cursor?: string | null;
  limit?: number | null;
  /** `full` when absent. */
  detail?: McpServerStatusDetail | null;
  /** Lists the servers of this loaded thread. Experimental. */
  threadId?: string | null;
}

/** A page of servers. */
export interface McpServerStatusListResponse {
  data: Array<McpServerStatus>;
  nextCursor: string | null;
}

/** Parameters of `mcpServer/tool/call`. */
export interface McpServerToolCallParams {
  threadId: string;
  server: string;
  tool: string;
  arguments?: unknown;
  _meta?: unknown;
}

/** Result of `mcpServer/tool/call`. */
export interface McpServerToolCallResponse {
  content: Array<unknown>;
  structuredContent?: unknown;
  isError?: boolean | null;
  _meta?: unknown;
}

/** Content as text. */
export interface McpTextResourceContent {
  uri: string;
  mimeType?: string | null;
  text: string;
  _meta?: unknown;
}

/** A tool of a server. */
export interface McpTool {
  name: string;
  title?: string | null;
  description?: string | null;
  inputSchema: unknown;
  outputSchema?: unknown;
  annotations?: unknown;
  icons?: Array<unknown> | null;
  _meta?: unknown;
}

/** Why an MCP tool call failed. */
export interface McpToolCallError {
  message: string;
}

/** A call of an MCP server's tool. */
export interface McpToolCallItem {
  id: string;
  server: string;
  tool: string;
  status: McpToolCallStatus;
  arguments: unknown;
  mcpAppResourceUri?: string | null;
  result?: McpToolCallResult | null;
  error?: McpToolCallError | null;
  durationMs?: number | null;
}

/** Payload of `item/mcpToolCall/progress`. */
export interface McpToolCallProgressNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  message: string;
}

/** Result of an MCP tool. */
export interface McpToolCallResult {
  content: Array<unknown>;
  structuredContent?: unknown;
  _meta?: unknown;
}

/** State of an MCP tool call. */
export type McpToolCallStatus = "inProgress" | "completed" | "failed";

/** Memory sources that a message uses. */
export interface MemoryCitation {
  entries: Array<MemoryCitationEntry>;
  threadIds: Array<string>;
}

/** A passage of a memory file. */
export interface MemoryCitationEntry {
  path: string;
  lineStart: number;
  lineEnd: number;
  note: string;
}

/** The treatment of an existing table. */
export type MergeStrategy = "replace" | "upsert";

/** The kind of a message: a comment during the work, or the final answer. */
export type MessagePhase = "commentary" | "final_answer";

/** Details of an item. */
export interface MigrationDetails {
  plugins?: Array<PluginsMigration>;
  mcpServers?: Array<NamedMigration>;
  hooks?: Array<NamedMigration>;
  commands?: Array<NamedMigration>;
  subagents?: Array<NamedMigration>;
  sessions?: Array<SessionMigration>;
}

/** Parameters of `mock/experimentalMethod`. */
export interface MockExperimentalMethodParams {
  value?: string | null;
}

/** Result of `mock/experimentalMethod`. */
export interface MockExperimentalMethodResponse {
  echoed: string | null;
}

/** Kind of collaboration. */
export type ModeKind =
  | "default"
  /** Plans before acting. */
  | "plan";

/** A model (specification, "Model entry"). */
export interface Model {
  id: string;
  /** Name sent to the provider. */
  model: string;
  displayName: string;
  description: string;
  /** Hidden in the default picker. */
  hidden: boolean;
  supportedReasoningEfforts: Array<ReasoningEffortOption>;
  defaultReasoningEffort: ReasoningEffort;
  /** Text and image when absent. */
  inputModalities: Array<InputModality>;
  supportsPersonality: boolean;
  /** True if this is the recommended model. */
  isDefault: boolean;
  /** Id of the model recommended as a replacement. */
  upgrade?: string | null;
  upgradeInfo?: ModelUpgradeInfo | null;
  availabilityNux?: ModelAvailabilityNux | null;
  additionalSpeedTiers?: Array<string>;
  serviceTiers?: Array<ModelServiceTier>;
}

/** Notice for users who see a model for the first time. */
export interface ModelAvailabilityNux {
  message: string;
}

/** Parameters of `model/list`. */
export interface ModelListParams {
  cursor?: string | null;
  limit?: number | null;
  includeHidden?: boolean | null;
}

/** A page of models. */
export interface ModelListResponse {
  data: Array<Model>;
  nextCursor: string | null;
}

/** Result of `modelProvider/capabilities/read`. */
export interface ModelProviderCapabilitiesReadResponse {
  imageGeneration: boolean;
  namespaceTools: boolean;
  webSearch: boolean;
}

/** Why a request was rerouted. */
export type ModelRerouteReason = "highRiskCyberActivity";

/** Payload of `model/rerouted`. */
export interface ModelReroutedNotification {
  threadId: string;
  turnId: string;
  fromModel: string;
  toModel: string;
  reason: ModelRerouteReason;
}

/** A service tier of a model. */
export interface ModelServiceTier {
  id: string;
  name: string;
  description: string;
}

/** Details of the recommended upgrade. */
export interface ModelUpgradeInfo {
  model: string;
  modelLink?: string | null;
  upgradeCopy?: string | null;
  migrationMarkdown?: string | null;
}

/** A verification that the provider requires. */
export type ModelVerification = "trustedAccessForCyber";

/** Payload of `model/verification`. */
export interface ModelVerificationNotification {
  threadId: string;
  turnId: string;
  verifications: Array<ModelVerification>;
}

/** An entity identified by its name. */
export interface NamedMigration {
  name: string;
}

/** Network of an external sandbox. */
export type NetworkAccess =
  | "enabled"
  /** No outbound network; the default. */
  | "restricted";

/** The host that a command connects to. */
export interface NetworkApprovalContext {
  host: string;
  protocol: NetworkApprovalProtocol;
}

/** Protocol of a managed connection. */
export type NetworkApprovalProtocol = "http" | "https" | "socks5Tcp" | "socks5Udp";

/** Access to a domain. */
export type NetworkDomainPermission = "allow" | "deny";

/** Network part of a profile. */
export interface NetworkPermissions {
  enabled: boolean;
}

/** A proposed host rule for later connections. */
export interface NetworkPolicyAmendment {
  host: string;
  action: NetworkPolicyRuleAction;
}

/** Effect of a host rule. */
export type NetworkPolicyRuleAction = "allow" | "deny";

/** Restrictions on the network access of commands. */
export interface NetworkRequirements {
  enabled?: boolean | null;
  httpPort?: number | null;
  socksPort?: number | null;
  allowUpstreamProxy?: boolean | null;
  dangerouslyAllowNonLoopbackProxy?: boolean | null;
  dangerouslyAllowAllUnixSockets?: boolean | null;
  domains?: { [key: string]: NetworkDomainPermission } | null;
  managedAllowedDomainsOnly?: boolean | null;
  allowedDomains?: Array<string> | null;
  deniedDomains?: Array<string> | null;
  unixSockets?: { [key: string]: NetworkUnixSocketPermission } | null;
  allowUnixSockets?: Array<string> | null;
  allowLocalBinding?: boolean | null;
}

/** Access to a Unix socket. */
export type NetworkUnixSocketPermission = "allow" | "none";

/** Kind of a turn that accepts no further input. */
export type NonSteerableTurnKind = "review" | "compact";

/** A path with a remark. */
export interface NotedPath {
  /** Absolute. */
  path: string;
  reason: string;
}

/** Which output a chunk belongs to. */
export type OutputStream = "stdout" | "stderr";

/** An apparent action of a command. */
export type ParsedCommand =
  | {
    type: "read";
    cmd: string;
    name: string;
    path: string;
  }
  | {
    type: "list_files";
    cmd: string;
    path?: string | null;
  }
  | {
    type: "search";
    cmd: string;
    query?: string | null;
    path?: string | null;
  }
  | {
    type: "unknown";
    cmd: string;
  };

/** State of a patch. */
export type PatchApplyStatus = "inProgress" | "completed" | "failed" | "declined";

/** Kind of a change. */
export type PatchChangeKind =
  | {
    type: "add";
  }
  | {
    type: "delete";
  }
  /** Changed, and possibly moved. */
  | {
    type: "update";
    move_path?: string | null;
  };

/** The lifetime of a grant. */
export type PermissionGrantScope = "turn" | "session";

/** A complete set of permissions. */
export type PermissionProfile =
  /** Enforced by the server's sandbox. */
  | {
    type: "managed";
    fileSystem: FileSystemPermissions;
    network: NetworkPermissions;
  }
  /** No sandbox. */
  | {
    type: "disabled";
  }
  /** Sandboxed by the caller. */
  | {
    type: "external";
    network: NetworkPermissions;
  };

/** A modification of a profile. */
export type PermissionProfileModification =
  /** An additional writable folder. */
  | {
    type: "additionalWritableRoot";
    path: string;
  };

/** Selects a configured profile, with modifications. */
export interface PermissionProfileSelectionParams {
  type: PermissionProfileSelectionType;
  /** Name of the profile. */
  id: string;
  modifications?: Array<PermissionProfileModification> | null;
}

/** Discriminator of a profile selection. */
export type PermissionProfileSelectionType = "profile";

/** Parameters of `item/permissions/requestApproval`. */
export interface PermissionsRequestApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  /** Unix time in milliseconds. */
  startedAtMs: number;
  cwd: string;
  reason?: string | null;
  permissions: AdditionalPermissionProfile;
}

/** The client's response to `item/permissions/requestApproval`. */
export interface PermissionsRequestApprovalResponse {
  /** The permissions granted; empty grants nothing. */
  permissions: AdditionalPermissionProfile;
  scope?: PermissionGrantScope;
  strictAutoReview?: boolean | null;
}

/** Tone of the model's messages. */
export type Personality = "none" | "friendly" | "pragmatic";

/** Payload of `item/plan/delta`. */
export interface PlanDeltaNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
}

/** The proposed plan; the text of `item/completed` is authoritative. */
export interface PlanItem {
  id: string;
  text: string;
  /**
   * Why the model's response broke off before this was whole. Where the turn went on, the model was asked
   * again, and its next response takes the place of this text.
   */
  reason?: string | null;
}

/** Plan of an account. */
export type PlanType = "free" | "go" | "plus" | "pro" | "prolite" | "team" | "self_serve_business_usage_based" | "business" | "enterprise_cbp_usage_based" | "enterprise" | "edu" | "unknown";

/** When a plugin's apps require a login. */
export type PluginAuthPolicy = "ON_INSTALL" | "ON_USE";

/** The availability of a plugin under the administrator's rules. */
export type PluginAvailability = "AVAILABLE" | "DISABLED_BY_ADMIN";

/** Details of a plugin. */
export interface PluginDetail {
  marketplaceName: string;
  marketplacePath: string | null;
  summary: PluginSummary;
  description?: string | null;
  skills: Array<SkillSummary>;
  hooks: Array<PluginHookSummary>;
  apps: Array<AppSummary>;
  mcpServers: Array<string>;
  /**
   * The programs and addresses that its hooks and MCP servers would run or reach, a sentence
   * each. Line breaks and hidden characters are written as numbers, as in `\u{a}`.
   */
  actions?: Array<string>;
  /** Of an installed plugin: what an installation would change now, a sentence each. */
  changes?: Array<string> | null;
}

/** A hook that a plugin contains. */
export interface PluginHookSummary {
  key: string;
  eventName: HookEventName;
}

/** Parameters of `plugin/install`. */
export interface PluginInstallParams {
  pluginName: string;
  marketplacePath?: string | null;
  /** Replaces `marketplacePath` for a remote marketplace. */
  remoteMarketplaceName?: string | null;
}

/** The rule for installing a plugin. */
export type PluginInstallPolicy = "NOT_AVAILABLE" | "AVAILABLE" | "INSTALLED_BY_DEFAULT";

/** Result of `plugin/install`. */
export interface PluginInstallResponse {
  authPolicy: PluginAuthPolicy;
  appsNeedingAuth: Array<AppSummary>;
}

/** Display information of a plugin. */
export interface PluginInterface {
  displayName?: string | null;
  shortDescription?: string | null;
  longDescription?: string | null;
  developerName?: string | null;
  category?: string | null;
  capabilities: Array<string>;
  websiteUrl?: string | null;
  privacyPolicyUrl?: string | null;
  termsOfServiceUrl?: string | null;
  defaultPrompt?: Array<string> | null;
  brandColor?: string | null;
  composerIcon?: string | null;
  composerIconUrl?: string | null;
  logo?: string | null;
  logoUrl?: string | null;
  screenshots: Array<string>;
  screenshotUrls: Array<string>;
}

/** Kind of marketplace to list. */
export type PluginListMarketplaceKind = "local" | "workspace-directory" | "shared-with-me";

/** Parameters of `plugin/list`. */
export interface PluginListParams {
  /** Adds the marketplaces of these projects. */
  cwds?: Array<string> | null;
  marketplaceKinds?: Array<PluginListMarketplaceKind> | null;
}

/** Result of `plugin/list`. */
export interface PluginListResponse {
  marketplaces: Array<PluginMarketplaceEntry>;
  marketplaceLoadErrors: Array<MarketplaceLoadErrorInfo>;
  featuredPluginIds: Array<string>;
}

/** A marketplace. */
export interface PluginMarketplaceEntry {
  name: string;
  /**
   * Null for a remote marketplace, and for one that no longer exists: only installed plugins are left of
   * it.
   */
  path: string | null;
  interface?: MarketplaceInterface | null;
  plugins: Array<PluginSummary>;
}

/** Parameters of `plugin/read`. */
export interface PluginReadParams {
  pluginName: string;
  marketplacePath?: string | null;
  /** Replaces `marketplacePath` for a remote marketplace. */
  remoteMarketplaceName?: string | null;
}

/** Result of `plugin/read`. */
export interface PluginReadResponse {
  plugin: PluginDetail;
}

/** Sharing state of a plugin. */
export interface PluginShareContext {
  remotePluginId: string;
  shareUrl?: string | null;
  creatorAccountUserId?: string | null;
  creatorName?: string | null;
  shareTargets?: Array<PluginSharePrincipal> | null;
}

/** Parameters of `plugin/share/delete`. */
export interface PluginShareDeleteParams {
  remotePluginId: string;
}

/** Who can find a shared plugin. */
export type PluginShareDiscoverability = "LISTED" | "UNLISTED" | "PRIVATE";

/** A shared plugin. */
export interface PluginShareListItem {
  plugin: PluginSummary;
  shareUrl: string;
  localPluginPath?: string | null;
}

/** Result of `plugin/share/list`. */
export interface PluginShareListResponse {
  data: Array<PluginShareListItem>;
}

/** A principal that a plugin is shared with. */
export interface PluginSharePrincipal {
  principalType: PluginSharePrincipalType;
  principalId: string;
  name: string;
}

/** Kind of principal. */
export type PluginSharePrincipalType = "user" | "group" | "workspace";

/** Parameters of `plugin/share/save`. */
export interface PluginShareSaveParams {
  pluginPath: string;
  /** Id of the shared plugin to replace. */
  remotePluginId?: string | null;
  discoverability?: PluginShareDiscoverability | null;
  shareTargets?: Array<PluginShareTarget> | null;
}

/** Result of `plugin/share/save`. */
export interface PluginShareSaveResponse {
  remotePluginId: string;
  shareUrl: string;
}

/** A principal to share with. */
export interface PluginShareTarget {
  principalType: PluginSharePrincipalType;
  principalId: string;
}

/** Values that the discoverability can be changed to. */
export type PluginShareUpdateDiscoverability = "UNLISTED" | "PRIVATE";

/** Parameters of `plugin/share/updateTargets`. */
export interface PluginShareUpdateTargetsParams {
  remotePluginId: string;
  discoverability: PluginShareUpdateDiscoverability;
  shareTargets: Array<PluginShareTarget>;
}

/** Result of `plugin/share/updateTargets`. */
export interface PluginShareUpdateTargetsResponse {
  discoverability: PluginShareDiscoverability;
  principals: Array<PluginSharePrincipal>;
}

/** Parameters of `plugin/skill/read`. */
export interface PluginSkillReadParams {
  remoteMarketplaceName: string;
  remotePluginId: string;
  skillName: string;
}

/** Result of `plugin/skill/read`. */
export interface PluginSkillReadResponse {
  contents: string | null;
}

/** Location of a plugin's files. */
export type PluginSource =
  | {
    type: "local";
    path: string;
  }
  | {
    type: "git";
    url: string;
    path: string | null;
    refName: string | null;
    sha: string | null;
  }
  | {
    type: "remote";
  };

/** A summary of a plugin. */
export interface PluginSummary {
  id: string;
  name: string;
  source: PluginSource;
  installed: boolean;
  enabled: boolean;
  installPolicy: PluginInstallPolicy;
  authPolicy: PluginAuthPolicy;
  availability: PluginAvailability;
  interface?: PluginInterface | null;
  keywords: Array<string>;
  shareContext?: PluginShareContext | null;
}

/** Parameters of `plugin/uninstall`. */
export interface PluginUninstallParams {
  pluginId: string;
}

/** Plugins of a marketplace. */
export interface PluginsMigration {
  marketplaceName: string;
  pluginNames: Array<string>;
}

/** Payload of `process/exited`. */
export interface ProcessExitedNotification {
  processHandle: string;
  exitCode: number;
  /** The captured output. */
  stdout: string;
  stdoutCapReached: boolean;
  /** The captured output. */
  stderr: string;
  stderrCapReached: boolean;
}

/** Parameters of `process/kill`. */
export interface ProcessKillParams {
  processHandle: string;
}

/** Payload of `process/outputDelta`. */
export interface ProcessOutputDeltaNotification {
  processHandle: string;
  stream: OutputStream;
  deltaBase64: string;
  /** No more output of this stream follows. */
  capReached: boolean;
}

/** Parameters of `process/resizePty`. */
export interface ProcessResizePtyParams {
  processHandle: string;
  size: TerminalSize;
}

/** Parameters of `process/spawn`. */
export interface ProcessSpawnParams {
  /** Program and arguments; must not be empty. */
  command: Array<string>;
  /** The client's name for the process. */
  processHandle: string;
  cwd: string;
  /** Variables to set; null unsets one. */
  env?: { [key: string]: string | null } | null;
  /** Maximum number of bytes kept of each stream. */
  outputBytesCap?: number | null;
  timeoutMs?: number | null;
  /** Runs on a pseudo-terminal. */
  tty?: boolean;
  /** Size of that terminal. */
  size?: TerminalSize | null;
  streamStdin?: boolean | null;
  /** Defaults to `true`. */
  streamStdoutStderr?: boolean | null;
}

/** Parameters of `process/writeStdin`. */
export interface ProcessWriteStdinParams {
  processHandle: string;
  deltaBase64?: string | null;
  closeStdin?: boolean;
}

/** Which limit blocks the account. */
export type RateLimitReachedType = "rate_limit_reached" | "workspace_owner_credits_depleted" | "workspace_member_credits_depleted" | "workspace_owner_usage_limit_reached" | "workspace_member_usage_limit_reached";

/** Limits of an account. */
export interface RateLimitSnapshot {
  limitId?: string | null;
  limitName?: string | null;
  planType?: PlanType | null;
  primary?: RateLimitWindow | null;
  secondary?: RateLimitWindow | null;
  credits?: CreditsSnapshot | null;
  rateLimitReachedType?: RateLimitReachedType | null;
}

/** A limit over a period of time. */
export interface RateLimitWindow {
  usedPercent: number;
  windowDurationMins?: number | null;
  /** Unix time in seconds. */
  resetsAt?: number | null;
}

/** Which files may be read. */
export type ReadAccess =
  /** All files. */
  | {
    type: "fullAccess";
  }
  /** Only files in the given roots. */
  | {
    type: "restricted";
    includePlatformDefaults?: boolean;
    readableRoots?: Array<string>;
  };

/** Version of the realtime API. */
export type RealtimeConversationVersion = "v1" | "v2";

/** Output modality of the model. */
export type RealtimeOutputModality = "text" | "audio";

/** A voice. */
export type RealtimeVoice = "alloy" | "arbor" | "ash" | "ballad" | "breeze" | "cedar" | "coral" | "cove" | "echo" | "ember" | "juniper" | "maple" | "marin" | "sage" | "shimmer" | "sol" | "spruce" | "vale" | "verse";

/** Voices by version of the realtime API. */
export interface RealtimeVoicesList {
  v1: Array<RealtimeVoice>;
  v2: Array<RealtimeVoice>;
  defaultV1: RealtimeVoice;
  defaultV2: RealtimeVoice;
}

/** The amount of a model's reasoning before it answers. */
export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh";

/** A reasoning effort that a model supports. */
export interface ReasoningEffortOption {
  reasoningEffort: ReasoningEffort;
  description: string;
}

/** The model's reasoning. */
export interface ReasoningItem {
  id: string;
  /** Sections of the summary. */
  summary: Array<string>;
  /** Blocks of raw reasoning. */
  content: Array<string>;
  /**
   * Why the model's response broke off before this was whole. Where the turn went on, the model was asked
   * again, and its next response takes the place of this text.
   */
  reason?: string | null;
}

/** A block of raw reasoning. */
export type ReasoningItemContent =
  | {
    type: "reasoning_text";
    text: string;
  }
  | {
    type: "text";
    text: string;
  };

/** A section of a reasoning summary. */
export type ReasoningItemSummary =
  | {
    type: "summary_text";
    text: string;
  };

/** The level of detail in the summary of the reasoning. */
export type ReasoningSummary = "auto" | "concise" | "detailed" | "none";

/** Payload of `item/reasoning/summaryPartAdded`. */
export interface ReasoningSummaryPartAddedNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  summaryIndex: number;
}

/** Payload of `item/reasoning/summaryTextDelta`. */
export interface ReasoningSummaryTextDeltaNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
  /** Index of the section, from 0. */
  summaryIndex: number;
}

/** Payload of `item/reasoning/textDelta`. */
export interface ReasoningTextDeltaNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
  /** Index of the block, from 0. */
  contentIndex: number;
}

/** State of the remote-control link. */
export type RemoteControlConnectionStatus = "disabled" | "connecting" | "connected" | "errored";

/** Payload of `remoteControl/status/changed`. */
export interface RemoteControlStatusChangedNotification {
  status: RemoteControlConnectionStatus;
  environmentId?: string | null;
}

/** Id of a JSON-RPC request: an integer or a string. */
export type RequestId =
  | number
  | string;

/** Where data must remain. */
export type ResidencyRequirement = "us";

/** A raw item of the model API. */
export type ResponseItem =
  | {
    type: "message";
    role: string;
    content: Array<ContentItem>;
    id?: string | null;
    phase?: MessagePhase | null;
  }
  | {
    type: "reasoning";
    summary: Array<ReasoningItemSummary>;
    content?: Array<ReasoningItemContent> | null;
    encrypted_content?: string | null;
  }
  | {
    type: "local_shell_call";
    action: LocalShellAction;
    status: LocalShellStatus;
    call_id?: string | null;
    id?: string | null;
  }
  | {
    type: "function_call";
    name: string;
    arguments: string;
    call_id: string;
    id?: string | null;
    namespace?: string | null;
  }
  | {
    type: "function_call_output";
    call_id: string;
    output: FunctionCallOutputBody;
  }
  | {
    type: "custom_tool_call";
    name: string;
    input: string;
    call_id: string;
    id?: string | null;
    status?: string | null;
  }
  | {
    type: "custom_tool_call_output";
    call_id: string;
    output: FunctionCallOutputBody;
    name?: string | null;
  }
  | {
    type: "tool_search_call";
    execution: string;
    arguments: unknown;
    call_id?: string | null;
    id?: string | null;
    status?: string | null;
  }
  | {
    type: "tool_search_output";
    execution: string;
    status: string;
    tools: Array<unknown>;
    call_id?: string | null;
  }
  | {
    type: "web_search_call";
    action?: ResponseWebSearchAction | null;
    id?: string | null;
    status?: string | null;
  }
  | {
    type: "image_generation_call";
    id: string;
    status: string;
    result: string;
    revised_prompt?: string | null;
  }
  | {
    type: "compaction";
    encrypted_content: string;
  }
  | {
    type: "context_compaction";
    encrypted_content?: string | null;
  }
  /** An item of a newer API; its members are discarded. */
  | {
    type: "other";
  };

/** Action of a web search. */
export type ResponseWebSearchAction =
  | {
    type: "search";
    query?: string | null;
    queries?: Array<string> | null;
  }
  | {
    type: "open_page";
    url?: string | null;
  }
  | {
    type: "find_in_page";
    url?: string | null;
    pattern?: string | null;
  }
  | {
    type: "other";
  };

/** The changes of files that a rollback makes, or would make. */
export interface RestoredFiles {
  /** From the files as they were before the call to the restored ones, in git's format. */
  diff: string;
  /** True if `diff` lacks its end, because it is too long. */
  diffTruncated: boolean;
  /** Absolute paths. */
  restored: Array<string>;
  /** Files that something else than the turns has changed, too. */
  conflicts: Array<NotedPath>;
  /** Changed files that cannot be restored. */
  notRestored: Array<NotedPath>;
}

/** Decision in the older form. */
export type ReviewDecision =
  | "approved" | "approved_for_session" | "denied" | "timed_out" | "abort"
  | {
    approved_execpolicy_amendment: {
      proposed_execpolicy_amendment: Array<string>;
    };
  }
  | {
    network_policy_amendment: {
      network_policy_amendment: NetworkPolicyAmendment;
    };
  };

/** Where the review runs. */
export type ReviewDelivery =
  /** In the thread itself. */
  | "inline"
  /** In a fork of it. */
  | "detached";

/** The start of a review (what is reviewed) or its end (the review's text). */
export interface ReviewModeItem {
  id: string;
  review: string;
}

/** Parameters of `review/start`. */
export interface ReviewStartParams {
  threadId: string;
  target: ReviewTarget;
  /** `inline` when absent. */
  delivery?: ReviewDelivery | null;
}

/** Result of `review/start`. */
export interface ReviewStartResponse {
  turn: Turn;
  /** The thread itself, or the fork. */
  reviewThreadId: string;
}

/** The target of a review. */
export type ReviewTarget =
  /** Staged, unstaged and untracked changes. */
  | {
    type: "uncommittedChanges";
  }
  /** All changes since the branch diverged from this one. */
  | {
    type: "baseBranch";
    branch: string;
  }
  | {
    type: "commit";
    sha: string;
    title?: string | null;
  }
  /** The changes that the instructions describe. */
  | {
    type: "custom";
    instructions: string;
  };

/** Sandbox of a thread, in short form. */
export type SandboxMode =
  | "readOnly" | "workspaceWrite" | "dangerFullAccess";

/**
 * The access of commands to files and the network (specification, "Sandbox policy"). Like every
 * type that grants permissions, it refuses unknown members: ignoring one could allow more than the
 * client meant. Variants without members are written `{}`, because serde checks for unknown
 * members only there.
 */
export type SandboxPolicy =
  /** No sandbox. */
  | {
    type: "dangerFullAccess";
  }
  /** Reads files and writes none. */
  | {
    type: "readOnly";
    access?: ReadAccess | null;
    networkAccess?: boolean;
  }
  /** Writes in the working directory, the given roots and the temporary folders not excluded. */
  | {
    type: "workspaceWrite";
    writableRoots?: Array<string>;
    readOnlyAccess?: ReadAccess | null;
    networkAccess?: boolean;
    excludeTmpdirEnvVar?: boolean;
    excludeSlashTmp?: boolean;
  }
  /** The caller has already sandboxed the server. */
  | {
    type: "externalSandbox";
    networkAccess?: NetworkAccess;
  };

/** Payload of `serverRequest/resolved`. */
export interface ServerRequestResolvedNotification {
  threadId: string;
  /** Id that the server gave its request. */
  requestId: RequestId;
}

/** A conversation. */
export interface SessionMigration {
  path: string;
  cwd: string;
  title?: string | null;
}

/** Kind of client that started a thread. */
export type SessionSource =
  | "cli" | "editor" | "exec" | "appServer" | "unknown"
  /** Another product, identified by name. */
  | {
    custom: string;
  }
  /** The server itself. */
  | {
    subAgent: SubAgentSource;
  };

/** Dependencies of a skill. */
export interface SkillDependencies {
  tools: Array<SkillToolDependency>;
}

/** A skill that could not be loaded. */
export interface SkillErrorInfo {
  path: string;
  message: string;
}

/** Display information of a skill. */
export interface SkillInterface {
  displayName?: string | null;
  shortDescription?: string | null;
  brandColor?: string | null;
  defaultPrompt?: string | null;
  iconLarge?: string | null;
  iconSmall?: string | null;
}

/** A skill (specification, "Skill entry"). */
export interface SkillMetadata {
  name: string;
  description: string;
  shortDescription?: string | null;
  path: string;
  scope: SkillScope;
  enabled: boolean;
  interface?: SkillInterface | null;
  dependencies?: SkillDependencies | null;
}

/** Where a skill comes from. */
export type SkillScope = "user" | "repo" | "system" | "admin";

/** A summary of a skill. */
export interface SkillSummary {
  name: string;
  description: string;
  shortDescription?: string | null;
  interface?: SkillInterface | null;
  path?: string | null;
  enabled: boolean;
}

/** A tool that a skill needs. */
export interface SkillToolDependency {
  /** `env_var` or `mcp`. */
  type: string;
  value: string;
  description?: string | null;
  /** For example `streamable_http`. */
  transport?: string | null;
  url?: string | null;
  command?: string | null;
}

/** Parameters of `skills/config/write`: a skill by path or by name. */
export interface SkillsConfigWriteParams {
  path?: string | null;
  name?: string | null;
  enabled: boolean;
}

/** Result of `skills/config/write`. */
export interface SkillsConfigWriteResponse {
  effectiveEnabled: boolean;
}

/** Skills of one folder. */
export interface SkillsListEntry {
  cwd: string;
  skills: Array<SkillMetadata>;
  errors: Array<SkillErrorInfo>;
}

/** Additional skill folders for a working directory. */
export interface SkillsListExtraUserRoots {
  cwd: string;
  extraUserRoots: Array<string>;
}

/** Parameters of `skills/list`. */
export interface SkillsListParams {
  /** The server's working folder when empty. */
  cwds?: Array<string>;
  /** Reloads the files. */
  forceReload?: boolean;
  /** Entries for folders not in `cwds` are ignored. */
  perCwdExtraUserRoots?: Array<SkillsListExtraUserRoots> | null;
}

/** Result of `skills/list`. */
export interface SkillsListResponse {
  data: Array<SkillsListEntry>;
}

/** Why events cannot be replayed. */
export type SnapshotReason =
  /** The thread was unloaded or the server restarted in the meantime. */
  | "reloaded"
  /** The event log no longer contains the events, or turns were rolled back. */
  | "tooOld";

/** Order of a list. */
export type SortDirection =
  /** Oldest first. */
  | "asc"
  /** Newest first. */
  | "desc";

/** Why the server started a thread. */
export type SubAgentSource =
  | "review" | "compact" | "memory_consolidation"
  | {
    thread_spawn: ThreadSpawnSource;
  }
  | {
    other: string;
  };

/** Payload of `item/commandExecution/terminalInteraction`. */
export interface TerminalInteractionNotification {
  threadId: string;
  turnId: string;
  itemId: string;
  processId: string;
  stdin: string;
}

/** Size of a terminal, in cells. */
export interface TerminalSize {
  rows: number;
  cols: number;
}

/** A span of the text with a special meaning. */
export interface TextElement {
  byteRange: ByteRange;
  /** Text to display instead. */
  placeholder?: string | null;
}

/** A position in a text file; line and column count from 1. */
export interface TextPosition {
  line: number;
  column: number;
}

/** A span of text in a file. */
export interface TextRange {
  start: TextPosition;
  end: TextPosition;
}

/** A conversation (specification, "Thread"). */
export interface Thread {
  id: string;
  /** Root of the live session tree; a fork keeps its root's. */
  sessionId: string;
  /** The user's first text. */
  preview: string;
  ephemeral: boolean;
  modelProvider: string;
  /** Unix time in seconds. */
  createdAt: number;
  /** Unix time in seconds of the last turn's start. */
  updatedAt: number;
  status: ThreadStatus;
  /** Path of the log. */
  path?: string | null;
  cwd: string;
  /** Version of the program that started the thread. */
  cliVersion: string;
  source: SessionSource;
  threadSource?: ThreadSource | null;
  /** Nickname of a sub-agent's thread. */
  agentNickname?: string | null;
  /** Role of a sub-agent's thread. */
  agentRole?: string | null;
  forkedFromId?: string | null;
  /** Title, if set. */
  name: string | null;
  gitInfo: GitInfo | null;
  /** Filled only by methods documented to return turns. */
  turns: Array<Turn>;
}

/** The thing that an active thread waits for. */
export type ThreadActiveFlag = "waitingOnApproval" | "waitingOnUserInput";

/** Parameters of `thread/approveGuardianDeniedAction`. */
export interface ThreadApproveGuardianDeniedActionParams {
  threadId: string;
  /** The review as reported. */
  event: unknown;
}

/** Payload of `thread/compacted`. */
export interface ThreadCompactedNotification {
  threadId: string;
  turnId: string;
}

/** Number of open prompts outside the server. */
export interface ThreadElicitationResponse {
  count: number;
  paused: boolean;
}

/** Parameters of `thread/fork`. */
export interface ThreadForkParams {
  threadId: string;
  model?: string | null;
  /** Id of a configured provider. */
  modelProvider?: string | null;
  serviceTier?: string | null;
  /** Working directory of the thread. */
  cwd?: string | null;
  approvalPolicy?: AskForApproval | null;
  approvalsReviewer?: ApprovalsReviewer | null;
  sandbox?: SandboxMode | null;
  permissions?: PermissionProfileSelectionParams | null;
  /** Configuration overrides, by dotted key. */
  config?: { [key: string]: unknown } | null;
  /** Replaces the built-in instructions. */
  baseInstructions?: string | null;
  /** Text added to the instructions. */
  developerInstructions?: string | null;
  /** The fork is not stored. */
  ephemeral?: boolean;
  threadSource?: ThreadSource | null;
  /** The last turn of the fork; the last completed turn when absent. */
  lastTurnId?: string | null;
  /** Leaves `thread.turns` empty. */
  excludeTurns?: boolean;
  /** An exported file with the thread to fork; `threadId` is ignored. */
  path?: string | null;
  persistExtendedHistory?: boolean;
}

/** A thread's goal and its usage so far. */
export interface ThreadGoal {
  threadId: string;
  /** 1 to 4000 characters. */
  objective: string;
  status: ThreadGoalStatus;
  tokenBudget: number | null;
  tokensUsed: number;
  timeUsedSeconds: number;
  /** Unix time in seconds. */
  createdAt: number;
  /** Unix time in seconds. */
  updatedAt: number;
}

/** Result of `thread/goal/clear`. */
export interface ThreadGoalClearResponse {
  /** True if the thread had a goal. */
  cleared: boolean;
}

/** Result of `thread/goal/get`. */
export interface ThreadGoalGetResponse {
  goal: ThreadGoal | null;
}

/** Parameters of `thread/goal/set`. A new objective replaces the goal and resets its usage. */
export interface ThreadGoalSetParams {
  threadId: string;
  objective?: string | null;
  status?: ThreadGoalStatus | null;
  /** At least 1; null removes the budget. */
  tokenBudget?: number | null;
}

/** Result of `thread/goal/set`. */
export interface ThreadGoalSetResponse {
  goal: ThreadGoal;
}

/** State of a goal. */
export type ThreadGoalStatus = "active" | "paused" | "budgetLimited" | "complete";

/** Payload of `thread/goal/updated`. */
export interface ThreadGoalUpdatedNotification {
  threadId: string;
  turnId?: string | null;
  goal: ThreadGoal;
}

/** Payload of notifications that name only a thread. */
export interface ThreadIdNotification {
  threadId: string;
}

/** Parameters of methods that take only a thread. */
export interface ThreadIdParams {
  threadId: string;
}

/** Parameters of `thread/inject_items`. */
export interface ThreadInjectItemsParams {
  threadId: string;
  /** Message items of the model API, unchanged. */
  items: Array<unknown>;
}

/** A unit of input or output (specification, "Items"). */
export type ThreadItem =
  | UserMessageItem & {
    type: "userMessage";
  }
  | HookPromptItem & {
    type: "hookPrompt";
  }
  | AgentMessageItem & {
    type: "agentMessage";
  }
  | PlanItem & {
    type: "plan";
  }
  | ReasoningItem & {
    type: "reasoning";
  }
  | CommandExecutionItem & {
    type: "commandExecution";
  }
  | FileChangeItem & {
    type: "fileChange";
  }
  | McpToolCallItem & {
    type: "mcpToolCall";
  }
  | DynamicToolCallItem & {
    type: "dynamicToolCall";
  }
  | CollabToolCallItem & {
    type: "collabToolCall";
  }
  | WebSearchItem & {
    type: "webSearch";
  }
  | ImageViewItem & {
    type: "imageView";
  }
  | ImageGenerationItem & {
    type: "imageGeneration";
  }
  | ReviewModeItem & {
    type: "enteredReviewMode";
  }
  | ReviewModeItem & {
    type: "exitedReviewMode";
  }
  | ContextCompactionItem & {
    type: "contextCompaction";
  };

/** An item and the turn that it belongs to. */
export interface ThreadItemEntry {
  turnId: string;
  item: ThreadItem;
}

/** Parameters of `thread/items/list`. */
export interface ThreadItemsListParams {
  threadId: string;
  /** All turns when absent. */
  turnId?: string | null;
  cursor?: string | null;
  limit?: number | null;
  /** Defaults to newest first. */
  sortDirection?: SortDirection | null;
}

/** A page of a thread's items. */
export interface ThreadItemsListResponse {
  data: Array<ThreadItemEntry>;
  nextCursor: string | null;
  backwardsCursor: string | null;
}

/** One or several working directories. */
export type ThreadListCwdFilter =
  | string
  | Array<string>;

/** Parameters of `thread/list`; filters apply before pagination. */
export interface ThreadListParams {
  /** Cursor of the previous page; null for the first. */
  cursor?: string | null;
  limit?: number | null;
  sortKey?: ThreadSortKey | null;
  /** Defaults to newest first. */
  sortDirection?: SortDirection | null;
  /** All providers when absent or empty. */
  modelProviders?: Array<string> | null;
  /** `cli` and `editor` when absent or empty. */
  sourceKinds?: Array<ThreadSourceKind> | null;
  archived?: boolean | null;
  /** Must match exactly. */
  cwd?: ThreadListCwdFilter | null;
  searchTerm?: string | null;
  /** Does not search for logs that the database does not contain. */
  useStateDbOnly?: boolean;
}

/** A page of threads. */
export interface ThreadListResponse {
  data: Array<Thread>;
  /** Null on the last page. */
  nextCursor: string | null;
  /** Cursor for reading in the opposite direction. */
  backwardsCursor: string | null;
}

/** Parameters of `thread/loaded/list`. */
export interface ThreadLoadedListParams {
  cursor?: string | null;
  limit?: number | null;
}

/** Ids of loaded threads. */
export interface ThreadLoadedListResponse {
  data: Array<string>;
  nextCursor: string | null;
}

/** The use of a thread by memory. */
export type ThreadMemoryMode = "enabled" | "disabled";

/** Parameters of `thread/memoryMode/set`. */
export interface ThreadMemoryModeSetParams {
  threadId: string;
  mode: ThreadMemoryMode;
}

/** Changes to `gitInfo`: an absent member is unchanged, a null member is cleared. */
export interface ThreadMetadataGitInfoUpdate {
  sha?: string | null;
  branch?: string | null;
  originUrl?: string | null;
}

/** Parameters of `thread/metadata/update`. */
export interface ThreadMetadataUpdateParams {
  threadId: string;
  gitInfo?: ThreadMetadataGitInfoUpdate | null;
}

/** Parameters of `thread/name/set`. */
export interface ThreadNameSetParams {
  threadId: string;
  name: string;
}

/** Payload of `thread/name/updated`. */
export interface ThreadNameUpdatedNotification {
  threadId: string;
  threadName?: string | null;
}

/** Parameters of `thread/read`. */
export interface ThreadReadParams {
  threadId: string;
  includeTurns?: boolean;
}

/** Result of methods that return a thread. */
export interface ThreadReadResponse {
  thread: Thread;
}

/** Parameters of `thread/realtime/appendAudio`. */
export interface ThreadRealtimeAppendAudioParams {
  threadId: string;
  audio: ThreadRealtimeAudioChunk;
}

/** Parameters of `thread/realtime/appendText`. */
export interface ThreadRealtimeAppendTextParams {
  threadId: string;
  text: string;
}

/** A chunk of audio. */
export interface ThreadRealtimeAudioChunk {
  /** 16-bit samples in base64. */
  data: string;
  sampleRate: number;
  numChannels: number;
  samplesPerChannel?: number | null;
  itemId?: string | null;
}

/** Payload of `thread/realtime/closed`. */
export interface ThreadRealtimeClosedNotification {
  threadId: string;
  reason?: string | null;
}

/** Payload of `thread/realtime/error`. */
export interface ThreadRealtimeErrorNotification {
  threadId: string;
  message: string;
}

/** Payload of `thread/realtime/itemAdded`. */
export interface ThreadRealtimeItemAddedNotification {
  threadId: string;
  item: unknown;
}

/** Result of `thread/realtime/listVoices`. */
export interface ThreadRealtimeListVoicesResponse {
  voices: RealtimeVoicesList;
}

/** Payload of `thread/realtime/outputAudio/delta`. */
export interface ThreadRealtimeOutputAudioDeltaNotification {
  threadId: string;
  audio: ThreadRealtimeAudioChunk;
}

/** Payload of `thread/realtime/sdp`. */
export interface ThreadRealtimeSdpNotification {
  threadId: string;
  sdp: string;
}

/** Parameters of `thread/realtime/start`. */
export interface ThreadRealtimeStartParams {
  threadId: string;
  outputModality: RealtimeOutputModality;
  prompt?: string | null;
  realtimeSessionId?: string | null;
  transport?: ThreadRealtimeStartTransport | null;
  voice?: RealtimeVoice | null;
}

/** Transport of the audio. */
export type ThreadRealtimeStartTransport =
  | {
    type: "websocket";
  }
  | {
    type: "webrtc";
    sdp: string;
  };

/** Payload of `thread/realtime/started`. */
export interface ThreadRealtimeStartedNotification {
  threadId: string;
  realtimeSessionId?: string | null;
  version: RealtimeConversationVersion;
}

/** Payload of `thread/realtime/transcript/delta`. */
export interface ThreadRealtimeTranscriptDeltaNotification {
  threadId: string;
  role: string;
  delta: string;
}

/** Payload of `thread/realtime/transcript/done`. */
export interface ThreadRealtimeTranscriptDoneNotification {
  threadId: string;
  role: string;
  text: string;
}

/** Parameters of `thread/resume`. */
export interface ThreadResumeParams {
  threadId: string;
  model?: string | null;
  /** Id of a configured provider. */
  modelProvider?: string | null;
  serviceTier?: string | null;
  /** Working directory of the thread. */
  cwd?: string | null;
  approvalPolicy?: AskForApproval | null;
  approvalsReviewer?: ApprovalsReviewer | null;
  sandbox?: SandboxMode | null;
  permissions?: PermissionProfileSelectionParams | null;
  /** Configuration overrides, by dotted key. */
  config?: { [key: string]: unknown } | null;
  /** Replaces the built-in instructions. */
  baseInstructions?: string | null;
  /** Text added to the instructions. */
  developerInstructions?: string | null;
  personality?: Personality | null;
  /** Leaves `thread.turns` empty. */
  excludeTurns?: boolean;
  /** Starts a thread with these items as its history; `threadId` is ignored. */
  history?: Array<ResponseItem> | null;
  /**
   * An exported file with the thread, which is imported unless it is already stored; `threadId`
   * is ignored.
   */
  path?: string | null;
  persistExtendedHistory?: boolean;
  /**
   * The last `eventCursor` of the thread that this client received: later events are replayed
   * after the response. Requires `capabilities.eventCursor`.
   */
  eventCursor?: string | null;
}

/** Parameters of `thread/rollback`. */
export interface ThreadRollbackParams {
  threadId: string;
  numTurns: number;
  /**
   * Undo what the turns changed in files, too; agents below count. Needs `features.undo` from
   * before the turns on.
   */
  restoreFiles?: boolean;
  /** With `restoreFiles`: change nothing, and answer with what would be done. */
  dryRun?: boolean;
  /** With `restoreFiles`: also restore what something else has changed since. */
  overwriteChanges?: boolean;
}

/** Result of `thread/rollback`. */
export interface ThreadRollbackResponse {
  thread: Thread;
  /** The changes of files; present with `restoreFiles`. */
  files?: RestoredFiles | null;
}

/** Parameters of `thread/shellCommand`. */
export interface ThreadShellCommandParams {
  threadId: string;
  command: string;
}

/** Timestamp that the list is sorted by. */
export type ThreadSortKey = "created_at" | "updated_at";

/** For whom a thread was started. */
export type ThreadSource =
  | "user" | "subagent" | "memory_consolidation"
  /** A name of the client's own. */
  | string;

/** Kind of source to list. */
export type ThreadSourceKind = "cli" | "editor" | "exec" | "appServer" | "subAgent" | "subAgentReview" | "subAgentCompact" | "subAgentThreadSpawn" | "subAgentOther" | "unknown";

/** The thread that spawned a sub-agent. */
export interface ThreadSpawnSource {
  parent_thread_id: string;
  /** Distance from the root thread. */
  depth: number;
  agent_nickname?: string | null;
  agent_path?: string | null;
  agent_role?: string | null;
}

/** Parameters of `thread/start`; absent members are taken from the configuration. */
export interface ThreadStartParams {
  model?: string | null;
  /** Id of a configured provider. */
  modelProvider?: string | null;
  serviceTier?: string | null;
  /** Working directory of the thread. */
  cwd?: string | null;
  approvalPolicy?: AskForApproval | null;
  approvalsReviewer?: ApprovalsReviewer | null;
  sandbox?: SandboxMode | null;
  permissions?: PermissionProfileSelectionParams | null;
  /** Configuration overrides, by dotted key. */
  config?: { [key: string]: unknown } | null;
  /** Replaces the built-in instructions. */
  baseInstructions?: string | null;
  /** Text added to the instructions. */
  developerInstructions?: string | null;
  personality?: Personality | null;
  /** Label of the thread's metrics. */
  serviceName?: string | null;
  /** The thread is not stored. */
  ephemeral?: boolean | null;
  /** Tools that the client runs. */
  dynamicTools?: Array<DynamicToolSpec> | null;
  environments?: Array<TurnEnvironmentParams> | null;
  experimentalRawEvents?: boolean;
  mockExperimentalField?: string | null;
  persistExtendedHistory?: boolean;
  sessionStartSource?: ThreadStartSource | null;
  threadSource?: ThreadSource | null;
}

/**
 * Result of `thread/start`, `thread/resume` and `thread/fork`: the thread and its effective
 * settings.
 */
export interface ThreadStartResponse {
  thread: Thread;
  model: string;
  modelProvider: string;
  serviceTier: string | null;
  cwd: string;
  /** Instruction files that were loaded. */
  instructionSources: Array<string>;
  approvalPolicy: AskForApproval;
  approvalsReviewer: ApprovalsReviewer;
  sandbox: SandboxPolicy;
  reasoningEffort: ReasoningEffort | null;
  activePermissionProfile?: ActivePermissionProfile | null;
  permissionProfile?: PermissionProfile | null;
  /** The position of this response among the thread's events, with `capabilities.eventCursor`. */
  eventCursor?: string | null;
  /**
   * The way in which this client receives the events that it missed, with `eventCursor` in the
   * parameters.
   */
  eventReplay?: EventReplay | null;
}

/** Why a thread was started. */
export type ThreadStartSource = "startup" | "clear";

/** Payload of `thread/started`. */
export interface ThreadStartedNotification {
  thread: Thread;
}

/** Runtime status of a thread. */
export type ThreadStatus =
  /** Not in memory. */
  | {
    type: "notLoaded";
  }
  /** Loaded, without a turn in progress. */
  | {
    type: "idle";
  }
  /** The last turn failed. */
  | {
    type: "systemError";
  }
  /** Loaded, with a turn in progress. */
  | {
    type: "active";
    activeFlags: Array<ThreadActiveFlag>;
  };

/** Payload of `thread/status/changed`. */
export interface ThreadStatusChangedNotification {
  threadId: string;
  status: ThreadStatus;
}

/** Tokens used by a thread. */
export interface ThreadTokenUsage {
  total: TokenUsageBreakdown;
  /** Used by the last model request. */
  last: TokenUsageBreakdown;
  modelContextWindow: number | null;
  /** Tokens that the turn and its agents used together so far. Only of turns that have agents. */
  tokensWithAgents?: number | null;
  /** The cost of the tokens, for clients with the capability `tokenCost`. Experimental. */
  cost?: TokenCost | null;
}

/** Payload of `thread/tokenUsage/updated`. */
export interface ThreadTokenUsageUpdatedNotification {
  threadId: string;
  turnId: string;
  tokenUsage: ThreadTokenUsage;
}

/** Parameters of `thread/turns/items/list`. */
export interface ThreadTurnsItemsListParams {
  threadId: string;
  turnId: string;
  cursor?: string | null;
  limit?: number | null;
  sortDirection?: SortDirection | null;
}

/** A page of one turn's items. */
export interface ThreadTurnsItemsListResponse {
  data: Array<ThreadItem>;
  nextCursor: string | null;
  backwardsCursor: string | null;
}

/** Parameters of `thread/turns/list`. */
export interface ThreadTurnsListParams {
  threadId: string;
  cursor?: string | null;
  limit?: number | null;
  /** Defaults to newest first. */
  sortDirection?: SortDirection | null;
  /** `summary` when absent. */
  itemsView?: TurnItemsView | null;
}

/** A page of turns. */
export interface ThreadTurnsListResponse {
  data: Array<Turn>;
  /** Null on the last page. */
  nextCursor: string | null;
  /** Cursor for newer turns, with `sortDirection: asc`. */
  backwardsCursor: string | null;
}

/** Result of `thread/unsubscribe`. */
export interface ThreadUnsubscribeResponse {
  status: ThreadUnsubscribeStatus;
}

/** State of the connection's subscription before the call. */
export type ThreadUnsubscribeStatus = "notLoaded" | "notSubscribed" | "unsubscribed";

/**
 * The cost of tokens: exact decimal numbers, such as `0.0125`. Null where the price of a part is
 * not known.
 */
export interface TokenCost {
  /** `USD`. */
  currency: string;
  /** Of the last model request. */
  last: string | null;
  /** Of the turn so far, without its agents. */
  turn: string | null;
  /** Of the turn so far, with its agents. */
  turnWithAgents: string | null;
  /** Of the thread so far, without its agents; a fork begins with that of its parent. */
  thread: string | null;
}

/** Tokens by kind. */
export interface TokenUsageBreakdown {
  totalTokens: number;
  inputTokens: number;
  /** Part of `inputTokens`. */
  cachedInputTokens: number;
  /** Part of `inputTokens`, written to the provider's prompt cache; absent if it is 0. */
  cacheWriteInputTokens?: number;
  outputTokens: number;
  /** Part of `outputTokens`. */
  reasoningOutputTokens: number;
}

/** Answers to one question. */
export interface ToolRequestUserInputAnswer {
  answers: Array<string>;
}

/** A predefined answer. */
export interface ToolRequestUserInputOption {
  label: string;
  description: string;
}

/** Parameters of `item/tool/requestUserInput`. */
export interface ToolRequestUserInputParams {
  threadId: string;
  turnId: string;
  itemId: string;
  questions: Array<ToolRequestUserInputQuestion>;
}

/** A question. */
export interface ToolRequestUserInputQuestion {
  id: string;
  header: string;
  question: string;
  /** Allows a free-form answer. */
  isOther: boolean;
  /** Hides the typed text. */
  isSecret: boolean;
  options?: Array<ToolRequestUserInputOption> | null;
}

/** The client's response to `item/tool/requestUserInput`. */
export interface ToolRequestUserInputResponse {
  /** Answers by question id. */
  answers: { [key: string]: ToolRequestUserInputAnswer };
}

/** One input of the user and its outcome. */
export interface Turn {
  id: string;
  status: TurnStatus;
  /** Empty in the response of `turn/start` and in notifications. */
  items: Array<ThreadItem>;
  /** The included part of the items. */
  itemsView: TurnItemsView;
  error: TurnError | null;
  /** Unix time in seconds. */
  startedAt?: number | null;
  /** Unix time in seconds. */
  completedAt?: number | null;
  durationMs?: number | null;
}

/** Payload of `turn/completed`. */
export interface TurnCompletedNotification {
  threadId: string;
  turn: Turn;
}

/** Payload of `turn/diff/updated`. */
export interface TurnDiffUpdatedNotification {
  threadId: string;
  turnId: string;
  diff: string;
}

/** An execution environment and the folder to work in. */
export interface TurnEnvironmentParams {
  environmentId: string;
  cwd: string;
}

/** Error of a turn. */
export interface TurnError {
  /** Message for people. */
  message: string;
  /** Kind of the error, for programs. */
  agentErrorInfo?: AgentErrorInfo | null;
  additionalDetails?: string | null;
}

/** Parameters of `turn/interrupt`. */
export interface TurnInterruptParams {
  threadId: string;
  turnId: string;
}

/** The part of a turn's items to include. */
export type TurnItemsView =
  /** No items. */
  | "notLoaded"
  /** The first message of the user and the last of the agent. */
  | "summary"
  /** All items. */
  | "full";

/** A step of the plan. */
export interface TurnPlanStep {
  step: string;
  status: TurnPlanStepStatus;
}

/** State of a step. */
export type TurnPlanStepStatus = "pending" | "inProgress" | "completed";

/** Payload of `turn/plan/updated`. */
export interface TurnPlanUpdatedNotification {
  threadId: string;
  turnId: string;
  explanation?: string | null;
  plan: Array<TurnPlanStep>;
}

/** Parameters of `turn/start`. Overrides also apply to later turns, except `outputSchema`. */
export interface TurnStartParams {
  threadId: string;
  input: Array<UserInput>;
  cwd?: string | null;
  approvalPolicy?: AskForApproval | null;
  approvalsReviewer?: ApprovalsReviewer | null;
  sandboxPolicy?: SandboxPolicy | null;
  permissions?: PermissionProfileSelectionParams | null;
  model?: string | null;
  /** Null selects the default tier. */
  serviceTier?: string | null;
  /**
   * Service tier of this turn only; `default` for the provider's default. A turn that joins a running
   * one has the tier of that.
   */
  serviceTierForTurn?: string | null;
  effort?: ReasoningEffort | null;
  summary?: ReasoningSummary | null;
  personality?: Personality | null;
  collaborationMode?: CollaborationMode | null;
  /** JSON Schema of the final answer, for this turn only. */
  outputSchema?: unknown;
  /** The trigger of the turn, in the client's words: a note for the server's log. */
  turnTrigger?: string | null;
  /**
   * Most tokens, input and output, that this turn, its agents and the turns that continue its goal
   * may use together. With a turn in progress, its limit becomes the lower of the two; that of an
   * agent's turn counts from then on.
   */
  maxTotalTokens?: number | null;
  environments?: Array<TurnEnvironmentParams> | null;
  responsesapiClientMetadata?: { [key: string]: string } | null;
}

/** Result of `turn/start`. */
export interface TurnStartResponse {
  turn: Turn;
}

/** Payload of `turn/started`. */
export interface TurnStartedNotification {
  threadId: string;
  turn: Turn;
}

/** State of a turn. */
export type TurnStatus = "inProgress" | "completed" | "interrupted" | "failed";

/** Parameters of `turn/steer`. */
export interface TurnSteerParams {
  threadId: string;
  input: Array<UserInput>;
  /** Must be the turn in progress. */
  expectedTurnId: string;
  responsesapiClientMetadata?: { [key: string]: string } | null;
}

/** Result of `turn/steer`. */
export interface TurnSteerResponse {
  turnId: string;
}

/** One part of a turn's input (specification, "Turn input items"). */
export type UserInput =
  /** Plain text; `$name` invokes a skill. */
  | {
    type: "text";
    text: string;
    text_elements?: Array<TextElement>;
  }
  /** An image by URL, `data:` included. */
  | {
    type: "image";
    url: string;
  }
  /** An image file. */
  | {
    type: "localImage";
    path: string;
  }
  /** A skill and its definition file. */
  | {
    type: "skill";
    name: string;
    path: string;
  }
  /** A named resource. */
  | {
    type: "mention";
    name: string;
    path: string;
  };

/** The user's input. */
export interface UserMessageItem {
  id: string;
  content: Array<UserInput>;
}

/** Payload of `warning`. */
export interface WarningNotification {
  message: string;
  threadId?: string | null;
}

/** Action of a web search. */
export type WebSearchAction =
  | {
    type: "search";
    query?: string | null;
    queries?: Array<string> | null;
  }
  | {
    type: "openPage";
    url?: string | null;
  }
  | {
    type: "findInPage";
    url?: string | null;
    pattern?: string | null;
  }
  | {
    type: "other";
  };

/** A web search. */
export interface WebSearchItem {
  id: string;
  query: string;
  action?: WebSearchAction | null;
  /** Why it failed; absent if it succeeded. */
  reason?: string | null;
}

/** Mode of web search. */
export type WebSearchMode = "disabled" | "cached" | "live";

/** Result of `windowsSandbox/readiness`. */
export interface WindowsSandboxReadinessResponse {
  status: WindowsSandboxReadinessStatus;
}

/** The setup state of the sandbox. */
export type WindowsSandboxReadinessStatus = "ready" | "notConfigured" | "updateRequired";

/** Payload of `windowsSandbox/setupCompleted`. */
export interface WindowsSandboxSetupCompletedNotification {
  mode: WindowsSandboxSetupMode;
  success: boolean;
  error: string | null;
}

/** The way to set up the sandbox. */
export type WindowsSandboxSetupMode =
  /** With administrator rights. */
  | "elevated"
  /** Without administrator rights; the older preflight. */
  | "unelevated";

/** Parameters of `windowsSandbox/setupStart`. */
export interface WindowsSandboxSetupStartParams {
  mode: WindowsSandboxSetupMode;
  cwd?: string | null;
}

/** Result of `windowsSandbox/setupStart`. */
export interface WindowsSandboxSetupStartResponse {
  started: boolean;
}

/** Payload of `windows/worldWritableWarning`. */
export interface WindowsWorldWritableWarningNotification {
  samplePaths: Array<string>;
  /** Number of further folders. */
  extraCount: number;
  failedScan: boolean;
}

/** Requests from the client. */
export interface ClientRequests {
  /** Cancels a login in progress. */
  "account/login/cancel": { params: AccountLoginCancelParams; result: AccountLoginCancelResponse };
  /** Starts a login. */
  "account/login/start": { params: AccountLoginStartParams; result: AccountLoginStartResponse };
  /** Logs out and deletes the credentials. */
  "account/logout": { params?: Empty; result: Empty };
  /** Returns rate limits and their usage. */
  "account/rateLimits/read": { params?: Empty; result: AccountRateLimitsReadResponse };
  /** Returns the account that is logged in. */
  "account/read": { params?: AccountReadParams; result: AccountReadResponse };
  /** Asks the workspace's owner for credits. */
  "account/sendAddCreditsNudgeEmail": { params: AccountSendAddCreditsNudgeEmailParams; result: AccountSendAddCreditsNudgeEmailResponse };
  /** Lists the apps of a thread's MCP servers, or of those of the configuration. */
  "app/list": { params?: AppListParams; result: AppListResponse };
  /** Lists the presets that `turn/start` accepts. */
  "collaborationMode/list": { params?: Empty; result: CollaborationModeListResponse };
  /** Runs a command and returns after its end. */
  "command/exec": { params: CommandExecParams; result: CommandExecResponse };
  /** Resizes a session's terminal. */
  "command/exec/resize": { params: CommandExecResizeParams; result: Empty };
  /** Ends a session. */
  "command/exec/terminate": { params: CommandExecTerminateParams; result: Empty };
  /** Writes to a session's stdin, or closes it. */
  "command/exec/write": { params: CommandExecWriteParams; result: Empty };
  /** Writes several values atomically. */
  "config/batchWrite": { params: ConfigBatchWriteParams; result: ConfigWriteResponse };
  /** Reloads the servers' configuration. */
  "config/mcpServer/reload": { params?: Empty; result: Empty };
  /** Returns the effective configuration and the origin of each value. */
  "config/read": { params?: ConfigReadParams; result: ConfigReadResponse };
  /** Writes one value. */
  "config/value/write": { params: ConfigValueWriteParams; result: ConfigWriteResponse };
  /** Returns the administrator's requirements. */
  "configRequirements/read": { params?: Empty; result: ConfigRequirementsReadResponse };
  /** Enables or disables features in this process. */
  "experimentalFeature/enablement/set": { params: ExperimentalFeatureEnablementSetParams; result: ExperimentalFeatureEnablementSetResponse };
  /** Lists features and whether they are enabled. */
  "experimentalFeature/list": { params?: ExperimentalFeatureListParams; result: ExperimentalFeatureListResponse };
  /** Detects what can be imported. */
  "externalAgentConfig/detect": { params?: ExternalAgentConfigDetectParams; result: ExternalAgentConfigDetectResponse };
  /** Imports it. */
  "externalAgentConfig/import": { params: ExternalAgentConfigImportParams; result: Empty };
  /** Writes a report, without secrets, into a file of the agent's home. */
  "feedback/upload": { params: FeedbackUploadParams; result: FeedbackUploadResponse };
  /** Copies a file, a folder or a symbolic link. */
  "fs/copy": { params: FsCopyParams; result: Empty };
  /** Creates a folder. */
  "fs/createDirectory": { params: FsCreateDirectoryParams; result: Empty };
  /** Returns kind and times of a path; for a symbolic link, those of its target. */
  "fs/getMetadata": { params: FsGetMetadataParams; result: FsGetMetadataResponse };
  /** Lists the entries of a folder, by name; at most 100,000. */
  "fs/readDirectory": { params: FsReadDirectoryParams; result: FsReadDirectoryResponse };
  /** Reads a whole file of at most 32 MiB. Follows symbolic links. */
  "fs/readFile": { params: FsReadFileParams; result: FsReadFileResponse };
  /** Removes a file, a folder, or a symbolic link and not its target. */
  "fs/remove": { params: FsRemoveParams; result: Empty };
  /** Ends a watch, if there is one: no notification about it follows the response. */
  "fs/unwatch": { params: FsUnwatchParams; result: Empty };
  /** Watches a file or a folder, which need not exist yet, until `fs/unwatch` or disconnect. Every change after the response is reported with `fs/changed`. */
  "fs/watch": { params: FsWatchParams; result: FsWatchResponse };
  /** Writes a whole file of at most 32 MiB: it appears whole or not at all, and keeps the mode, owner and links of the one that it replaces. */
  "fs/writeFile": { params: FsWriteFileParams; result: Empty };
  /** Searches once, in files and folders below `roots`. */
  "fuzzyFileSearch": { params: FuzzyFileSearchParams; result: FuzzyFileSearchResponse };
  /** Starts a search session, whose query can change. */
  "fuzzyFileSearch/sessionStart": { params: FuzzyFileSearchSessionStartParams; result: Empty };
  /** Ends the session. */
  "fuzzyFileSearch/sessionStop": { params: FuzzyFileSearchSessionStopParams; result: Empty };
  /** Changes the session's query. */
  "fuzzyFileSearch/sessionUpdate": { params: FuzzyFileSearchSessionUpdateParams; result: Empty };
  /** Lists the hooks that apply in the given folders. */
  "hooks/list": { params?: HooksListParams; result: HooksListResponse };
  /** Opens the connection; the first request, sent once. */
  "initialize": { params: InitializeParams; result: InitializeResponse };
  /** Adds a marketplace. */
  "marketplace/add": { params: MarketplaceAddParams; result: MarketplaceAddResponse };
  /** Removes a marketplace. */
  "marketplace/remove": { params: MarketplaceRemoveParams; result: MarketplaceRemoveResponse };
  /** Updates one marketplace or all of them. */
  "marketplace/upgrade": { params?: MarketplaceUpgradeParams; result: MarketplaceUpgradeResponse };
  /** Starts a login at a server. */
  "mcpServer/oauth/login": { params: McpServerOauthLoginParams; result: McpServerOauthLoginResponse };
  /** Expands a prompt of a server. */
  "mcpServer/prompt/get": { params: McpServerPromptGetParams; result: McpServerPromptGetResponse };
  /** Lists the prompts of a server. */
  "mcpServer/prompt/list": { params: McpServerPromptListParams; result: McpServerPromptListResponse };
  /** Reads a resource. */
  "mcpServer/resource/read": { params: McpServerResourceReadParams; result: McpServerResourceReadResponse };
  /** Calls a tool. */
  "mcpServer/tool/call": { params: McpServerToolCallParams; result: McpServerToolCallResponse };
  /** Lists the configured servers with their tools and resources. */
  "mcpServerStatus/list": { params?: McpServerStatusListParams; result: McpServerStatusListResponse };
  /** Deletes the memory shared by threads. */
  "memory/reset": { params?: Empty; result: Empty };
  /** Echoes its parameters, so that a client can test the experimental gate. */
  "mock/experimentalMethod": { params?: MockExperimentalMethodParams; result: MockExperimentalMethodResponse };
  /** Lists the available models. */
  "model/list": { params?: ModelListParams; result: ModelListResponse };
  /** Returns the capabilities of the configured provider. */
  "modelProvider/capabilities/read": { params?: Empty; result: ModelProviderCapabilitiesReadResponse };
  /** Installs a plugin. */
  "plugin/install": { params: PluginInstallParams; result: PluginInstallResponse };
  /** Lists marketplaces and their plugins. */
  "plugin/list": { params?: PluginListParams; result: PluginListResponse };
  /** Returns the details of a plugin. */
  "plugin/read": { params: PluginReadParams; result: PluginReadResponse };
  /** Stops sharing a plugin. */
  "plugin/share/delete": { params: PluginShareDeleteParams; result: Empty };
  /** Lists the plugins that this account shares. */
  "plugin/share/list": { params?: Empty; result: PluginShareListResponse };
  /** Uploads a plugin to share it. */
  "plugin/share/save": { params: PluginShareSaveParams; result: PluginShareSaveResponse };
  /** Changes with whom a plugin is shared. */
  "plugin/share/updateTargets": { params: PluginShareUpdateTargetsParams; result: PluginShareUpdateTargetsResponse };
  /** Returns the text of a remote plugin's skill. */
  "plugin/skill/read": { params: PluginSkillReadParams; result: PluginSkillReadResponse };
  /** Removes a plugin. */
  "plugin/uninstall": { params: PluginUninstallParams; result: Empty };
  /** Kills a process. */
  "process/kill": { params: ProcessKillParams; result: Empty };
  /** Resizes a process's terminal. */
  "process/resizePty": { params: ProcessResizePtyParams; result: Empty };
  /** Starts a process. */
  "process/spawn": { params: ProcessSpawnParams; result: Empty };
  /** Writes to a process's stdin, or closes it. */
  "process/writeStdin": { params: ProcessWriteStdinParams; result: Empty };
  /** Starts a review, in the thread or in a new one. */
  "review/start": { params: ReviewStartParams; result: ReviewStartResponse };
  /** Enables or disables a skill. */
  "skills/config/write": { params: SkillsConfigWriteParams; result: SkillsConfigWriteResponse };
  /** Lists the skills that apply in the given folders. */
  "skills/list": { params?: SkillsListParams; result: SkillsListResponse };
  /** Allows an action that the automatic reviewer denied. */
  "thread/approveGuardianDeniedAction": { params: ThreadApproveGuardianDeniedActionParams; result: Empty };
  /** Moves a thread's log to the archive. */
  "thread/archive": { params: ThreadIdParams; result: Empty };
  /** Ends a thread's background terminals. */
  "thread/backgroundTerminals/clean": { params: ThreadIdParams; result: Empty };
  /** Starts compaction; progress is reported in turn and item notifications. */
  "thread/compact/start": { params: ThreadIdParams; result: Empty };
  /** Ends one such pause. */
  "thread/decrement_elicitation": { params: ThreadIdParams; result: ThreadElicitationResponse };
  /** Deletes a thread and its log permanently. */
  "thread/delete": { params: ThreadIdParams; result: Empty };
  /** Creates a new thread from an existing one. */
  "thread/fork": { params: ThreadForkParams; result: ThreadStartResponse };
  /** Removes a thread's goal. */
  "thread/goal/clear": { params: ThreadIdParams; result: ThreadGoalClearResponse };
  /** Reads a thread's goal. */
  "thread/goal/get": { params: ThreadIdParams; result: ThreadGoalGetResponse };
  /** Sets or changes a thread's goal. */
  "thread/goal/set": { params: ThreadGoalSetParams; result: ThreadGoalSetResponse };
  /** Pauses timeouts while a prompt outside the server is open. */
  "thread/increment_elicitation": { params: ThreadIdParams; result: ThreadElicitationResponse };
  /** Adds raw model-API items to the history. */
  "thread/inject_items": { params: ThreadInjectItemsParams; result: Empty };
  /** Lists the items of a thread, or of one of its turns. */
  "thread/items/list": { params: ThreadItemsListParams; result: ThreadItemsListResponse };
  /** Lists stored threads, newest first. */
  "thread/list": { params?: ThreadListParams; result: ThreadListResponse };
  /** Lists the ids of loaded threads. */
  "thread/loaded/list": { params?: ThreadLoadedListParams; result: ThreadLoadedListResponse };
  /** Allows or forbids memory to use a thread. */
  "thread/memoryMode/set": { params: ThreadMemoryModeSetParams; result: Empty };
  /** Changes the metadata of a stored thread. */
  "thread/metadata/update": { params: ThreadMetadataUpdateParams; result: ThreadReadResponse };
  /** Sets a thread's title. */
  "thread/name/set": { params: ThreadNameSetParams; result: Empty };
  /** Reads a thread without loading it. */
  "thread/read": { params: ThreadReadParams; result: ThreadReadResponse };
  /** Appends audio. */
  "thread/realtime/appendAudio": { params: ThreadRealtimeAppendAudioParams; result: Empty };
  /** Appends text. */
  "thread/realtime/appendText": { params: ThreadRealtimeAppendTextParams; result: Empty };
  /** Lists the available voices. */
  "thread/realtime/listVoices": { params?: Empty; result: ThreadRealtimeListVoicesResponse };
  /** Starts a realtime session. */
  "thread/realtime/start": { params: ThreadRealtimeStartParams; result: Empty };
  /** Ends the session. */
  "thread/realtime/stop": { params: ThreadIdParams; result: Empty };
  /** Loads a stored thread and subscribes the connection to it. */
  "thread/resume": { params: ThreadResumeParams; result: ThreadStartResponse };
  /** Removes the last turns from the context. */
  "thread/rollback": { params: ThreadRollbackParams; result: ThreadRollbackResponse };
  /** Runs a command of the user, outside the sandbox. */
  "thread/shellCommand": { params: ThreadShellCommandParams; result: Empty };
  /** Starts a thread and subscribes the connection to it. */
  "thread/start": { params?: ThreadStartParams; result: ThreadStartResponse };
  /** Reserved by the specification, and always refused as unsupported: `thread/turns/list` returns the items. */
  "thread/turns/items/list": { params: ThreadTurnsItemsListParams; result: ThreadTurnsItemsListResponse };
  /** Lists a thread's turns, newest first. */
  "thread/turns/list": { params: ThreadTurnsListParams; result: ThreadTurnsListResponse };
  /** Restores an archived thread. */
  "thread/unarchive": { params: ThreadIdParams; result: ThreadReadResponse };
  /** Ends this connection's subscription. */
  "thread/unsubscribe": { params: ThreadIdParams; result: ThreadUnsubscribeResponse };
  /** Interrupts the turn in progress. */
  "turn/interrupt": { params: TurnInterruptParams; result: Empty };
  /** Starts a turn. While another turn of the thread runs, the input joins that one: the model sees it with its next request, and both turns end together, each with its own `turn/completed`. During a review or a compaction the request is refused. */
  "turn/start": { params: TurnStartParams; result: TurnStartResponse };
  /** Adds input to the turn in progress, without a turn of its own. */
  "turn/steer": { params: TurnSteerParams; result: TurnSteerResponse };
  /** Returns whether the sandbox of Windows is set up. Always refused. */
  "windowsSandbox/readiness": { params?: Empty; result: WindowsSandboxReadinessResponse };
  /** Sets up the sandbox of Windows. Always refused. */
  "windowsSandbox/setupStart": { params: WindowsSandboxSetupStartParams; result: WindowsSandboxSetupStartResponse };
}

/** Notifications from the client. */
export interface ClientNotifications {
  /** Completes the handshake. */
  "initialized": { params?: Empty };
}

/** Requests from the server. */
export interface ServerRequests {
  /** Requests fresh tokens from the client. */
  "account/hostedAuthTokens/refresh": { params: HostedAuthTokensRefreshParams; result: HostedAuthTokensRefreshResponse };
  /** Never sent: this server requests approval of a patch with `item/fileChange/requestApproval`. */
  "applyPatchApproval": { params: ApplyPatchApprovalParams; result: LegacyApprovalResponse };
  /** Never sent: this server requests approval of a command with `item/commandExecution/requestApproval`. */
  "execCommandApproval": { params: ExecCommandApprovalParams; result: LegacyApprovalResponse };
  /** Requests approval of a command. */
  "item/commandExecution/requestApproval": { params: CommandExecutionRequestApprovalParams; result: CommandExecutionRequestApprovalResponse };
  /** Requests approval of a patch. */
  "item/fileChange/requestApproval": { params: FileChangeRequestApprovalParams; result: FileChangeRequestApprovalResponse };
  /** Requests permissions beyond the sandbox policy. */
  "item/permissions/requestApproval": { params: PermissionsRequestApprovalParams; result: PermissionsRequestApprovalResponse };
  /** Runs a tool that the client provides. */
  "item/tool/call": { params: DynamicToolCallParams; result: DynamicToolCallResponse };
  /** Asks the user one to three questions. */
  "item/tool/requestUserInput": { params: ToolRequestUserInputParams; result: ToolRequestUserInputResponse };
  /** An MCP server requests input from the user. */
  "mcpServer/elicitation/request": { params: McpServerElicitationRequestParams; result: McpServerElicitationRequestResponse };
}

/** Notifications from the server. */
export interface ServerNotifications {
  /** A login succeeded or failed. */
  "account/login/completed": { params: AccountLoginCompletedNotification };
  /** Rate limits changed. */
  "account/rateLimits/updated": { params: AccountRateLimitsUpdatedNotification };
  /** A user logged in or out. */
  "account/updated": { params: AccountUpdatedNotification };
  /** The list of apps changed. */
  "app/list/updated": { params: AppListUpdatedNotification };
  /** More output of a streaming session. */
  "command/exec/outputDelta": { params: CommandExecOutputDeltaNotification };
  /** A part of the configuration was ignored or looks wrong. */
  "configWarning": { params: ConfigWarningNotification };
  /** The client uses a deprecated feature. */
  "deprecationNotice": { params: DeprecationNoticeNotification };
  /** A turn had an error; the turn's end follows unless the request is retried. */
  "error": { params: ErrorNotification };
  /** An import is complete, and everything is durable. */
  "externalAgentConfig/import/completed": { params?: Empty };
  /** A watched path, or something in it, was created, changed, replaced, renamed or removed. */
  "fs/changed": { params: FsChangedNotification };
  /** The results are complete. */
  "fuzzyFileSearch/sessionCompleted": { params: FuzzyFileSearchSessionCompletedNotification };
  /** Results for the current query. */
  "fuzzyFileSearch/sessionUpdated": { params: FuzzyFileSearchSessionUpdatedNotification };
  /** A warning of the automatic reviewer. */
  "guardianWarning": { params: GuardianWarningNotification };
  /** A hook ended. */
  "hook/completed": { params: HookRunNotification };
  /** A hook started. */
  "hook/started": { params: HookRunNotification };
  /** More text of a message. */
  "item/agentMessage/delta": { params: AgentMessageDeltaNotification };
  /** An automatic review ended. */
  "item/autoApprovalReview/completed": { params: ItemAutoApprovalReviewCompletedNotification };
  /** An automatic review started. */
  "item/autoApprovalReview/started": { params: ItemAutoApprovalReviewStartedNotification };
  /** More output of a command. */
  "item/commandExecution/outputDelta": { params: CommandExecutionOutputDeltaNotification };
  /** The agent typed into an interactive session. */
  "item/commandExecution/terminalInteraction": { params: TerminalInteractionNotification };
  /** An item in its final, authoritative form. */
  "item/completed": { params: ItemCompletedNotification };
  /** Never sent, and deprecated: `fileChange` items and `turn/diff/updated` have what changes. */
  "item/fileChange/outputDelta": { params: FileChangeOutputDeltaNotification };
  /** A patch that the model is writing has grown. Sent while the arguments of the call stream in, before `item/started` of the item, which has the changes as they are going to be applied. */
  "item/fileChange/patchUpdated": { params: FileChangePatchUpdatedNotification };
  /** Progress of an MCP tool. */
  "item/mcpToolCall/progress": { params: McpToolCallProgressNotification };
  /** More text of a plan. */
  "item/plan/delta": { params: PlanDeltaNotification };
  /** A new summary section starts. */
  "item/reasoning/summaryPartAdded": { params: ReasoningSummaryPartAddedNotification };
  /** More text of a reasoning summary. */
  "item/reasoning/summaryTextDelta": { params: ReasoningSummaryTextDeltaNotification };
  /** More raw reasoning. */
  "item/reasoning/textDelta": { params: ReasoningTextDeltaNotification };
  /** Work on an item started. */
  "item/started": { params: ItemStartedNotification };
  /** A login at a server ended. */
  "mcpServer/oauthLogin/completed": { params: McpServerOauthLoginCompletedNotification };
  /** A server's startup status changed. */
  "mcpServer/startupStatus/updated": { params: McpServerStartupStatusUpdatedNotification };
  /** A request was routed to another model. */
  "model/rerouted": { params: ModelReroutedNotification };
  /** The provider requires the user's verification. */
  "model/verification": { params: ModelVerificationNotification };
  /** A process ended. */
  "process/exited": { params: ProcessExitedNotification };
  /** More output of a process. */
  "process/outputDelta": { params: ProcessOutputDeltaNotification };
  /** Never sent: the state of a remote-control link, which this server does not have. */
  "remoteControl/status/changed": { params: RemoteControlStatusChangedNotification };
  /** A pending server request was answered or cleared. */
  "serverRequest/resolved": { params: ServerRequestResolvedNotification };
  /** Skill files changed; list them again. */
  "skills/changed": { params?: Empty };
  /** A thread was archived. */
  "thread/archived": { params: ThreadIdNotification };
  /** A thread was unloaded. */
  "thread/closed": { params: ThreadIdNotification };
  /** Deprecated: see the `contextCompaction` item. */
  "thread/compacted": { params: ThreadCompactedNotification };
  /** A thread was deleted permanently. */
  "thread/deleted": { params: ThreadIdNotification };
  /** A goal was removed. */
  "thread/goal/cleared": { params: ThreadIdNotification };
  /** A goal was set, or its usage increased. */
  "thread/goal/updated": { params: ThreadGoalUpdatedNotification };
  /** A thread's title changed. */
  "thread/name/updated": { params: ThreadNameUpdatedNotification };
  /** The session ended. */
  "thread/realtime/closed": { params: ThreadRealtimeClosedNotification };
  /** An error of the session. */
  "thread/realtime/error": { params: ThreadRealtimeErrorNotification };
  /** An item of the realtime API. */
  "thread/realtime/itemAdded": { params: ThreadRealtimeItemAddedNotification };
  /** More audio. */
  "thread/realtime/outputAudio/delta": { params: ThreadRealtimeOutputAudioDeltaNotification };
  /** The SDP answer of WebRTC. */
  "thread/realtime/sdp": { params: ThreadRealtimeSdpNotification };
  /** A session started. */
  "thread/realtime/started": { params: ThreadRealtimeStartedNotification };
  /** More text of a transcript. */
  "thread/realtime/transcript/delta": { params: ThreadRealtimeTranscriptDeltaNotification };
  /** A complete transcript. */
  "thread/realtime/transcript/done": { params: ThreadRealtimeTranscriptDoneNotification };
  /** A thread was started, forked or created for a review. */
  "thread/started": { params: ThreadStartedNotification };
  /** A thread's runtime status changed. */
  "thread/status/changed": { params: ThreadStatusChangedNotification };
  /** Token usage of the turn in progress. */
  "thread/tokenUsage/updated": { params: ThreadTokenUsageUpdatedNotification };
  /** A thread was restored from the archive. */
  "thread/unarchived": { params: ThreadIdNotification };
  /** A turn ended; sent exactly once for each turn. */
  "turn/completed": { params: TurnCompletedNotification };
  /** Unified diff of all file changes so far. */
  "turn/diff/updated": { params: TurnDiffUpdatedNotification };
  /** The agent changed its plan. */
  "turn/plan/updated": { params: TurnPlanUpdatedNotification };
  /** A turn started. */
  "turn/started": { params: TurnStartedNotification };
  /** An error that does not stop the work. */
  "warning": { params: WarningNotification };
  /** Never sent: folders on Windows that every user can write to, which this server does not look for. */
  "windows/worldWritableWarning": { params: WindowsWorldWritableWarningNotification };
  /** Never sent: the end of a setup, which this server does not start. */
  "windowsSandbox/setupCompleted": { params: WindowsSandboxSetupCompletedNotification };
}

type Request<M> = {
  [K in keyof M]: { id: RequestId; method: K } & Omit<M[K], "result">;
}[keyof M];

type Notification<M> = {
  [K in keyof M]: { method: K } & M[K];
}[keyof M];

/** A request of the client. */
export type ClientRequest = Request<ClientRequests>;

/** A notification of the client. */
export type ClientNotification = Notification<ClientNotifications>;

/** A request of the server. */
export type ServerRequest = Request<ServerRequests>;

/** A notification from the server. With `capabilities.eventCursor`, notifications about a thread have an `eventCursor`. */
export type ServerNotification = Notification<ServerNotifications> & { eventCursor?: string };
