//! Keeps a response in the gateway's own store, for a model whose server keeps none.

use std::sync::Arc;

use bytes::Bytes;
use wire::KeptAs;

use gateway_policy::dates;
use gateway_policy::environment::Clock;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Responses;
use gateway_store::database::Database;
use gateway_store::records::kept_responses::{self, Bounds, KeptResponse, Link};

/// A response that is to be kept, before it has begun.
pub(crate) struct Keeper {
    pub(crate) database: Arc<Database>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Responses,
    /// Its project.
    pub(crate) project: Box<str>,
    /// Its id.
    pub(crate) id: Box<str>,
    /// The response that it continues.
    pub(crate) previous: Option<Link>,
    /// The items of its request, as a JSON array.
    pub(crate) input: Box<[u8]>,
}

impl Keeper {
    /// The name under which it will be kept.
    pub(crate) fn name(&self) -> KeptAs {
        let previous = self.previous.as_ref().map(|previous| previous.id.to_string());
        KeptAs { id: self.id.to_string(), previous }
    }

    /// Checks that a request is not larger than all that may be kept for its project.
    ///
    /// # Errors
    /// 400 `unsupported_parameter`.
    pub(crate) fn check_room(&self, body: usize) -> Result<(), ApiError> {
        let most = self.settings.project_bytes;
        if body as u64 <= most {
            return Ok(());
        }
        let message = format!(
            "The response cannot be kept, because its request has {body} bytes, and {most} are kept for a project. Set \
             `store` to false."
        );
        Err(ApiError::bad_request("unsupported_parameter", message).param("store"))
    }

    /// Keeps the response, a JSON object. A failure is logged: the answer itself was served and charged.
    pub(crate) async fn keep(&self, response: Bytes) {
        let Self { database, clock, settings, project, id, previous, input } = self;
        let kept = KeptResponse {
            id: id.clone(),
            project: project.clone(),
            previous: previous.clone(),
            input: input.clone(),
            output: (&*response).into(),
        };
        if (kept.input.len() + kept.output.len()) as u64 > settings.project_bytes {
            tracing::warn!(
                "the response {id} of {project} is not kept: it is larger than `max_project_bytes`"
            );
            return;
        }
        let bounds = bounds(settings, dates::seconds(clock.now()));
        if let Err(error) = kept_responses::insert(database, &kept, bounds).await {
            tracing::error!("the response {id} of {project} was not kept: {error}");
        }
    }
}

/// The bounds on what is kept, at a moment in seconds.
pub(crate) fn bounds(settings: &Responses, now: i64) -> Bounds {
    Bounds { now, retention: settings.retention, project_bytes: settings.project_bytes }
}
