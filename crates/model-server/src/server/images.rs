//! `POST …/images/…`: the requested number of one-pixel transparent images.

use serde_json::{Value, json};

use super::{
    offline::{Call, Offline, number},
    reply::{Answered, Refused, Reply},
    saying::tokens,
};

/// Most images per request.
const MAX_IMAGES: u64 = 10;
const MAX_PARTIAL: u64 = 3;
/// Tokens per image.
const IMAGE_TOKENS: u64 = 272;

/// A pixel in each format of the API.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNgYGBgAAAABQABeqhXUAAAAABJRU5ErkJggg==";
const WEBP: &str = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==";
const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAABv/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AMv/Z";

/// The parameters, from JSON or a form.
struct Wanted {
    prompt: String,
    count: u64,
    format: String,
    background: String,
    as_url: bool,
    stream: bool,
    partial: u64,
}

impl Offline {
    pub(super) fn images(&self, call: &Call<'_>) -> Answered {
        let wanted = Wanted::read(call)?;
        let (pixel, kind) = match wanted.format.as_str() {
            "png" => (PNG, "image/png"),
            "webp" => (WEBP, "image/webp"),
            "jpeg" => (JPEG, "image/jpeg"),
            _ => {
                let message = "`output_format` is `png`, `webp` or `jpeg`.";
                return Err(Refused::value("output_format", message));
            }
        };
        let (read, drawn) = (tokens(wanted.prompt.chars().count()), IMAGE_TOKENS * wanted.count);
        let usage = json!({"input_tokens": read,
            "input_tokens_details": {"text_tokens": read, "image_tokens": 0},
            "output_tokens": drawn, "total_tokens": read + drawn});
        let about = json!({"background": wanted.background, "output_format": wanted.format,
            "quality": "low", "size": "1024x1024"});
        if wanted.stream {
            return Ok(self.image_events(&wanted, pixel, &about, &usage));
        }
        let image = match wanted.as_url {
            true => json!({"url": format!("data:{kind};base64,{pixel}")}),
            false => json!({"b64_json": pixel}),
        };
        let mut answer = about;
        answer["created"] = self.now().into();
        answer["data"] = (0..wanted.count).map(|_| image.clone()).collect();
        answer["usage"] = usage;
        Ok(Reply::Json(answer))
    }

    fn image_events(&self, wanted: &Wanted, pixel: &str, about: &Value, usage: &Value) -> Reply {
        let event = |kind: &str| {
            let mut event = about.clone();
            event["type"] = format!("image_generation.{kind}").into();
            event["b64_json"] = pixel.into();
            event["created_at"] = self.now().into();
            event
        };
        let partial = (0..wanted.partial).map(|index| {
            let mut event = event("partial_image");
            event["partial_image_index"] = index.into();
            event
        });
        let mut last = event("completed");
        last["usage"] = usage.clone();
        Reply::events(partial.chain([last]), false)
    }
}

impl Wanted {
    fn read(call: &Call<'_>) -> Result<Self, Refused> {
        let body = match call.is_form() {
            true => form_fields(call)?,
            false => call.json()?,
        };
        let text = |name: &str, other: &str| body[name].as_str().unwrap_or(other).to_owned();
        Ok(Self {
            prompt: text("prompt", ""),
            count: number(&body, "n", MAX_IMAGES)?.unwrap_or(1),
            format: text("output_format", "png"),
            background: text("background", "opaque"),
            as_url: body["response_format"] == "url",
            stream: body["stream"] == true,
            partial: match &body["partial_images"] {
                value if value == 0 => 0,
                _ => number(&body, "partial_images", MAX_PARTIAL)?.unwrap_or(0),
            },
        })
    }
}

/// The fields of a form as JSON. The form must contain an image.
fn form_fields(call: &Call<'_>) -> Result<Value, Refused> {
    let form = call.form()?;
    form.file("image")?;
    let mut body = json!({});
    for name in ["prompt", "output_format", "background", "response_format"] {
        if let Some(text) = form.text(name) {
            body[name] = text.into();
        }
    }
    for name in ["n", "partial_images", "stream"] {
        if let Some(text) = form.text(name) {
            body[name] = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        }
    }
    Ok(body)
}
