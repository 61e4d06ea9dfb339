"""The parameters of threads and turns that are given by name, which are those of the protocol, and their check."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

if TYPE_CHECKING:
    from .types import (
        ApprovalsReviewer,
        AskForApproval,
        CollaborationMode,
        DynamicToolSpec,
        PermissionProfileSelectionParams,
        Personality,
        ReasoningEffort,
        ReasoningSummary,
        ResponseItem,
        SandboxMode,
        SandboxPolicy,
        SortDirection,
        ThreadSortKey,
        ThreadSource,
        ThreadSourceKind,
        ThreadStartSource,
        ThreadWorktreeParams,
        TurnEnvironmentParams,
    )

Path = Union[str, "os.PathLike[str]"]
#: What a call does while another turn or compaction runs in the thread.
OnBusy = Literal["wait", "join", "error"]


class CommonOptions(TypedDict, total=False):
    """Parameters of a thread, however it is opened."""

    model: Optional[str]
    modelProvider: Optional[str]
    serviceTier: Optional[str]
    cwd: Optional[Path]
    approvalPolicy: Optional[AskForApproval]
    approvalsReviewer: Optional[ApprovalsReviewer]
    sandbox: Optional[SandboxMode]
    permissions: Optional[PermissionProfileSelectionParams]
    config: Optional[Mapping[str, Any]]
    baseInstructions: Optional[str]
    developerInstructions: Optional[str]
    persistExtendedHistory: bool


class ThreadOptions(CommonOptions, total=False):
    """Parameters of `thread/start`."""

    personality: Optional[Personality]
    serviceName: Optional[str]
    ephemeral: Optional[bool]
    dynamicTools: Optional[Sequence[DynamicToolSpec]]
    environments: Optional[Sequence[TurnEnvironmentParams]]
    experimentalRawEvents: bool
    mockExperimentalField: Optional[str]
    sessionStartSource: Optional[ThreadStartSource]
    threadSource: Optional[ThreadSource]
    worktree: Optional[ThreadWorktreeParams]


class ResumeOptions(CommonOptions, total=False):
    """Parameters of `thread/resume`."""

    personality: Optional[Personality]
    serviceName: Optional[str]
    dynamicTools: Optional[Sequence[DynamicToolSpec]]
    excludeTurns: bool
    history: Optional[Sequence[ResponseItem]]
    path: Optional[Path]


class ForkOptions(CommonOptions, total=False):
    """Parameters of `thread/fork`."""

    ephemeral: bool
    threadSource: Optional[ThreadSource]
    lastTurnId: Optional[str]
    excludeTurns: bool
    path: Optional[Path]


class TurnOptions(TypedDict, total=False):
    """Parameters of `turn/start`."""

    cwd: Optional[Path]
    approvalPolicy: Optional[AskForApproval]
    approvalsReviewer: Optional[ApprovalsReviewer]
    sandboxPolicy: Optional[SandboxPolicy]
    permissions: Optional[PermissionProfileSelectionParams]
    model: Optional[str]
    serviceTier: Optional[str]
    serviceTierForTurn: Optional[str]
    effort: Optional[ReasoningEffort]
    summary: Optional[ReasoningSummary]
    personality: Optional[Personality]
    collaborationMode: Optional[CollaborationMode]
    outputSchema: Any
    turnTrigger: Optional[str]
    maxTotalTokens: Optional[int]
    environments: Optional[Sequence[TurnEnvironmentParams]]
    responsesapiClientMetadata: Optional[Mapping[str, str]]


class ListOptions(TypedDict, total=False):
    """Filters of `thread/list`."""

    sortKey: Optional[ThreadSortKey]
    sortDirection: Optional[SortDirection]
    modelProviders: Optional[Sequence[str]]
    sourceKinds: Optional[Sequence[ThreadSourceKind]]
    archived: Optional[bool]
    cwd: Union[Path, Sequence[str], None]
    searchTerm: Optional[str]
    useStateDbOnly: bool


class SearchOptions(TypedDict, total=False):
    """Filters of `thread/search`."""

    sortKey: Optional[ThreadSortKey]
    sortDirection: Optional[SortDirection]
    sourceKinds: Optional[Sequence[ThreadSourceKind]]
    archived: Optional[bool]
    cwd: Union[Path, Sequence[str], None]


def checked(options: type[Any], given: Mapping[str, Any], call: str) -> dict[str, Any]:
    """The parameters as they are sent. Raises :class:`TypeError` that names the one that is unknown or has a wrong type."""
    known: dict[str, Any] = options.__annotations__
    result: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            close = difflib.get_close_matches(name.replace("_", "").lower(), [it.lower() for it in known], 1)
            near = [it for it in known if close and it.lower() == close[0]]
            raise TypeError(f"`{call}` has no parameter `{name}`" + (f": is it `{near[0]}`?" if near else ""))
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        result[name] = of_type(name, value, *_types_of(known[name]))
    return result


def of_type(name: str, value: Any, *kinds: type) -> Any:
    """The value of an argument. Raises :class:`TypeError` with its name when it is of another type than these."""
    if value is None or not kinds:
        return value
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(_NAMES.get(it, it.__name__) for it in kinds)
        raise TypeError(f"`{name}` is of the type {type(value).__name__}, not {wanted}")
    return value


_NAMES: dict[Any, str] = {Mapping: "a mapping", os.PathLike: "a path"}


def _types_of(annotation: Any) -> tuple[Any, ...]:
    """The types that JSON has for an annotation, which is not evaluated."""
    text = annotation.__forward_arg__ if hasattr(annotation, "__forward_arg__") else str(annotation)
    inner = text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else text
    if inner in ("str", "Path"):
        return (str,)
    if inner in ("bool", "int"):
        return ({"bool": bool, "int": int}[inner],)
    if inner.startswith("Mapping["):
        return (Mapping,)
    if inner.startswith("Sequence["):
        return (list, tuple)
    if inner == "Any":
        return ()
    if inner.startswith("Union["):
        return (str, list, tuple)
    # A choice of the protocol: a word or an object.
    return (str, Mapping)
