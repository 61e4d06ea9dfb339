//! The contents of a request's body: JSON or a form.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header;

use crate::object_owners::ObjectKind;
use crate::router::{self, Generation};
use gateway_body::{Background, CacheMark, Calls, Kind, SERVER_TOOLS, Scanned, scan};
use gateway_policy::error::ApiError;
use gateway_policy::price::{Asked, Quantities, Sells, TOOLS};

/// Calls that are reserved for a tool of the server without a maximum.
const USUAL_CALLS: u32 = 10;
/// Seconds that are reserved for a video whose request names none: no usual one is longer.
const USUAL_SECONDS: u32 = 20;

// Both crates name the same tools.
const _: () = assert!(SERVER_TOOLS.len() == TOOLS.len());

/// The contents of a request's body.
#[derive(Debug)]
pub(super) enum RequestBody {
    /// A JSON object.
    Json(Kind, Box<Scanned>),
    /// A `multipart/form-data`. The route decides what it asks for, not the names of its fields, which a client
    /// chooses and an upstream may ignore.
    Form(Kind, Box<gateway_body::Form>),
}

impl RequestBody {
    /// Reads the body. An error includes the model, if it can be read.
    pub(super) fn read(
        body: &Bytes,
        generation: Generation,
        headers: &HeaderMap,
    ) -> Result<Self, (ApiError, Option<String>)> {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if generation.form != router::Form::Never {
            let boundary = gateway_body::boundary(content_type.unwrap_or_default());
            match boundary.map_err(|error| (form_error(&error), None))? {
                Some(boundary) => {
                    let form = gateway_body::Form::read(body, boundary);
                    let form = form.map_err(|error| (form_error(&error), None))?;
                    if generation.form == router::Form::Always && form.files.is_empty() {
                        let message = "You must provide `file`, the audio.";
                        let error = ApiError::bad_request("missing_required_parameter", message);
                        return Err((error.param("file"), form.model.map(|model| model.text)));
                    }
                    return Ok(Self::Form(generation.kind, Box::new(form)));
                }
                None if generation.form == router::Form::Always => {
                    let message = "The body must be a multipart/form-data.";
                    return Err((ApiError::bad_request("invalid_content_type", message), None));
                }
                None => {}
            }
        }
        match scan(body, generation.kind) {
            Ok(scanned) => Ok(Self::Json(generation.kind, Box::new(scanned))),
            Err(invalid) => {
                let mut error = ApiError::bad_request(invalid.code(), invalid.to_string());
                let Some(param) = invalid.param() else { return Err((error, None)) };
                error = error.param(param);
                let lenient = scan(body, Kind::Other).ok();
                let model = lenient.and_then(|lenient| lenient.model);
                Err((error, model.map(|model| model.read(body).into_owned())))
            }
        }
    }

    /// The model's name.
    pub(super) fn model<'a>(&'a self, body: &'a Bytes) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(_, scanned) => scanned.model.map(|model| model.read(body)),
            Self::Form(_, form) => form.model.as_ref().map(|model| Cow::Borrowed(&*model.text)),
        }
    }

    /// Returns whether the request asks for a stream.
    pub(super) fn streams(&self) -> bool {
        match self {
            Self::Json(_, scanned) => scanned.stream,
            Self::Form(_, form) => form.stream,
        }
    }

    /// The kind of the request.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Json(kind, _) | Self::Form(kind, _) => *kind,
        }
    }

    /// The member of a response's request that names an earlier one, and the id.
    pub(super) fn state_member<'a>(&self, body: &'a Bytes) -> Option<(&'static str, Cow<'a, str>)> {
        match self {
            Self::Json(_, scanned) => {
                let named = scanned.previous_response_id.map(|id| ("previous_response_id", id));
                let (member, id) = named.or(scanned.conversation.map(|id| ("conversation", id)))?;
                Some((member, id.read(body)))
            }
            Self::Form(..) => None,
        }
    }

    /// The most output tokens of one answer that the request names.
    pub(super) fn output_bound(&self) -> Option<u32> {
        match self {
            Self::Json(kind, scanned) => scanned.output_bound(*kind),
            Self::Form(..) => None,
        }
    }

    /// Returns whether a chat's client asks for the usage of a stream.
    pub(super) fn wants_usage(&self) -> bool {
        matches!(self, Self::Json(_, scanned) if scanned.stream_options.wants_usage)
    }

    /// Returns whether the answer may come later than the response.
    pub(super) fn is_in_background(&self) -> bool {
        matches!(self, Self::Json(_, scanned) if scanned.background == Background::Mode(true))
    }

    /// The key of the prompt cache.
    pub(super) fn prompt_cache_key<'a>(&self, body: &'a Bytes) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(_, scanned) => scanned.prompt_cache_key.map(|key| key.read(body)),
            Self::Form(..) => None,
        }
    }

    /// Estimated input tokens from the number of characters, at least 1.
    pub(super) fn input_estimate(&self) -> u64 {
        let chars = match self {
            Self::Json(_, scanned) => scanned.chars,
            Self::Form(_, form) => form.prompt_chars,
        };
        chars.div_ceil(4).max(1)
    }

    /// The request's output limit in tokens.
    pub(super) fn max_tokens(&self) -> Option<u64> {
        match self {
            // Servers of Messages know only this one.
            Self::Json(Kind::Messages, scanned) => scanned.limits[2].map(Into::into),
            Self::Json(_, scanned) => scanned.max_tokens().map(|most| most.tokens.into()),
            Self::Form(..) => None,
        }
    }

    /// Most output tokens, as a bound of the cost. `default` is the model's maximum.
    pub(super) fn most_output(&self, default: u64) -> u64 {
        match self {
            Self::Json(Kind::Embeddings | Kind::Moderations, _) => 0,
            Self::Json(kind, scanned) => {
                // One that its servers ignore does not lower it.
                let named =
                    scanned.limits.iter().flatten().max().map_or(0, |most| u64::from(*most));
                let one = scanned.output_bound(*kind).map_or(default.max(named), u64::from);
                let choices = match kind {
                    Kind::Chat | Kind::Completions | Kind::Gemini => {
                        scanned.n.max(scanned.best_of).unwrap_or(1)
                    }
                    _ => 1,
                };
                one.saturating_mul(choices.into()).saturating_mul(scanned.prompts.max(1).into())
            }
            Self::Form(..) => default,
        }
    }

    /// The parts that the price of the request depends on.
    pub(super) fn asked(&self, kind: Kind, body: &Bytes) -> Asked {
        let sells = match kind {
            Kind::Embeddings | Kind::Moderations => Sells::Input,
            Kind::ImageGenerations | Kind::ImageEdits => Sells::Images,
            Kind::Speech => Sells::Speech,
            Kind::VideoEdits => Sells::Video,
            Kind::Other => Sells::Audio,
            _ => Sells::Text,
        };
        // The server decides on what is `auto`.
        let named = |text: Option<Cow<'_, str>>| text.filter(|text| text != "auto").map(Into::into);
        let known = Asked { sells, ..Asked::default() };
        let milliseconds = |seconds: Option<u32>| match sells {
            Sells::Video => u64::from(seconds.unwrap_or(USUAL_SECONDS)) * 1000,
            _ => 0,
        };
        match self {
            Self::Json(_, scanned) => Asked {
                tier: named(scanned.service_tier.map(|text| text.read(body))),
                size: named(scanned.size.map(|text| text.read(body))),
                quality: named(scanned.quality.map(|text| text.read(body))),
                marks_cache: scanned.cache_mark > CacheMark::Absent,
                marks_hour: scanned.cache_mark == CacheMark::Hour,
                has_audio: scanned.has_audio,
                video_milliseconds: milliseconds(scanned.seconds),
                sure_searches: scanned.searches.into(),
                ..known
            },
            Self::Form(_, form) => {
                let text = |field: &Option<gateway_body::FieldText>| {
                    named(field.as_ref().map(|field| Cow::Borrowed(&*field.text)))
                };
                Asked {
                    size: text(&form.size),
                    quality: text(&form.quality),
                    video_milliseconds: milliseconds(form.seconds),
                    ..known
                }
            }
        }
    }

    /// The most that the request may use.
    pub(super) fn bound(&self, asked: &Asked, input: u64, output: u64) -> Quantities {
        let mut calls = self.calls().map(|calls| match calls {
            Calls::Absent => 0,
            Calls::AtMost(most) => most.into(),
            Calls::Unbounded => USUAL_CALLS.into(),
        });
        calls[0] = calls[0].max(asked.sure_searches);
        Quantities {
            calls,
            images: self.images(),
            audio_milliseconds: match asked.sells {
                Sells::Audio => self.audio_milliseconds(),
                _ => 0,
            },
            video_milliseconds: asked.video_milliseconds,
            ..Quantities::of_tokens(input, output)
        }
    }

    /// The calls of the server's own tools that it offers.
    pub(super) fn calls(&self) -> [Calls; SERVER_TOOLS.len()] {
        match self {
            Self::Json(_, scanned) => scanned.calls,
            Self::Form(..) => Default::default(),
        }
    }

    /// The member that names other models, if there is one.
    pub(super) fn other_models(&self) -> Option<&'static str> {
        match self {
            Self::Json(_, scanned) => scanned.other_models,
            Self::Form(..) => None,
        }
    }

    /// Returns whether the server keeps the answer for later requests, by its id.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Self::Json(_, scanned) if scanned.is_kept)
    }

    /// Images to generate.
    pub(super) fn images(&self) -> u64 {
        match self {
            Self::Json(Kind::ImageGenerations | Kind::ImageEdits, scanned) => {
                scanned.n.unwrap_or(1).into()
            }
            Self::Json(..) => 0,
            Self::Form(Kind::ImageEdits, form) => form.n.unwrap_or(1).into(),
            Self::Form(..) => 0,
        }
    }

    /// Audio input, in milliseconds.
    fn audio_milliseconds(&self) -> u64 {
        match self {
            Self::Form(_, form) => {
                form.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.duration_ms))
            }
            Self::Json(..) => 0,
        }
    }

    pub(super) fn is_transparent_jpeg(&self, body: &Bytes) -> bool {
        let (background, format) = match self {
            Self::Json(_, scanned) => {
                let Background::Fill(fill) = scanned.background else { return false };
                let format = scanned.output_format.map(|format| format.read(body));
                (fill.read(body), format)
            }
            Self::Form(_, form) => {
                let Some(fill) = &form.background else { return false };
                let format = form.output_format.as_ref();
                (Cow::Borrowed(&*fill.text), format.map(|format| Cow::Borrowed(&*format.text)))
            }
        };
        let is_jpeg = |format: Cow<'_, str>| matches!(&*format, "jpeg" | "jpg");
        background == "transparent" && format.is_some_and(is_jpeg)
    }

    pub(super) fn prompt_cache_retention<'a>(&self, body: &'a Bytes) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(_, scanned) => scanned.prompt_cache_retention.map(|text| text.read(body)),
            Self::Form(..) => None,
        }
    }

    /// Ids of containers and videos that the request refers to.
    pub(super) fn other_references(&self, body: &Bytes) -> Vec<String> {
        match self {
            Self::Json(_, scanned) => {
                scanned.other_ids.iter().map(|id| id.read(body).into_owned()).collect()
            }
            Self::Form(_, form) => form.ids.others.clone(),
        }
    }

    /// Ids of files and responses that the request refers to.
    pub(super) fn references(&self, body: &Bytes) -> Vec<(ObjectKind, String)> {
        let scanned = match self {
            Self::Json(_, scanned) => scanned,
            Self::Form(_, form) => {
                let files = form.ids.files.iter();
                return files.map(|id| (ObjectKind::Object, id.clone())).collect();
            }
        };
        let objects = scanned.file_ids.iter().map(|id| (ObjectKind::Object, id));
        let response = scanned.previous_response_id.iter().map(|id| (ObjectKind::Response, id));
        objects.chain(response).map(|(what, id)| (what, id.read(body).into_owned())).collect()
    }
}

/// 400 for a form that cannot be read.
pub(super) fn form_error(error: &gateway_body::FormError) -> ApiError {
    match error.param() {
        Some(param) => ApiError::invalid_value(param, error.to_string()),
        None => ApiError::bad_request("invalid_form", error.to_string()),
    }
}
