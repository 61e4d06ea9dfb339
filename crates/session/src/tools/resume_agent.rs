//! `resume_agent`: loads a closed agent again.

use super::agents::TargetTool;
use crate::port::agent_request::AgentRequest;
use crate::port::agents::AgentTool;

pub(super) const RESUME: TargetTool = TargetTool {
    name: "resume_agent",
    member: "id",
    description: "Loads one of your agents again that was closed or lost with a crash, so that it \
                  takes input.",
    kind: AgentTool::Resume,
    request: |target| AgentRequest::Resume { target },
};
