//! The questions of the server, each of which is answered once, even when it is asked again on another connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpc::{ErrorObject, RequestId};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;

use crate::answers::Answers;
use crate::blocking::Threads;
use crate::context::UserValue;
use crate::link::Link;
use crate::{CallContext, CallbackError};

/// The open questions, and the functions that answer them.
pub(crate) struct Desk {
    answers: Answers,
    threads: Arc<Threads>,
    questions: Mutex<Questions>,
}

#[derive(Default)]
struct Questions {
    /// By the id that the server gave them, until they are resolved or their turn ends.
    open: HashMap<RequestId, Question>,
    /// The number of all so far: a server that was restarted gives ids again.
    count: u64,
    is_closed: bool,
}

struct Question {
    number: u64,
    method: String,
    params: Box<RawValue>,
    context: CallContext,
    /// The connection that the answer goes to.
    link: Arc<Link>,
    reply: Option<Result<Value, ErrorObject>>,
    task: AbortHandle,
}

/// The members of a question that say what it is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    thread_id: Option<String>,
    turn_id: Option<String>,
    call_id: Option<String>,
    item_id: Option<String>,
}

impl Drop for Question {
    fn drop(&mut self) {
        // Its answer is no longer wanted.
        self.context.cancel();
        self.task.abort();
    }
}

impl Desk {
    pub(crate) fn new(answers: Answers) -> Arc<Self> {
        let (threads, questions) = (Arc::default(), Mutex::default());
        Arc::new(Self { answers, threads, questions })
    }

    /// Begins to answer a request, or takes it as the repetition of one. A function of the application may take as
    /// long as a person does: it runs in a task of its own. `user_of` has the application's value for a thread and a
    /// turn.
    pub(crate) fn ask(
        self: &Arc<Self>,
        link: &Arc<Link>,
        id: RequestId,
        method: String,
        params: Box<RawValue>,
        user_of: impl FnOnce(&str, Option<&str>) -> Option<UserValue>,
    ) {
        let mut questions = self.lock();
        if questions.is_closed {
            return;
        }
        if let Some(known) = questions.open.get_mut(&id)
            && known.method == method
            && known.params.get() == params.get()
        {
            known.link = link.clone();
            if let Some(reply) = &known.reply {
                link.respond(&id, reply);
            }
            return;
        }
        questions.count += 1;
        let number = questions.count;
        let place: Place = serde_json::from_str(params.get()).unwrap_or_default();
        let thread_id = place.thread_id.as_deref();
        let user = thread_id.and_then(|thread| user_of(thread, place.turn_id.as_deref()));
        let ids = (place.thread_id, place.turn_id, place.call_id.or(place.item_id));
        let context = CallContext::new(ids, user, self.threads.clone());
        let (desk, asked, raw) = (self.clone(), method.clone(), params.clone());
        let given = context.clone();
        // In a task of its own, so that the server is answered whatever a callback does.
        let answering = tokio::spawn(async move { desk.answers.answer(&asked, &raw, given).await });
        let task = answering.abort_handle();
        let link = link.clone();
        let what = format!("the callback for `{method}`");
        let of_panic = context.clone();
        let question = Question { number, method, params, context, link, reply: None, task };
        let replaced = questions.open.insert(id.clone(), question);
        drop(questions);
        drop(replaced);
        let desk = self.clone();
        tokio::spawn(async move {
            let outcome = match answering.await {
                Ok(outcome) => outcome,
                Err(error) if error.is_cancelled() => return,
                Err(_) => Err(desk.answers.report(&what, &CallbackError::Panicked, &of_panic)),
            };
            desk.reply(&id, number, outcome);
        });
    }

    /// The server has an answer, from here or from another client.
    pub(crate) fn resolved(&self, id: &RequestId) {
        let withdrawn = self.lock().open.remove(id);
        drop(withdrawn);
    }

    /// A turn has ended: its questions are obsolete.
    pub(crate) fn turn_ended(&self, thread_id: &str, turn_id: &str) {
        self.withdraw(|_, place| {
            place.thread_id() == Some(thread_id) && place.turn_id() == Some(turn_id)
        });
    }

    /// The questions of a thread that are open on a new connection: every other one has been resolved.
    pub(crate) fn still_open(&self, thread_id: &str, ids: &[i64]) {
        self.withdraw(|id, place| {
            let is_open = matches!(id, RequestId::Integer(id) if ids.contains(id));
            place.thread_id() == Some(thread_id) && !is_open
        });
    }

    /// No answer can be given any longer.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.withdraw(|_, _| true);
    }

    fn reply(&self, id: &RequestId, number: u64, outcome: Result<Value, ErrorObject>) {
        let mut questions = self.lock();
        let Some(question) = questions.open.get_mut(id) else { return };
        if question.number == number {
            question.link.respond(id, &outcome);
            question.reply = Some(outcome);
        }
    }

    fn withdraw(&self, is_obsolete: impl Fn(&RequestId, &CallContext) -> bool) {
        let mut questions = self.lock();
        let withdrawn: Vec<_> =
            questions.open.extract_if(|id, question| is_obsolete(id, &question.context)).collect();
        drop(questions);
        drop(withdrawn);
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
