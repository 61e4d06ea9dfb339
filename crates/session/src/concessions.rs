//! Parts of requests that a thread leaves out, or writes differently, because its provider refused them: reasoning
//! that another key encrypted, images, kinds of tools and items, members of items. A refusal is read by its
//! code, its parameter and its text; the thread goes on with one more request. The history stays as it is.

mod read;
mod rewrite;

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
        let mut found = refused
            .concessions()
            .into_iter()
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
        for Conceded { provider, concession } in &self.0 {
            if *provider == prompt.provider {
                rewrite::apply(concession, prompt);
            }
        }
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
        }
    }

    fn instead(&self) -> &'static str {
        match self {
            Self::EarlierReasoning(_) => "without the reasoning so far",
            Self::Reasoning | Self::Ids => "without them",
            Self::Member(_) | Self::Parameter(_) => "without it",
            Self::Images => "with notes in their place",
            Self::ToolTypes => "with functions only",
            Self::SystemMessages => "with one",
            Self::CallIds => "with other ids",
            Self::ItemType(_) | Self::CallsOf(_) => "with text in their place",
        }
    }
}

#[cfg(test)]
mod tests;
