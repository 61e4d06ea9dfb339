//! Parts of requests that a thread leaves out, or writes differently, because its provider refused them: reasoning
//! that another key encrypted, images, kinds of tools and items, members of items, the form and order of messages. A refusal is read by its
//! code, its parameter and its text; the thread goes on with one more request. The history stays as it is.

mod read;
mod rewrite;
mod schema;

use std::collections::BTreeSet;

use crate::port::concession::{Conceded, Concession};
use crate::port::model::{Failure, FailureKind};
use crate::port::prompt::Prompt;

/// Most concessions to one thread's providers. Beyond it, refusals fail their turns.
const MAX_CONCESSIONS: usize = 64;

/// The concessions of a thread to its providers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Concessions(BTreeSet<Conceded>);

impl Concessions {
    /// Those of a stored thread.
    pub(crate) fn new(stored: Vec<Conceded>) -> Self {
        Self(stored.into_iter().collect())
    }

    /// All of them, to be stored.
    pub(crate) fn all(&self) -> Vec<Conceded> {
        self.0.iter().cloned().collect()
    }

    /// Learns from the refusal of `prompt`, which was made with these concessions. Returns what to tell the user
    /// if a request that differs can help.
    pub(crate) fn learn(&mut self, failure: &Failure, prompt: &Prompt) -> Option<String> {
        if !may_be_refusal(failure) || self.0.len() >= MAX_CONCESSIONS {
            return None;
        }
        let refused = read::Refused::new(failure, prompt);
        let provider = &prompt.provider;
        let mut earlier = self.0.iter().filter(|conceded| conceded.provider == *provider);
        let mut found = refused
            .concessions(earlier.any(|conceded| conceded.concession.repairs_a_named_cause()))
            .into_iter()
            .filter(|concession| changes(concession, prompt))
            .map(|concession| Conceded { provider: provider.clone(), concession });
        // What was conceded is not in the prompt, so that it cannot be what is refused now.
        let found = found.find(|conceded| !self.0.contains(conceded))?;
        let message = format!(
            "the model provider `{provider}` refused {}; this thread goes on {} ({})",
            found.concession.refused(),
            found.concession.instead(),
            failure.message
        );
        self.0.insert(found);
        Some(message)
    }

    /// Rewrites a request as its provider takes it.
    pub(crate) fn apply(&self, prompt: &mut Prompt) {
        let of_provider = self.0.iter().filter(|it| it.provider == prompt.provider);
        // The others may add to the instructions.
        let is_last = |concession: &Concession| matches!(concession, Concession::Parameter(name) if name == "instructions");
        let mut sorted: Vec<&Concession> = of_provider.map(|it| &it.concession).collect();
        sorted.sort_by_key(|concession| is_last(concession));
        sorted.into_iter().for_each(|concession| rewrite::apply(concession, prompt));
    }
}

/// Advice after a refusal whose cause is not known: names the parts of the request that a provider may refuse.
pub(crate) fn advice(failure: &Failure, prompt: &Prompt) -> Option<String> {
    // Other failures are more likely the server's own.
    let is_refusal = failure.kind == FailureKind::BadRequest || failure.http_status == Some(422);
    if !is_refusal {
        return None;
    }
    let suspects = read::suspects(prompt);
    (!suspects.is_empty()).then(|| {
        format!(
            "; the provider may refuse a part of the history ({}): go back before it (`thread/rollback`), or \
             continue in a fork of an earlier turn",
            suspects.join(", ")
        )
    })
}

/// Returns whether a request differs with the concession. The same one again would be refused again.
fn changes(concession: &Concession, prompt: &Prompt) -> bool {
    let mut other = prompt.clone();
    rewrite::apply(concession, &mut other);
    let members = |it: &Prompt| {
        let texts = (it.instructions.clone(), it.tools.clone(), it.output_schema.clone());
        let options = [&it.effort, &it.summary, &it.verbosity, &it.service_tier].map(Clone::clone);
        (texts, options, it.left_out.clone(), it.reasoning_member)
    };
    *other.input != *prompt.input || members(&other) != members(prompt)
}

/// Returns whether the provider may have refused a part of the request. Some routers answer with a status of
/// the server's in place of 400.
fn may_be_refusal(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::BadRequest => true,
        FailureKind::HttpConnectionFailed | FailureKind::InternalServerError => {
            matches!(failure.http_status, Some(400 | 404 | 409 | 415 | 422 | 500 | 501))
        }
        // An error in the stream.
        FailureKind::Other => failure.http_status.is_none(),
        _ => false,
    }
}

impl Concession {
    /// Returns whether it is one of those to a cause that a refusal names in words of its own.
    fn repairs_a_named_cause(&self) -> bool {
        match self {
            Self::EarlierReasoning(_)
            | Self::Reasoning
            | Self::ReasoningMember
            | Self::ItemType(_)
            | Self::CallsOf(_)
            | Self::Images => true,
            Self::ToolTypes
            | Self::SystemMessages
            | Self::Ids
            | Self::CallIds
            | Self::Member(_)
            | Self::Parameter(_)
            | Self::ToolMember(_)
            | Self::PlainTexts
            | Self::AllMembers
            | Self::NoEmptyTexts
            | Self::AnswersAsQuotes
            | Self::MergedMessages
            | Self::AlternatingRoles
            | Self::UserAtEnd => false,
        }
    }

    fn refused(&self) -> String {
        match self {
            Self::EarlierReasoning(_) | Self::Reasoning => "reasoning in the history".to_owned(),
            Self::Images => "images".to_owned(),
            Self::ToolTypes => "a type of tool".to_owned(),
            Self::SystemMessages => "system messages after the first".to_owned(),
            Self::Ids => "ids of items in the history".to_owned(),
            Self::CallIds => "ids of calls in the history".to_owned(),
            Self::Member(name) => format!("the member `{}` in the history", visible::text(name)),
            Self::Parameter(name) => format!("the parameter `{name}`"),
            Self::ItemType(kind) => format!("items of the type `{}`", visible::text(kind)),
            Self::CallsOf(name) => format!("calls of the tool `{}`", visible::text(name)),
            Self::ToolMember(path) => format!("the member `{}` of tools", visible::text(path)),
            Self::PlainTexts => "the form of texts in the history".to_owned(),
            Self::AllMembers => "items of the history that lack a member".to_owned(),
            Self::NoEmptyTexts => "empty texts in the history".to_owned(),
            Self::AnswersAsQuotes => "messages of the model in the history".to_owned(),
            Self::MergedMessages => "messages of one role in a row".to_owned(),
            Self::AlternatingRoles => "roles that do not alternate".to_owned(),
            Self::UserAtEnd => "a message of the model at the end".to_owned(),
            Self::ReasoningMember => "messages of the model without their reasoning".to_owned(),
        }
    }

    fn instead(&self) -> &'static str {
        match self {
            Self::EarlierReasoning(_) => "without the reasoning so far",
            Self::Reasoning | Self::Ids => "without them",
            Self::Member(_) | Self::Parameter(_) | Self::ToolMember(_) => "without it",
            Self::Images => "with notes in their place",
            Self::ToolTypes => "with functions only",
            Self::SystemMessages => "with one",
            Self::CallIds => "with other ids",
            Self::ItemType(_) | Self::CallsOf(_) => "with text in their place",
            Self::PlainTexts => "with plain texts",
            Self::AllMembers => "with all members",
            Self::NoEmptyTexts => "with a word in their place",
            Self::AnswersAsQuotes => "with quotes in messages of the user in their place",
            Self::MergedMessages => "with one message in their place",
            Self::AlternatingRoles => "with merged messages",
            Self::UserAtEnd => "with a message of the user after it",
            Self::ReasoningMember => "with a member for it in each",
        }
    }
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;
