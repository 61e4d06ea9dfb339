//! Queues of threads: messages that wait for a turn of their own. The thread's actor owns its queue.

use protocol::{
    Empty, QueueMethods, QueuedSubmission, ThreadQueueAddParams, ThreadQueueAddResponse,
    ThreadQueueDeleteParams, ThreadQueueDeleteResponse, ThreadQueueListParams,
    ThreadQueueListResponse, ThreadQueueReorderParams, ThreadQueueStartParams,
    ThreadQueueUpdateParams, TurnStartResponse, UserInput,
};
use session::Answer;
use tokio::sync::oneshot;

use crate::handlers::page::PageSize;
use crate::handlers::refuse_missing;
use crate::handlers::turn::send;
use crate::input_reader::check_text_elements;
use crate::server::Server;
use services::error::{Error, start_of};
use services::peer::{Caller, Gate};
use services::thread_port::{
    Command, Extra, MAX_QUEUED, QueueAnswer, QueueRequest, QueueView, QueuedStart, ThreadHandle,
    stored_queue,
};
use services::{bounds, convert, image_url};

/// A whole queue fits on a page.
const MESSAGES: PageSize = PageSize { default: MAX_QUEUED as u32, max: MAX_QUEUED as u32 };
/// Longest id of a client for a message, in characters.
const MAX_CLIENT_ID: usize = 128;

impl QueueMethods<Caller> for Server {
    async fn thread_queue_add(
        &self,
        caller: Caller,
        params: ThreadQueueAddParams,
    ) -> Result<ThreadQueueAddResponse, Error> {
        let metadata = params.responsesapi_client_metadata.is_some();
        refuse_missing("thread/queue/add", &[("responsesapiClientMetadata", metadata)])?;
        let client_id = params.client_user_message_id;
        if !(1..=MAX_CLIENT_ID).contains(&client_id.chars().count()) || client_id.contains('\0') {
            return Err(Error::invalid_params(format!(
                "`clientUserMessageId` must have 1 to {MAX_CLIENT_ID} characters, none of them NUL"
            )));
        }
        check_input(&params.input)?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        let input = params.input;
        let add = |answer| QueueRequest::Add { input, client_id, answer };
        let queued_submission = change(&handle, caller.gate(), add).await?;
        Ok(ThreadQueueAddResponse { queued_submission })
    }

    async fn thread_queue_list(
        &self,
        _: Caller,
        params: ThreadQueueListParams,
    ) -> Result<ThreadQueueListResponse, Error> {
        let QueueView { messages, pause } = self.queue_of(&params.thread_id).await?;
        let first = match &params.cursor {
            None => 0,
            Some(cursor) => after(&messages, cursor)?,
        };
        let limit = MESSAGES.rows(params.limit) as usize;
        let is_last = messages.len() <= first + limit;
        let data: Vec<QueuedSubmission> = messages.into_iter().skip(first).take(limit).collect();
        let next_cursor = data.last().filter(|_| !is_last).map(|message| message.id.clone());
        Ok(ThreadQueueListResponse { data, next_cursor, pause })
    }

    async fn thread_queue_update(
        &self,
        caller: Caller,
        params: ThreadQueueUpdateParams,
    ) -> Result<ThreadQueueAddResponse, Error> {
        let metadata = params.responsesapi_client_metadata.is_some();
        refuse_missing("thread/queue/update", &[("responsesapiClientMetadata", metadata)])?;
        check_input(&params.input)?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        let (id, input) = (params.queued_submission_id, params.input);
        let update = |answer| QueueRequest::Update { id, input, answer };
        let queued_submission = change(&handle, caller.gate(), update).await?;
        Ok(ThreadQueueAddResponse { queued_submission })
    }

    async fn thread_queue_delete(
        &self,
        caller: Caller,
        params: ThreadQueueDeleteParams,
    ) -> Result<ThreadQueueDeleteResponse, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        let id = params.queued_submission_id;
        let delete = |answer| QueueRequest::Delete { id, answer };
        let deleted = change(&handle, caller.gate(), delete).await?;
        Ok(ThreadQueueDeleteResponse { deleted })
    }

    async fn thread_queue_reorder(
        &self,
        caller: Caller,
        params: ThreadQueueReorderParams,
    ) -> Result<Empty, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        let ids = params.queued_submission_ids;
        change(&handle, caller.gate(), |answer| QueueRequest::Reorder { ids, answer }).await?;
        Ok(Empty {})
    }

    async fn thread_queue_start(
        &self,
        caller: Caller,
        params: ThreadQueueStartParams,
    ) -> Result<TurnStartResponse, Error> {
        let thread = &params.thread_id;
        let handle = self.loaded_thread(thread).await?;
        let QueueView { messages, .. } = view(&handle).await?;
        let message = match &params.queued_submission_id {
            Some(id) => {
                messages.into_iter().find(|message| message.id == *id).ok_or_else(|| {
                    Error::not_found(format!("queued submission not found: {}", start_of(id)))
                })?
            }
            None => messages.into_iter().next().ok_or_else(|| {
                Error::wrong_state("the queue is empty")
                    .next_step("add a message with thread/queue/add")
            })?,
        };
        let read = self.services.inputs.read(thread, &handle, (None, None), &message.input).await;
        let started = send(&handle, caller.gate(), |answer, gate| {
            let start = QueuedStart { message, content: read, asked: Some((answer, gate)) };
            Command::StartQueued(Box::new(start))
        });
        match started.await? {
            Answer::Started(view) => Ok(TurnStartResponse { turn: convert::event::turn(&view) }),
            _ => Err(Error::mismatched_answer("thread/queue/start")),
        }
    }
}

impl Server {
    /// The queue of a thread, loaded or not.
    async fn queue_of(&self, thread: &str) -> Result<QueueView, Error> {
        if let Some(handle) = self.services.threads.get(thread) {
            return view(&handle).await;
        }
        let store = self.services.store.get().await?;
        let found = store.thread(thread).await?.ok_or_else(|| Error::unknown_thread(thread))?;
        let messages = stored_queue(&store.queue(thread).await?);
        let pause = Extra::read(&found.record)?.queue_pause.filter(|_| !messages.is_empty());
        Ok(QueueView { messages, pause })
    }
}

async fn view(handle: &ThreadHandle) -> Result<QueueView, Error> {
    let (answer, view) = oneshot::channel();
    let (request, gate) = (QueueRequest::List { answer }, Gate::open());
    handle.send(Command::Queue { request, gate }).await;
    view.await.map_err(|_| handle.unloaded())
}

/// Sends a change of the queue, and waits until it is stored.
async fn change<T>(
    handle: &ThreadHandle,
    gate: Gate,
    request: impl FnOnce(QueueAnswer<T>) -> QueueRequest,
) -> Result<T, Error> {
    let (answer, changed) = oneshot::channel();
    handle.send(Command::Queue { request: request(answer), gate }).await;
    changed.await.map_err(|_| handle.unloaded())?
}

/// Checks what can be checked before the message's turn.
fn check_input(input: &[UserInput]) -> Result<(), Error> {
    if input.is_empty() {
        return Err(Error::wrong_state("only user input can be added to the user-message queue")
            .next_step("give at least one part of `input`"));
    }
    bounds::check_parts(input)?;
    for (at, part) in input.iter().enumerate() {
        if let UserInput::Image { url, .. } = part {
            image_url::check(url).map_err(|error| error.within(&format!("`input[{at}].url`")))?;
        }
    }
    check_text_elements(input)
}

/// The position after the message that a page ended with.
fn after(messages: &[QueuedSubmission], cursor: &str) -> Result<usize, Error> {
    let found = messages.iter().position(|message| message.id == cursor);
    found.map(|at| at + 1).ok_or_else(|| {
        let cursor = start_of(cursor);
        Error::invalid_params(format!("`cursor`: the queue no longer has message {cursor}"))
            .next_step("list the queue from its beginning")
    })
}
