//! The contents of a request's body: JSON or a form.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header;

use crate::object_owners::ObjectKind;
use crate::router::{self, Generation};
use gateway_body::{Background, CacheMark, Kind, Scanned, WebSearches, scan};
use gateway_policy::error::ApiError;
use gateway_policy::settings::{Price, Quantities};

/// Web searches that are reserved for a tool without `max_uses`.
const USUAL_SEARCHES: u32 = 10;

/// The contents of a request's body.
#[derive(Debug)]
pub(super) enum RequestBody {
    /// A JSON object.
    Json(Kind, Box<Scanned>),
    /// A `multipart/form-data`.
    Form(Box<gateway_body::Form>),
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
                    return Ok(Self::Form(Box::new(form)));
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
            Self::Form(form) => form.model.as_ref().map(|model| Cow::Borrowed(&*model.text)),
        }
    }

    /// Returns whether the request asks for a stream.
    pub(super) fn streams(&self) -> bool {
        match self {
            Self::Json(_, scanned) => scanned.stream,
            Self::Form(form) => form.stream,
        }
    }

    /// Returns whether the answer may come later than the response.
    pub(super) fn is_in_background(&self) -> bool {
        matches!(self, Self::Json(_, scanned) if scanned.background == Background::Mode(true))
    }

    /// The key of the prompt cache.
    pub(super) fn prompt_cache_key<'a>(&self, body: &'a Bytes) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(_, scanned) => scanned.prompt_cache_key.map(|key| key.read(body)),
            Self::Form(_) => None,
        }
    }

    /// Estimated input tokens from the number of characters, at least 1.
    pub(super) fn input_estimate(&self) -> u64 {
        let chars = match self {
            Self::Json(_, scanned) => scanned.chars,
            Self::Form(form) => form.prompt_chars,
        };
        chars.div_ceil(4).max(1)
    }

    /// The request's output limit in tokens.
    pub(super) fn max_tokens(&self) -> Option<u64> {
        match self {
            // Servers of Messages know only this one.
            Self::Json(Kind::Messages, scanned) => scanned.limits[2].map(Into::into),
            Self::Json(_, scanned) => scanned.max_tokens().map(|most| most.tokens.into()),
            Self::Form(_) => None,
        }
    }

    /// Most output tokens, as a bound of the cost. `default` is the model's maximum.
    pub(super) fn most_output(&self, default: u64) -> u64 {
        match self {
            Self::Json(Kind::Embeddings | Kind::Moderations, _) => 0,
            Self::Json(kind, scanned) => {
                // The upstream may follow any of the output limits.
                let one = scanned.greatest_max_tokens().map_or(default, u64::from);
                let choices = match kind {
                    Kind::Chat | Kind::Completions => scanned.n.max(scanned.best_of).unwrap_or(1),
                    _ => 1,
                };
                one.saturating_mul(choices.into())
            }
            Self::Form(_) => default,
        }
    }

    /// Upper bound of the cost of this input and output: all input at the dearest price that may
    /// apply, and the searches that the server may make.
    pub(super) fn most_cost(&self, price: &Price, input: u64, output: u64) -> u64 {
        let (mark, searches) = match self {
            Self::Json(_, scanned) => (scanned.cache_mark, scanned.web_searches),
            Self::Form(_) => (CacheMark::Absent, WebSearches::Absent),
        };
        let web_searches = match searches {
            WebSearches::Absent => 0,
            WebSearches::AtMost(most) => most,
            WebSearches::Unbounded => USUAL_SEARCHES,
        };
        let plain = Quantities {
            web_searches: web_searches.into(),
            ..Quantities::of_tokens(input, output)
        };
        let written = Quantities { cache_write: input, ..plain };
        let written_1h = Quantities { cache_write_1h: input, ..plain };
        let possible: &[Quantities] = match mark {
            CacheMark::Absent => &[plain],
            CacheMark::FiveMinutes => &[plain, written],
            CacheMark::Hour => &[plain, written, written_1h],
        };
        possible.iter().map(|used| price.cost_of(used)).max().unwrap_or(0)
    }

    /// Returns whether a tool for web searches has no maximum.
    pub(super) fn searches_without_end(&self) -> bool {
        matches!(self, Self::Json(_, scanned) if scanned.web_searches == WebSearches::Unbounded)
    }

    /// The member that names other models, if there is one.
    pub(super) fn other_models(&self) -> Option<&'static str> {
        match self {
            Self::Json(_, scanned) => scanned.other_models,
            Self::Form(_) => None,
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
            Self::Form(form) if form.is_image() => form.n.unwrap_or(1).into(),
            Self::Form(_) => 0,
        }
    }

    /// Audio input, in milliseconds.
    pub(super) fn audio_milliseconds(&self) -> u64 {
        match self {
            Self::Form(form) if !form.is_image() => {
                form.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.duration_ms))
            }
            _ => 0,
        }
    }

    pub(super) fn is_transparent_jpeg(&self, body: &Bytes) -> bool {
        let (background, format) = match self {
            Self::Json(_, scanned) => {
                let Background::Fill(fill) = scanned.background else { return false };
                let format = scanned.output_format.map(|format| format.read(body));
                (fill.read(body), format)
            }
            Self::Form(form) => {
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
            Self::Form(_) => None,
        }
    }

    /// Ids of containers and videos that the request refers to.
    pub(super) fn other_references(&self, body: &Bytes) -> Vec<String> {
        let Self::Json(_, scanned) = self else { return Vec::new() };
        scanned.other_ids.iter().map(|id| id.read(body).into_owned()).collect()
    }

    /// Ids of files and responses that the request refers to.
    pub(super) fn references(&self, body: &Bytes) -> Vec<(ObjectKind, String)> {
        let Self::Json(_, scanned) = self else { return Vec::new() };
        let objects = scanned.file_ids.iter().map(|id| (ObjectKind::Object, id));
        let response = scanned.previous_response_id.iter().map(|id| (ObjectKind::Response, id));
        objects.chain(response).map(|(what, id)| (what, id.read(body).into_owned())).collect()
    }
}

fn form_error(error: &gateway_body::FormError) -> ApiError {
    match error.param() {
        Some(param) => ApiError::invalid_value(param, error.to_string()),
        None => ApiError::bad_request("invalid_form", error.to_string()),
    }
}
