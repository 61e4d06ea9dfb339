//! Turns: started, steered, interrupted (specification: Turns and review).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use images::Bounds;
use protocol::input::{ByteRange, TextElement};
use protocol::{
    Empty, JsonText, TurnInterruptParams, TurnMethods, TurnStartParams, TurnStartResponse,
    TurnSteerParams, TurnSteerResponse, UserInput,
};
use session::{Answer, Author, Mode, Overrides, UserContent};
use tokio::sync::oneshot;

use crate::handlers::refuse_missing;
use crate::server::{Server, Services};
use services::allowed::MachineInput;
use services::budget::TurnBudget;
use services::convert::settings::{
    check_model, chosen_tier, client_approval, client_reviewer, client_sandbox, name,
};
use services::error::Error;
use services::image_reader::{self, ImageReader};
use services::mcp_servers::ResourceImages;
use services::peer::{Caller, Gate};
use services::skills::{SkillInputs, may_use_skills};
use services::thread_port::{AnswerSender, Command, InputTarget, ThreadHandle, TurnStart};
use services::{bounds, convert, folders};

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
        let content =
            user_content(&self.services, &params.thread_id, &handle, over, &params.input).await?;
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
        let content =
            user_content(&self.services, &params.thread_id, &handle, (None, None), &params.input)
                .await?;
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

/// The target that the images of an input are prepared for.
struct ImageTarget {
    bounds: Bounds,
    /// Maximum total bytes.
    total: usize,
    /// Folder of relative paths.
    cwd: PathBuf,
}

/// The user's input for this model and folder, by default those of the thread. Images are prepared
/// and mentioned resources are read here, because the session performs no I/O.
async fn user_content(
    services: &Services,
    thread: &str,
    handle: &ThreadHandle,
    over: (Option<&str>, Option<&Path>),
    input: &[UserInput],
) -> Result<Vec<UserContent>, Error> {
    bounds::check_parts(input)?;
    let uses = InputUses::of(input);
    // All parts are prepared for the thread as it is at one moment.
    let facts = match uses.needs_thread() {
        true => Some(handle.input_target(over.0).await?),
        false => None,
    };
    let target = image_target(facts.as_ref(), over.1, uses.first_image)?;
    let (images, most) = resource_images(&services.images, facts.as_ref());
    let mentions = services.mcp.mentions(thread, input, images)?;
    let skills_of = facts.as_ref().filter(|_| uses.skills);
    let mut skills = skill_inputs(services, thread, (skills_of, over.1), input).await?;
    let mut content = Vec::with_capacity(input.len());
    for (at, part) in input.iter().enumerate() {
        if let UserInput::Mention { name, path } = part {
            let read = mentions.read(name, path).await;
            content.extend(read.map_err(|error| error.within(&format!("`input[{at}].path`")))?);
            bounds::check_images(&content, most)?;
            continue;
        }
        if let UserInput::Skill { name, path } = part {
            let used = skills.part(name, path).await;
            content.push(used.map_err(|error| error.within(&format!("`input[{at}]`")))?);
            continue;
        }
        content.push(user_part(&services.images, &target, at, part).await?);
        if bounds::is_image(part) {
            bounds::check_images(&content, target.total)?;
        }
    }
    content.extend(skills.named(input).await?);
    Ok(content)
}

/// The parts of an input that depend on its thread.
struct InputUses {
    /// The position of the first image.
    first_image: Option<usize>,
    mentions: bool,
    skills: bool,
}

impl InputUses {
    fn of(input: &[UserInput]) -> Self {
        Self {
            first_image: input.iter().position(bounds::is_image),
            mentions: input.iter().any(|part| matches!(part, UserInput::Mention { .. })),
            skills: may_use_skills(input),
        }
    }

    fn needs_thread(&self) -> bool {
        self.first_image.is_some() || self.mentions || self.skills
    }
}

/// Returns the settings for preparing images of mentioned resources, and the maximum bytes of all
/// images of the input. `thread` is there when the input mentions something.
fn resource_images<'s>(
    reader: &'s ImageReader,
    thread: Option<&InputTarget>,
) -> (ResourceImages<'s>, usize) {
    let Some(InputTarget { model, .. }) = thread else {
        return (ResourceImages { reader, bounds: None }, usize::MAX);
    };
    let bounds = model.accepts_images().then(|| image_reader::bounds_of(model));
    (ResourceImages { reader, bounds }, image_reader::request_bytes(model))
}

/// The skills that an input to a thread may use; none unless the facts of the thread are given.
async fn skill_inputs<'s>(
    services: &'s Services,
    thread: &str,
    (facts, cwd): (Option<&InputTarget>, Option<&Path>),
    input: &[UserInput],
) -> Result<SkillInputs<'s>, Error> {
    let Some(facts) = facts else {
        return Ok(SkillInputs::none(&services.skills));
    };
    let cwd = cwd.unwrap_or(&facts.cwd);
    // As it is now: that of the thread is from its last turn.
    let loaded = services.configurations.in_folder(cwd, facts.overrides.as_ref()).await?;
    let servers = services.mcp.skills(thread);
    services.skills.inputs(cwd, &loaded.resolved.config, servers, input).await
}

/// Returns the settings for preparing the images of the input. `first` is the position of the first one.
fn image_target(
    thread: Option<&InputTarget>,
    cwd: Option<&Path>,
    first: Option<usize>,
) -> Result<ImageTarget, Error> {
    let (Some(InputTarget { model, cwd: own, .. }), Some(first)) = (thread, first) else {
        let (bounds, total) = (Bounds::default(), usize::MAX);
        return Ok(ImageTarget { bounds, total, cwd: PathBuf::new() });
    };
    if model.accepts_images() {
        return Ok(ImageTarget {
            bounds: image_reader::bounds_of(model),
            total: image_reader::request_bytes(model),
            cwd: cwd.unwrap_or(own).to_owned(),
        });
    }
    let message = format!("`input[{first}]`: the model `{}` does not accept images", model.id);
    Err(Error::invalid_params(message).next_step(
        "leave the image out, or choose a model whose `inputModalities` include `image`",
    ))
}

async fn user_part(
    images: &ImageReader,
    target: &ImageTarget,
    at: usize,
    part: &UserInput,
) -> Result<UserContent, Error> {
    match part {
        UserInput::Text { text, text_elements } => Ok(UserContent::Text {
            text: text.clone(),
            elements: text_elements_of(at, text, text_elements)?,
        }),
        UserInput::Image { url } => {
            let url = images.url(url, target.bounds).await;
            let url = url.map_err(|error| error.within(&format!("`input[{at}].url`")))?;
            Ok(UserContent::Image { url })
        }
        UserInput::LocalImage { path } => {
            let path = target.cwd.join(path);
            let data_url = images.file(&path, target.bounds).await;
            let data_url =
                data_url.map_err(|error| error.within(&format!("`input[{at}].path`")))?;
            Ok(UserContent::LocalImage { path: path.display().to_string(), data_url })
        }
        UserInput::Skill { .. } => Err(Error::not_implemented("this `skill` input")),
        UserInput::Mention { .. } => Err(Error::not_implemented("this `mention` input")),
    }
}

/// The elements of a text, checked against its length.
fn text_elements_of(
    at: usize,
    text: &str,
    elements: &[TextElement],
) -> Result<Vec<session::TextElement>, Error> {
    let element = |(number, element): (usize, &TextElement)| {
        let ByteRange { start, end } = element.byte_range;
        if start > end || end > text.len() as u64 {
            return Err(Error::invalid_params(format!(
                "`input[{at}].text_elements[{number}].byteRange`: {start} to {end} is out of range of a \
                 text of {} bytes",
                text.len()
            )));
        }
        Ok(session::TextElement { start, end, placeholder: element.placeholder.clone() })
    };
    elements.iter().enumerate().map(element).collect()
}
