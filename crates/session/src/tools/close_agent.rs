//! `close_agent`: ends an agent and those that it started.

use super::agents::TargetTool;
use crate::port::agent_request::AgentRequest;
use crate::port::agents::AgentTool;

pub(super) const CLOSE: TargetTool = TargetTool {
    name: "close_agent",
    member: "target",
    description: "Ends one of your agents and those that it started. Its result stays readable.",
    kind: AgentTool::Close,
    request: |target| AgentRequest::Close { target },
};
