//! Images that the model views, and those that the tools of clients return.

use std::path::PathBuf;
use std::sync::Arc;

use images::Bounds;
use session::{ImageData, Prepared, ToolAnswer, ToolContent, ToolError};

use super::{Inspection, ToolContext, ToolInspector};
use services::allowed::MachineInput;
use services::error::Error;
use services::image_reader::{self, ImageReader};
use services::thread_port::Command;

/// Images of one answer of a client's tool; the model gets a note about further ones.
const ANSWER_IMAGES: usize = 20;

/// The result of an inspection.
pub(super) enum Found {
    /// The command for the thread.
    Command(Box<Command>),
    /// An image, which is prepared for the model next.
    Image(ReadImage),
}

impl From<Command> for Found {
    fn from(command: Command) -> Self {
        Self::Command(Box::new(command))
    }
}

/// An image that the model views, as its file holds it.
pub(super) struct ReadImage {
    call: u64,
    path: PathBuf,
    contents: Vec<u8>,
    bounds: Bounds,
}

impl ReadImage {
    /// Returns the command for the thread.
    pub(super) async fn prepared(self, images: &ImageReader) -> Command {
        let Self { call, path, contents, bounds } = self;
        let image = images.of_file(&path, contents, bounds).await;
        let path = path.display().to_string();
        viewed(call, image.map(|data_url| ImageData { path, data_url }))
    }
}

fn viewed(call: u64, image: Result<ImageData, Error>) -> Command {
    let outcome = Prepared::Image(image.map_err(|error| ToolError::new(error.to_string())));
    Command::Input(MachineInput::Prepared { call, outcome })
}

impl Inspection {
    /// Reads the file of an image.
    pub(super) fn look_at_image(&self, call: u64, path: &str) -> Found {
        let path = self.settings.cwd.join(path);
        let path = self.policy().check_read(&path);
        let path = path.map_err(|denied| Error::denied(denied.to_string()));
        let read = path.and_then(|path| Ok((image_reader::contents(&path)?, path)));
        match read {
            Ok((contents, path)) => {
                Found::Image(ReadImage { call, path, contents, bounds: self.image_bounds() })
            }
            Err(error) => viewed(call, Err(error)).into(),
        }
    }

    fn image_bounds(&self) -> Bounds {
        let (provider, model) = (&self.settings.provider, &self.settings.model);
        image_reader::bounds_of(&self.services.models.info(&self.config, provider, model))
    }
}

/// Prepares the images of a tool's answer for the model.
pub(in crate::thread) struct AnswerImages {
    reader: Arc<ImageReader>,
    bounds: Bounds,
}

impl AnswerImages {
    /// The content with its images as the model takes them. One that cannot be used is replaced by the
    /// reason.
    pub(in crate::thread) async fn prepared(&self, content: Vec<ToolContent>) -> Vec<ToolContent> {
        let mut prepared = Vec::with_capacity(content.len());
        let mut count = 0;
        for part in content {
            prepared.push(match part {
                ToolContent::Image { url } => {
                    count += 1;
                    image_of_tool(&self.reader, &url, self.bounds, count).await
                }
                text @ ToolContent::Text(_) => text,
            });
        }
        prepared
    }
}

impl ToolInspector {
    pub(in crate::thread) fn answer_images(&self, context: ToolContext) -> AnswerImages {
        let inspection = self.inspection(context);
        let bounds = inspection.image_bounds();
        AnswerImages { reader: inspection.services.images, bounds }
    }

    /// Prepares the images of a tool's answer for the model. One that cannot be used is replaced by
    /// the reason.
    pub(in crate::thread) fn prepare_answer(
        &mut self,
        request: u64,
        answer: ToolAnswer,
        context: ToolContext,
    ) {
        let images = self.answer_images(context);
        self.in_order(async move {
            let content = images.prepared(answer.content).await;
            let outcome = Ok(ToolAnswer { content, ..answer });
            [Command::Input(MachineInput::ToolAnswered { request, outcome })]
        });
    }
}

async fn image_of_tool(
    images: &ImageReader,
    url: &str,
    bounds: Bounds,
    number: usize,
) -> ToolContent {
    if number > ANSWER_IMAGES {
        return ToolContent::Text(format!(
            "[image {number} of the result is left out: at most {ANSWER_IMAGES} are shown]"
        ));
    }
    match images.url(url, bounds).await {
        Ok(url) => ToolContent::Image { url },
        Err(error) => {
            ToolContent::Text(format!("[image {number} of the result cannot be shown: {error}]"))
        }
    }
}
