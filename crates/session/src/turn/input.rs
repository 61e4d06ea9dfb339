//! Input of a running turn: messages of the user and what else waits for its next request.

use std::sync::Arc;

use super::{Kind, Request, Turn, apps, new_view, skills};
use crate::port::effect::{Answer, NotSteerable, Record, Refusal, RefusalCause};
use crate::port::event::Event;
use crate::port::fragment::{Fragment, Mark};
use crate::port::input::Author;
use crate::port::item::{Item, UserContent};
use crate::thread::Thread;
use crate::unstored_text::Portions;
use crate::{Id, history};

/// A message that starts a turn.
pub(crate) struct UserMessage {
    pub(crate) author: Author,
    pub(crate) content: Vec<UserContent>,
    /// The client's id of the message, when it was queued.
    pub(crate) client_id: Option<Arc<str>>,
}

impl Turn {
    /// Shows the message that starts the turn and adds it to the history.
    pub(crate) fn add_user_message(&mut self, message: UserMessage, thread: &mut Thread) {
        let UserMessage { author, content, client_id } = message;
        thread.conversation.preview(&content, &mut thread.cx);
        let turn = self.view.id.clone();
        let message = fragments_of(author, &content, &[], thread);
        match self.submit(author, &content, &message, thread) {
            // The message comes with the answer of the hooks, and the request with it.
            true => self.again = false,
            false => thread.conversation.remember(Some(&turn), message, &mut thread.cx),
        }
        show_user_message(&turn, content, client_id, thread);
    }

    /// A turn started while this one runs: its input joins this one, and it ends with this one. Its
    /// schema holds from the next request to the model on.
    pub(crate) fn join(
        &mut self,
        reply: u64,
        (author, content): (Author, Vec<UserContent>),
        output_schema: Option<Arc<str>>,
        thread: &mut Thread,
    ) {
        let view = new_view(thread);
        let (turn, at) = (view.id.clone(), view.started_at);
        self.joined.push(view.clone());
        self.output_schema = output_schema.or(self.output_schema.take());
        thread.cx.persist(Record::TurnStarted { turn: turn.clone(), at });
        thread.cx.reply(reply, Answer::Started(view.clone()));
        thread.cx.emit(Event::TurnStarted(view));
        self.add_pending_message(&turn, author, content, thread);
        self.withdraw_questions(thread);
        self.renew_queued_request(thread);
    }

    /// A client adds to the input that the model has not seen.
    pub(crate) fn steer(&mut self, reply: u64, content: Vec<UserContent>, thread: &mut Thread) {
        let turn = self.view.id.clone();
        thread.cx.reply(reply, Answer::Steered { turn: turn.clone() });
        self.add_pending_message(&turn, Author::User, content, thread);
        self.renew_queued_request(thread);
    }

    /// Refuses input for a turn that is a review or a compaction, that is ending, or that has as
    /// much waiting input or joined turns as it may.
    pub(crate) fn check_takes_input(&self, thread: &Thread) -> Result<(), Refusal> {
        if let Some(kind) = self.not_steerable() {
            let what = match kind {
                NotSteerable::Review => "a review",
                NotSteerable::Compaction => "a compaction",
            };
            let message = format!(
                "the running turn is {what}, which takes no input; wait for its end, or interrupt it"
            );
            return Err(Refusal { message, cause: RefusalCause::NotSteerable(kind) });
        }
        let limit = thread.cx.limits.pending_inputs;
        let is_full = self.pending.len() >= limit || self.joined.len() >= limit;
        if is_full || self.is_ending() {
            return Err("the running turn takes no more input".into());
        }
        Ok(())
    }

    /// Returns the kind of the turn, when that accepts no input. An ordinary turn accepts it even
    /// while its history is compacted.
    pub(super) fn not_steerable(&self) -> Option<NotSteerable> {
        match self.kind {
            Kind::Review(_) => Some(NotSteerable::Review),
            Kind::Compaction => Some(NotSteerable::Compaction),
            Kind::Ordinary { .. } | Kind::Shell => None,
        }
    }

    /// Returns the input that joined the turn and that the model has not seen yet.
    pub(crate) fn pending_input(&self) -> &[Fragment] {
        &self.pending
    }

    fn add_pending_message(
        &mut self,
        turn: &Id,
        author: Author,
        content: Vec<UserContent>,
        thread: &mut Thread,
    ) {
        thread.conversation.preview(&content, &mut thread.cx);
        let message = fragments_of(author, &content, &self.pending, thread);
        if !self.submit(author, &content, &message, thread) {
            self.add_pending(message, thread);
        }
        // The next response answers the message, too: it does not go on with an earlier text.
        self.close_unfinished(thread);
        show_user_message(turn, content, None, thread);
    }

    /// Stores what is being streamed and has text that is not stored.
    pub(crate) fn store_new_text(&mut self, portions: Portions, thread: &mut Thread) {
        let mut items = self.unfinished.with_new_text(portions);
        if let Request::Streaming(sample) = &mut self.request {
            items.extend(sample.with_new_text(portions));
        }
        for item in items {
            thread.cx.persist(Record::Item { turn: self.view.id.clone(), item });
        }
    }

    /// Has hooks look at what the user wrote, and then the driver at what its skills need. Returns whether
    /// the message waits for the hooks.
    fn submit(
        &mut self,
        author: Author,
        content: &[UserContent],
        message: &[Fragment],
        thread: &mut Thread,
    ) -> bool {
        let skills = skills::skills_of(author, content);
        let waits = author == Author::User
            && self.run_prompt_hooks(prompt_of(content), message, skills.clone(), thread);
        if !waits {
            self.find_skill_needs(skills, thread);
        }
        waits
    }

    /// Adds to the thread's history independently of the running turn, stored at once. An ordinary turn sends
    /// it with its next request. A review has a history of its own and a compaction makes no
    /// request after its summary, so there a later turn is the first to send it.
    pub(crate) fn add_pending(&mut self, fragments: Vec<Fragment>, thread: &mut Thread) {
        match self.kind {
            Kind::Review(_) => {
                thread.conversation.remember(Some(&self.received), fragments, &mut thread.cx);
            }
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => {
                self.pending.extend(fragments.iter().cloned());
                let turn = self.last_id().clone();
                store_waiting(turn, fragments, thread);
            }
        }
    }

    /// Moves the waiting input to the history, at the same place in the store.
    pub(super) fn receive_pending(&mut self, thread: &mut Thread) {
        self.received = self.last_id().clone();
        let pending = std::mem::take(&mut self.pending);
        thread.conversation.remember(Some(&self.received), pending, &mut thread.cx);
    }

    /// Stores the waiting input once more, after a history that begins again.
    pub(super) fn store_pending_again(&self, thread: &mut Thread) {
        if !self.pending.is_empty() {
            store_waiting(self.received.clone(), self.pending.clone(), thread);
        }
    }

    /// The turn that joined last, or the turn itself.
    pub(super) fn last_id(&self) -> &Id {
        &self.joined.last().unwrap_or(&self.view).id
    }
}

/// Stores input that the model has not received: a crash must not lose it.
fn store_waiting(turn: Id, mut fragments: Vec<Fragment>, thread: &mut Thread) {
    fragments.iter_mut().for_each(|fragment| fragment.is_waiting = true);
    thread.cx.persist(Record::History { turn: Some(turn), fragments });
}

/// Returns the text of a message for hooks.
fn prompt_of(content: &[UserContent]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|part| match part {
            UserContent::Text { text, .. } => Some(text.as_str()),
            UserContent::Image { .. }
            | UserContent::LocalImage { .. }
            | UserContent::App { .. }
            | UserContent::Skill { .. } => None,
        })
        .collect();
    texts.join("\n")
}

/// Input as part of the history: the texts of skills that the model does not have yet, the message, and
/// the tools that it loads. What an agent writes is kept like the user's message, and not taken for it; the
/// mark, which is stored, tells them apart. The texts of skills are kept in the same way.
fn fragments_of(
    author: Author,
    content: &[UserContent],
    pending: &[Fragment],
    thread: &mut Thread,
) -> Vec<Fragment> {
    let mut fragments = texts_of_skills(content, pending, thread);
    let offer = thread.configuration.offer();
    let fragment = history::user_message(content, |id, name| apps::mention(id, name, offer));
    let message = match author {
        Author::Agent => Fragment { mark: Mark::Pinned, ..fragment },
        Author::User => fragment,
    };
    fragments.push(message);
    fragments.extend(apps::loaded_tools(content, thread));
    fragments
}

fn texts_of_skills(
    content: &[UserContent],
    pending: &[Fragment],
    thread: &Thread,
) -> Vec<Fragment> {
    let history = thread.conversation.history().fragments();
    let mut fragments: Vec<Fragment> = Vec::new();
    for part in content {
        let UserContent::Skill { text, .. } = part else { continue };
        let fragment = Fragment::new(history::message("user", text), Mark::Pinned);
        let mut known = history.iter().chain(pending).chain(&fragments);
        if !known.any(|known| known.text == fragment.text) {
            fragments.push(fragment);
        }
    }
    fragments
}

fn show_user_message(
    turn: &Id,
    content: Vec<UserContent>,
    client_id: Option<Arc<str>>,
    thread: &mut Thread,
) {
    let item = Item::UserMessage { id: thread.cx.item_id(), content, client_id };
    thread.cx.whole_item(turn, item);
}
