//! Reads the input of a turn as the session takes it: images are prepared, and mentioned resources and
//! skills are read here, because the session performs no I/O.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use images::Bounds;
use protocol::UserInput;
use protocol::input::{ByteRange, TextElement};
use session::UserContent;

use services::bounds;
use services::configurations::Configurations;
use services::error::Error;
use services::image_reader::{self, ImageReader};
use services::loaded_threads::LoadedThreads;
use services::mcp_servers::{McpServers, ResourceImages};
use services::skills::{SkillInputs, Skills, may_use_skills};
use services::thread_port::{InputTarget, ThreadHandle};
use threads::thread::ReadInput;

/// The services for reading the input of turns. Cheap to clone.
#[derive(Clone)]
pub(crate) struct InputReader {
    pub(crate) configurations: Arc<Configurations>,
    pub(crate) images: Arc<ImageReader>,
    pub(crate) mcp: Arc<McpServers>,
    pub(crate) skills: Arc<Skills>,
}

impl InputReader {
    /// The way in which threads read the messages of their queues.
    pub(crate) fn for_queues(self, threads: Arc<LoadedThreads>) -> ReadInput {
        Arc::new(move |thread, input| {
            let (reader, threads) = (self.clone(), threads.clone());
            Box::pin(async move {
                // It asks, so that it is loaded.
                let handle = threads.get(&thread).ok_or_else(|| Error::unknown_thread(&thread))?;
                reader.read(&thread, &handle, (None, None), &input).await
            })
        })
    }

    /// The user's input for this model and folder, by default those of the thread.
    pub(crate) async fn read(
        &self,
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
        let (images, most) = resource_images(&self.images, facts.as_ref());
        let mentions = self.mcp.mentions(thread, input, images)?;
        let skills_of = facts.as_ref().filter(|_| uses.skills);
        let mut skills = self.skill_inputs(thread, (skills_of, over.1), input).await?;
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
            content.push(user_part(&self.images, &target, at, part).await?);
            if bounds::is_image(part) {
                bounds::check_images(&content, target.total)?;
            }
        }
        content.extend(skills.named(input).await?);
        Ok(content)
    }

    /// The skills that an input to a thread may use; none unless the facts of the thread are given.
    async fn skill_inputs(
        &self,
        thread: &str,
        (facts, cwd): (Option<&InputTarget>, Option<&Path>),
        input: &[UserInput],
    ) -> Result<SkillInputs<'_>, Error> {
        let Some(facts) = facts else {
            return Ok(SkillInputs::none(&self.skills));
        };
        let cwd = cwd.unwrap_or(&facts.cwd);
        // As it is now: that of the thread is from its last turn.
        let loaded = self.configurations.in_folder(cwd, facts.overrides.as_ref()).await?;
        let servers = self.mcp.skills(thread);
        self.skills.inputs(cwd, &loaded.resolved.config, servers, input).await
    }
}

/// The target that the images of an input are prepared for.
struct ImageTarget {
    bounds: Bounds,
    /// Maximum total bytes.
    total: usize,
    /// Folder of relative paths.
    cwd: PathBuf,
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

/// Checks the text elements of an input that is read later.
pub(crate) fn check_text_elements(input: &[UserInput]) -> Result<(), Error> {
    for (at, part) in input.iter().enumerate() {
        if let UserInput::Text { text, text_elements } = part {
            text_elements_of(at, text, text_elements)?;
        }
    }
    Ok(())
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
