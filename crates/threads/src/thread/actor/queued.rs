//! The queue of the thread: requests about it, and the turns of its messages. A message leaves the
//! queue in the transaction that stores the start of its turn, so that a crash neither loses nor
//! repeats it.
//!
//! The next message is prepared by a task of its own, because its files may be slow, and starts if the
//! thread is still idle then. A turn that is interrupted or fails pauses the queue, and so does a message
//! that cannot start.

use protocol::{
    QueuedSubmission, ThreadQueueChanged, ThreadQueueChangedNotification, ThreadQueuePause,
    ThreadQueuePauseReason, UserInput,
};
use session::{Effect, Overrides, Refusal};

use crate::thread::actor::Actor;
use crate::thread::actor::requests::{refuse, started_turn};
use crate::thread::queue::unknown_message;
use crate::thread::step::{Step, append_steps};
use services::allowed::MachineInput;
use services::budget::TurnBudget;
use services::error::Error;
use services::peer::{Gate, Peer};
use services::thread_port::{Command, QueueRequest, QueueView, QueuedStart, stored_message};
use store::QueueWrite;

/// Has the next message prepared when the thread is idle.
pub(super) async fn continue_queue(actor: &mut Actor) {
    show_queue(actor);
    let any = actor.queue.goes_on(actor.journal.queue_pause());
    if actor.machine.messages_wait() != any {
        let mut steps = Vec::new();
        actor.step(MachineInput::MessagesWait { any }, &mut steps);
        actor.execute(steps).await;
    }
    if actor.machine.active_turn().is_some() || actor.mailbox.end().is_some() {
        return;
    }
    let pause = actor.journal.queue_pause();
    let Some(message) = actor.queue.begin_preparing(pause) else { return };
    let reading = (actor.read_input)(actor.journal.id().clone(), message.input.clone());
    let thread = actor.mailbox.sender();
    tokio::spawn(async move {
        let start = QueuedStart { message, content: reading.await, asked: None };
        // A thread that has ended continues its queue when it is loaded again.
        let _ = thread.send(Command::StartQueued(Box::new(start))).await;
    });
}

/// Sends the clients the state of the queue, unless they know it.
fn show_queue(actor: &mut Actor) {
    if let Some((length, pause)) = actor.queue.unshown(shown_pause(actor)) {
        let thread_id = actor.journal.id().to_string();
        let params = ThreadQueueChangedNotification { thread_id, length, pause };
        actor.broadcast.show_queue(&params);
    }
}

/// Sends a client that has just subscribed the state of the queue, if anything waits in it.
pub(super) fn show_queue_to(actor: &Actor, peer: &Peer) {
    if !actor.queue.is_empty() {
        let length = u32::try_from(actor.queue.messages().len()).unwrap_or(u32::MAX);
        let (thread_id, pause) = (actor.journal.id().to_string(), shown_pause(actor));
        let params = ThreadQueueChangedNotification { thread_id, length, pause };
        peer.notify::<ThreadQueueChanged>(&params);
    }
}

/// The pause, of a queue that has messages.
fn shown_pause(actor: &Actor) -> Option<ThreadQueuePause> {
    actor.journal.queue_pause().filter(|_| !actor.queue.is_empty()).cloned()
}

pub(super) async fn queue_request(
    actor: &mut Actor,
    request: QueueRequest,
    gate: Gate,
    steps: &mut Vec<Step>,
) {
    actor.execute(std::mem::take(steps)).await;
    let is_answered = match request {
        // A caller that has left needs no answer.
        QueueRequest::List { answer } => return drop(answer.send(queue_view(actor))),
        QueueRequest::Add { input, client_id, answer } => {
            answer.send(queue_message(actor, input, client_id).await).is_ok()
        }
        QueueRequest::Update { id, input, answer } => {
            answer.send(update_queued(actor, &id, input).await).is_ok()
        }
        QueueRequest::Delete { id, answer } => answer.send(delete_queued(actor, &id).await).is_ok(),
        QueueRequest::Reorder { ids, answer } => {
            answer.send(reorder_queue(actor, ids).await).is_ok()
        }
    };
    if is_answered {
        gate.opened().await;
    }
    show_queue(actor);
}

fn queue_view(actor: &Actor) -> QueueView {
    QueueView { messages: actor.queue.messages().to_vec(), pause: shown_pause(actor) }
}

async fn queue_message(
    actor: &mut Actor,
    input: Vec<UserInput>,
    client_id: String,
) -> Result<QueuedSubmission, Error> {
    let id = actor.journal.new_id();
    let message = QueuedSubmission { id, input, client_user_message_id: client_id };
    if let Some(known) = actor.queue.sent_before(&message) {
        return Ok(known);
    }
    actor.queue.check_room(actor.journal.id(), &message)?;
    let is_first = actor.queue.is_empty();
    actor.journal.change_queue(QueueWrite::Add(stored_message(&message)), is_first).await?;
    actor.queue.add(message.clone());
    actor.queue.changed();
    Ok(message)
}

async fn update_queued(
    actor: &mut Actor,
    id: &str,
    input: Vec<UserInput>,
) -> Result<QueuedSubmission, Error> {
    let known = actor.queue.find(id).ok_or_else(|| unknown_message(id))?;
    let message = QueuedSubmission { input, ..known.clone() };
    actor.queue.check_room(actor.journal.id(), &message)?;
    actor.journal.change_queue(QueueWrite::Replace(stored_message(&message)), false).await?;
    actor.queue.replace(message.clone());
    actor.queue.changed();
    Ok(message)
}

async fn delete_queued(actor: &mut Actor, id: &str) -> Result<bool, Error> {
    if actor.queue.find(id).is_none() {
        return Ok(false);
    }
    let is_last = actor.queue.messages().len() == 1;
    let write = QueueWrite::Remove { id: id.to_owned() };
    actor.journal.change_queue(write, is_last).await?;
    actor.queue.changed();
    Ok(actor.queue.remove(id))
}

async fn reorder_queue(actor: &mut Actor, ids: Vec<String>) -> Result<(), Error> {
    let ordered = actor.queue.reordered(&ids)?;
    actor.journal.change_queue(QueueWrite::Reorder { ids }, false).await?;
    actor.queue.set_order(ordered);
    actor.queue.changed();
    Ok(())
}

/// A message is prepared: starts its turn if it may.
pub(super) async fn start_queued(actor: &mut Actor, start: QueuedStart, steps: &mut Vec<Step>) {
    let QueuedStart { message, content, asked } = start;
    actor.execute(std::mem::take(steps)).await;
    let is_asked = asked.is_some();
    if !is_asked {
        actor.queue.prepared();
    }
    let reply = match asked {
        Some((answer, gate)) => {
            if let Err(error) = check_startable(actor, &message) {
                return refuse(answer, error);
            }
            actor.mailbox.replies().register(answer, gate)
        }
        // Something else began meanwhile, or the queue changed: it is prepared again.
        None if !is_next(actor, &message) => return,
        None => NO_REPLY,
    };
    let begun = match content {
        Ok(content) => begin_queued(actor, &message, content, reply, steps).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(()) => {}
        Err(error) if is_asked => {
            let result = Err(error);
            actor.mailbox.replies().send_result(reply, result).await;
        }
        Err(error) => pause_unstarted(actor, &error).await,
    }
}

/// Returns whether a message starts now by itactor.
fn is_next(actor: &Actor, message: &QueuedSubmission) -> bool {
    actor.machine.active_turn().is_none()
        && actor.queue.goes_on(actor.journal.queue_pause())
        && actor.queue.messages().first() == Some(message)
}

/// Checks that a message may start because a client asks for it.
fn check_startable(actor: &Actor, message: &QueuedSubmission) -> Result<(), Error> {
    if actor.machine.active_turn().is_some() {
        return Err(Error::wrong_state("thread already has an active or pending turn")
            .next_step("the message starts after it; or interrupt the turn first"));
    }
    match actor.queue.find(&message.id) {
        None => Err(unknown_message(&message.id)),
        Some(known) if known != message => {
            Err(Error::wrong_state("the queued submission has just changed")
                .next_step("list the queue again, then start it"))
        }
        Some(_) => Ok(()),
    }
}

/// Starts the turn of a message, and takes it out of the queue with the same commit.
async fn begin_queued(
    actor: &mut Actor,
    message: &QueuedSubmission,
    content: Vec<session::UserContent>,
    reply: u64,
    steps: &mut Vec<Step>,
) -> Result<(), Error> {
    let overrides = actor.before_turn(Overrides::default(), None, steps).await?;
    append_steps(actor.machine.override_settings(overrides), steps);
    let client_id = message.client_user_message_id.as_str().into();
    let effects = actor.machine.step(MachineInput::StartQueued { reply, content, client_id });
    let Some(turn) = started_turn(&effects) else {
        let refused = effects.into_iter().find_map(refusal);
        return Err(match refused {
            Some(refusal) => refusal.into(),
            None => Error::failed("the session did not start the queued turn"),
        });
    };
    actor.model.request_budget(turn.clone(), TurnBudget::Own { max_tokens: None });
    actor.journal.take_queued(turn, message.id.clone());
    append_steps(effects, steps);
    actor.execute(std::mem::take(steps)).await;
    Ok(())
}

/// A message that cannot start waits for a client, and so do those after it.
async fn pause_unstarted(actor: &mut Actor, error: &Error) {
    let message = format!("a queued message was not started: {error}");
    actor.broadcast.warn_about_thread(&message);
    let reason = ThreadQueuePauseReason::NotStarted;
    let pause = ThreadQueuePause { reason, message: Some(error.to_string()) };
    if let Err(error) = actor.journal.pause_queue(pause).await {
        tracing::warn!(target: "server::store", "the pause of a queue is not stored: {error}");
    }
}

/// The number of a reply that no request waits for.
const NO_REPLY: u64 = 0;

fn refusal(effect: Effect) -> Option<Refusal> {
    match effect {
        Effect::Reply { result: Err(refusal), .. } => Some(refusal),
        _ => None,
    }
}
