"""The union of all events, by their method: after `if event.method == "turn/completed"`, `event.params` has its type.

A server that is newer than this package may send others, with the same attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from ._events import Notification

if TYPE_CHECKING:
    from . import types as t


class TurnReplacedParams(TypedDict):
    """Parameters of the event `turn/replaced`, in place of events of a turn that are gone."""

    threadId: str
    #: The turn with its items so far.
    turn: t.Turn


class ReplacedParams(TypedDict):
    """Parameters of the event `replaced` of a thread, in place of events that are gone."""

    threadId: str
    #: `reloaded`, `tooOld` (see docs/reconnecting.md), or `lagged`: this reader left too many events unread.
    reason: Optional[str]
    #: The turns as they are: of the turn `fromTurnId` and later ones, or of the whole thread.
    turns: list[t.Turn]
    fromTurnId: Optional[str]
    #: Without it, earlier turns are left out: `thread.read()` has them.
    isComplete: bool


if TYPE_CHECKING:
    Empty = dict[str, Any]
    Event = Union[
        Notification[Literal["replaced"], ReplacedParams],
        Notification[Literal["turn/replaced"], TurnReplacedParams],
        Notification[Literal["account/login/completed"], t.AccountLoginCompletedNotification],
        Notification[Literal["account/rateLimits/updated"], t.AccountRateLimitsUpdatedNotification],
        Notification[Literal["account/updated"], t.AccountUpdatedNotification],
        Notification[Literal["app/list/updated"], t.AppListUpdatedNotification],
        Notification[Literal["command/exec/outputDelta"], t.CommandExecOutputDeltaNotification],
        Notification[Literal["configWarning"], t.ConfigWarningNotification],
        Notification[Literal["deprecationNotice"], t.DeprecationNoticeNotification],
        Notification[Literal["error"], t.ErrorNotification],
        Notification[Literal["externalAgentConfig/import/completed"], Empty],
        Notification[Literal["fs/changed"], t.FsChangedNotification],
        Notification[Literal["fuzzyFileSearch/sessionCompleted"], t.FuzzyFileSearchSessionCompletedNotification],
        Notification[Literal["fuzzyFileSearch/sessionUpdated"], t.FuzzyFileSearchSessionUpdatedNotification],
        Notification[Literal["guardianWarning"], t.GuardianWarningNotification],
        Notification[Literal["hook/completed"], t.HookRunNotification],
        Notification[Literal["hook/started"], t.HookRunNotification],
        Notification[Literal["item/agentMessage/delta"], t.AgentMessageDeltaNotification],
        Notification[Literal["item/autoApprovalReview/completed"], t.ItemAutoApprovalReviewCompletedNotification],
        Notification[Literal["item/autoApprovalReview/started"], t.ItemAutoApprovalReviewStartedNotification],
        Notification[Literal["item/commandExecution/outputDelta"], t.CommandExecutionOutputDeltaNotification],
        Notification[Literal["item/commandExecution/running"], t.CommandExecutionRunningNotification],
        Notification[Literal["item/commandExecution/terminalInteraction"], t.TerminalInteractionNotification],
        Notification[Literal["item/completed"], t.ItemCompletedNotification],
        Notification[Literal["item/fileChange/outputDelta"], t.FileChangeOutputDeltaNotification],
        Notification[Literal["item/fileChange/patchUpdated"], t.FileChangePatchUpdatedNotification],
        Notification[Literal["item/mcpToolCall/progress"], t.McpToolCallProgressNotification],
        Notification[Literal["item/plan/delta"], t.PlanDeltaNotification],
        Notification[Literal["item/reasoning/summaryPartAdded"], t.ReasoningSummaryPartAddedNotification],
        Notification[Literal["item/reasoning/summaryTextDelta"], t.ReasoningSummaryTextDeltaNotification],
        Notification[Literal["item/reasoning/textDelta"], t.ReasoningTextDeltaNotification],
        Notification[Literal["item/started"], t.ItemStartedNotification],
        Notification[Literal["mcpServer/oauthLogin/completed"], t.McpServerOauthLoginCompletedNotification],
        Notification[Literal["mcpServer/startupStatus/updated"], t.McpServerStartupStatusUpdatedNotification],
        Notification[Literal["model/rerouted"], t.ModelReroutedNotification],
        Notification[Literal["model/verification"], t.ModelVerificationNotification],
        Notification[Literal["process/exited"], t.ProcessExitedNotification],
        Notification[Literal["process/outputDelta"], t.ProcessOutputDeltaNotification],
        Notification[Literal["remoteControl/status/changed"], t.RemoteControlStatusChangedNotification],
        Notification[Literal["serverRequest/resolved"], t.ServerRequestResolvedNotification],
        Notification[Literal["skills/changed"], Empty],
        Notification[Literal["thread/archived"], t.ThreadIdNotification],
        Notification[Literal["thread/closed"], t.ThreadIdNotification],
        Notification[Literal["thread/compacted"], t.ThreadCompactedNotification],
        Notification[Literal["thread/deleted"], t.ThreadIdNotification],
        Notification[Literal["thread/goal/cleared"], t.ThreadIdNotification],
        Notification[Literal["thread/goal/updated"], t.ThreadGoalUpdatedNotification],
        Notification[Literal["thread/metadata/updated"], t.ThreadMetadataUpdatedNotification],
        Notification[Literal["thread/name/updated"], t.ThreadNameUpdatedNotification],
        Notification[Literal["thread/queue/changed"], t.ThreadQueueChangedNotification],
        Notification[Literal["thread/realtime/closed"], t.ThreadRealtimeClosedNotification],
        Notification[Literal["thread/realtime/error"], t.ThreadRealtimeErrorNotification],
        Notification[Literal["thread/realtime/itemAdded"], t.ThreadRealtimeItemAddedNotification],
        Notification[Literal["thread/realtime/outputAudio/delta"], t.ThreadRealtimeOutputAudioDeltaNotification],
        Notification[Literal["thread/realtime/sdp"], t.ThreadRealtimeSdpNotification],
        Notification[Literal["thread/realtime/started"], t.ThreadRealtimeStartedNotification],
        Notification[Literal["thread/realtime/transcript/delta"], t.ThreadRealtimeTranscriptDeltaNotification],
        Notification[Literal["thread/realtime/transcript/done"], t.ThreadRealtimeTranscriptDoneNotification],
        Notification[Literal["thread/rolledBack"], t.ThreadRolledBackNotification],
        Notification[Literal["thread/search/partial"], t.ThreadSearchPartialNotification],
        Notification[Literal["thread/settings/updated"], t.ThreadSettingsUpdatedNotification],
        Notification[Literal["thread/started"], t.ThreadStartedNotification],
        Notification[Literal["thread/status/changed"], t.ThreadStatusChangedNotification],
        Notification[Literal["thread/tokenUsage/updated"], t.ThreadTokenUsageUpdatedNotification],
        Notification[Literal["thread/unarchived"], t.ThreadIdNotification],
        Notification[Literal["turn/completed"], t.TurnCompletedNotification],
        Notification[Literal["turn/diff/updated"], t.TurnDiffUpdatedNotification],
        Notification[Literal["turn/plan/updated"], t.TurnPlanUpdatedNotification],
        Notification[Literal["turn/started"], t.TurnStartedNotification],
        Notification[Literal["warning"], t.WarningNotification],
        Notification[Literal["windows/worldWritableWarning"], t.WindowsWorldWritableWarningNotification],
        Notification[Literal["windowsSandbox/setupCompleted"], t.WindowsSandboxSetupCompletedNotification],
    ]
else:
    Event = Notification
