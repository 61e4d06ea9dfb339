//! Turns: started, steered, interrupted (specification: Turns and review).

use std::path::PathBuf;
use std::sync::Arc;

use protocol::{
    Empty, JsonText, TurnInterruptParams, TurnMethods, TurnStartParams, TurnStartResponse,
    TurnSteerParams, TurnSteerResponse,
};
use session::{Answer, Author, Mode, Overrides};
use tokio::sync::oneshot;

use crate::handlers::refuse_missing;
use crate::server::Server;
use services::allowed::MachineInput;
use services::budget::TurnBudget;
use services::convert::settings::{
    check_model, chosen_tier, client_approval, client_reviewer, client_sandbox, name,
};
use services::error::Error;
use services::peer::{Caller, Gate};
use services::thread_port::{AnswerSender, Command, ThreadHandle, TurnStart};
use services::{convert, folders};

/// Longest `turnTrigger`, in characters.
const MAX_TRIGGER: usize = 256;

impl TurnMethods<Caller> for Server {
    async fn turn_start(
        &self,
        caller: Caller,
        params: TurnStartParams,
    ) -> Result<TurnStartResponse, Error> {
        refuse_missing("turn/start", &not_yet(&params))?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        let output_schema = params.output_schema.as_ref().map(output_schema).transpose()?;
        let cwd = folders::optional_cwd(&self.services.files, params.cwd.as_deref()).await?;
        let overrides = overrides(&params, cwd)?;
        let over = (overrides.model.as_deref(), overrides.cwd.as_deref());
        let inputs = &self.services.inputs;
        let content = inputs.read(&params.thread_id, &handle, over, &params.input).await?;
        let max_tokens = params.max_total_tokens;
        if max_tokens.is_some_and(|tokens| tokens < 1) {
            return Err(Error::invalid_params("`maxTotalTokens` must be at least 1"));
        }
        let permissions = params.permissions.clone();
        if permissions.is_some() && overrides.sandbox.is_some() {
            return Err(Error::exclusive("permissions", "sandboxPolicy"));
        }
        let trigger = params.turn_trigger;
        if trigger.as_ref().is_some_and(|trigger| trigger.chars().count() > MAX_TRIGGER) {
            let message = format!("`turnTrigger` has at most {MAX_TRIGGER} characters");
            return Err(Error::invalid_params(message));
        }
        let started = send(&handle, caller.gate(), |answer, gate| {
            Command::StartTurn(TurnStart {
                author: Author::User,
                content,
                overrides: Box::new(overrides),
                permissions,
                output_schema,
                budget: TurnBudget::Own { max_tokens },
                trace: caller.trace(),
                is_withdrawable: false,
                answer,
                gate,
            })
        });
        match started.await? {
            Answer::Started(view) => {
                if let Some(trigger) = trigger {
                    let turn = &view.id;
                    tracing::info!(target: "server::turn", %turn, ?trigger, "started by a client");
                }
                Ok(TurnStartResponse { turn: convert::event::turn(&view) })
            }
            _ => Err(Error::mismatched_answer("turn/start")),
        }
    }

    async fn turn_steer(
        &self,
        caller: Caller,
        params: TurnSteerParams,
    ) -> Result<TurnSteerResponse, Error> {
        let metadata = params.responsesapi_client_metadata.is_some();
        refuse_missing("turn/steer", &[("responsesapiClientMetadata", metadata)])?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        let inputs = &self.services.inputs;
        let content = inputs.read(&params.thread_id, &handle, (None, None), &params.input).await?;
        let expected_turn = params.expected_turn_id;
        let steered = ask(&handle, caller.gate(), move |reply| MachineInput::Steer {
            reply,
            content,
            expected_turn,
        });
        match steered.await? {
            Answer::Steered { turn } => Ok(TurnSteerResponse { turn_id: turn.to_string() }),
            _ => Err(Error::mismatched_answer("turn/steer")),
        }
    }

    async fn turn_interrupt(
        &self,
        caller: Caller,
        params: TurnInterruptParams,
    ) -> Result<Empty, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        let turn = params.turn_id;
        send(&handle, caller.gate(), |answer, gate| Command::Interrupt { turn, answer, gate })
            .await?;
        Ok(Empty {})
    }
}

/// Sends the session an input and waits for its answer.
pub(crate) async fn ask(
    handle: &ThreadHandle,
    gate: Gate,
    input: impl FnOnce(u64) -> MachineInput + Send + 'static,
) -> Result<Answer, Error> {
    handle.ask(gate, input).await
}

/// Sends a command to the thread and waits for the session's answer.
pub(crate) async fn send(
    handle: &ThreadHandle,
    gate: Gate,
    command: impl FnOnce(AnswerSender, Gate) -> Command,
) -> Result<Answer, Error> {
    let (sender, answer) = oneshot::channel();
    handle.send(command(sender, gate)).await;
    match answer.await {
        Ok(answered) => answered,
        Err(_) => Err(handle.unloaded()),
    }
}

fn not_yet(params: &TurnStartParams) -> [(&'static str, bool); 2] {
    [
        ("environments", params.environments.is_some()),
        ("responsesapiClientMetadata", params.responsesapi_client_metadata.is_some()),
    ]
}

fn overrides(params: &TurnStartParams, cwd: Option<PathBuf>) -> Result<Overrides, Error> {
    let mode = params.collaboration_mode.as_ref().map(|mode| {
        let kind = match mode.mode {
            protocol::ModeKind::Plan => Mode::Plan,
            protocol::ModeKind::Default => Mode::Default,
        };
        (kind, mode.settings.developer_instructions.clone())
    });
    let by_mode = params.collaboration_mode.as_ref().map(|mode| &mode.settings);
    let mode_model = by_mode.map(|settings| settings.model.as_str());
    check_model("collaborationMode.settings.model", mode_model)?;
    check_model("model", params.model.as_deref())?;
    let service_tier = match &params.service_tier {
        // Null takes the choice back.
        Some(None) => Some(None),
        given => chosen_tier("serviceTier", given.as_ref().and_then(Option::as_deref))?,
    };
    let for_turn = params.service_tier_for_turn.as_deref();
    let turn_service_tier = chosen_tier("serviceTierForTurn", for_turn)?;
    let model = params.model.as_deref().or(mode_model).map(str::to_owned);
    let effort = params.effort.or_else(|| by_mode.and_then(|settings| settings.reasoning_effort));
    Ok(Overrides {
        model,
        provider: None,
        cwd,
        approval: params.approval_policy.as_ref().map(client_approval),
        reviewer: params.approvals_reviewer.map(client_reviewer),
        sandbox: params.sandbox_policy.as_ref().map(client_sandbox).transpose()?,
        effort: effort.as_ref().map(name),
        summary: params.summary.as_ref().map(name),
        personality: params.personality.as_ref().map(name),
        service_tier,
        turn_service_tier,
        mode,
    })
}

fn output_schema(schema: &JsonText) -> Result<Arc<str>, Error> {
    if !schema.is_object() {
        return Err(Error::invalid_params("`outputSchema` must be a JSON Schema object"));
    }
    Ok(schema.as_str().into())
}
