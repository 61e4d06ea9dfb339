//! Collaboration modes: what a turn's `collaborationMode` can be.

use protocol::{
    CollaborationMethods, CollaborationModeListResponse, CollaborationModeMask, Empty, ModeKind,
    ReasoningEffort,
};

use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

impl CollaborationMethods<Caller> for Server {
    /// The presets: each mode, with the reasoning effort that the configuration sets for it.
    async fn collaboration_mode_list(
        &self,
        caller: Caller,
        _params: Empty,
    ) -> Result<CollaborationModeListResponse, Error> {
        let config = self.services.configurations.own_for(&caller.peer)?.resolved.config;
        let planning: Option<ReasoningEffort> = config
            .plan_mode_reasoning_effort
            .map(|effort| serde_json::Value::from(effort.as_str()))
            .and_then(|effort| serde_json::from_value(effort).ok());
        let mask = |name: &str, mode, reasoning_effort| CollaborationModeMask {
            name: name.to_owned(),
            mode: Some(mode),
            model: None,
            reasoning_effort,
        };
        let data =
            vec![mask("Plan", ModeKind::Plan, planning), mask("Default", ModeKind::Default, None)];
        Ok(CollaborationModeListResponse { data })
    }
}
