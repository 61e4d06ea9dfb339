//! `view_image`: shows the model an image file.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Found, Step, Tool, ToolCall, function};
use crate::Id;
use crate::history::CallOutput;
use crate::port::item::Item;
use crate::port::tool::{ImageData, ToolRequest};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;
use crate::tools::rejected::RejectedCall;

const NAME: &str = "view_image";

pub(super) struct ViewImage;

#[derive(Debug)]
struct ImageCall {
    path: String,
}

impl Tool for ViewImage {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Shows you an image file of this machine.";
        let properties = json!({ "path": { "type": "string", "description": "The file." } });
        let definition = || function(NAME, description, &["path"], &properties);
        self.is_callable(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.view_image
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let path = arguments.needed_text("path", "the path of an image file")?;
        Ok(Box::new(ImageCall { path }))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        let path = match call.text("path") {
            Some(path) => call.cwd.join(path),
            None => call.cwd.to_owned(),
        };
        image_item(id, path.display().to_string())
    }
}

impl ToolCall for ImageCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::Prepare(ToolRequest::Image { path: self.path.clone() })
    }

    fn prepared(&self, found: Found, cx: &mut CallCx<'_>) -> Option<Step> {
        let output = match found {
            Found::Image(Ok(ImageData { path, data_url })) => {
                let item = image_item(cx.cx.item_id(), path);
                cx.cx.whole_item(cx.turn, item);
                CallOutput::Image { data_url }
            }
            Found::Image(Err(error)) => {
                let path = cx.settings.cwd.join(&self.path).display().to_string();
                let item = image_item(cx.cx.item_id(), path);
                cx.cx.failed_item(cx.turn, item, error.message());
                CallOutput::Text(error.into_message())
            }
            Found::Command(_) | Found::Patch(_) | Found::Permissions(_) | Found::JobOutput(_) => {
                return None;
            }
        };
        Some(Step::Finish(output))
    }
}

fn image_item(id: Id, path: String) -> Item {
    Item::ImageView { id, path, reason: None }
}
