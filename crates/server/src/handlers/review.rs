//! Reviews: the change is read with git, the model judges it (specification: Turns and review).

use jsonrpc::ErrorObject;
use protocol::{
    ReviewDelivery, ReviewMethods, ReviewStartParams, ReviewStartResponse, ReviewTarget,
};
use session::{Answer, Input, Overrides};

use crate::change::{self, Target};
use crate::connection::{Cx, Gate};
use crate::convert;
use crate::handlers::thread::{Attaching, look};
use crate::handlers::turn::ask;
use crate::loading::{self, Fork, Wishes};
use crate::server::Server;

/// Longest instructions of a review, in characters.
const MAX_INSTRUCTIONS: usize = 100_000;

impl ReviewMethods<Cx> for Server {
    async fn review_start(
        &self,
        cx: Cx,
        params: ReviewStartParams,
    ) -> Result<ReviewStartResponse, ErrorObject> {
        let target = target(params.target)?;
        let original = self.loaded_thread(&params.thread_id).await?;
        let gone = || ErrorObject::invalid_request("the thread is not loaded any more");
        // Before a detached review forks: one that is refused leaves no thread behind.
        let settings = look(&original).await.ok_or_else(gone)?.settings;
        let config = self.core.configuration(&settings.cwd, None).await?.resolved.config;
        let read = change::read(&self.core, &config, &settings, &target).await;
        let change =
            read.map_err(|what| ErrorObject::invalid_params(format!("`target`: {what}")))?;
        let detached = params.delivery == Some(ReviewDelivery::Detached);
        let (thread, handle) = if detached {
            let fork = Fork {
                parent: &params.thread_id,
                last_turn: None,
                ephemeral: false,
                source: None,
                session_source: Some(convert::thread::review_source()),
            };
            let wishes = Wishes::default();
            let fork = loading::fork_thread(&self.core, &cx.peer, fork, wishes).await?;
            // The review's events follow the response, so the thread is announced before it.
            let gate = Gate::open();
            let (overrides, since) = (Overrides::default(), None);
            let attaching = Attaching { overrides, since, announce: true, gate };
            let attached = self.attach_at(&cx, &fork, attaching).await?;
            (attached.thread.id, fork)
        } else {
            (params.thread_id, original)
        };
        if let Some(why) = &change.unread {
            crate::warnings::tell_about_thread(&cx.peer, &thread, why.clone());
        }
        let (subject, prompt) = (target.subject(), change.prompt(&target));
        let model = config.review_model.clone();
        let started =
            ask(&handle, cx.gate(), move |reply| Input::Review { reply, subject, prompt, model });
        match started.await? {
            Answer::Started(view) => Ok(ReviewStartResponse {
                turn: convert::event::turn(&view),
                review_thread_id: thread,
            }),
            _ => Err(ErrorObject::internal("review/start was answered as something else")),
        }
    }
}

fn target(target: ReviewTarget) -> Result<Target, ErrorObject> {
    let name = |member: &str, text: String| {
        let name = text.trim().to_owned();
        if name.is_empty() || name.len() > 1000 || name.chars().any(char::is_control) {
            let message = format!("`target.{member}` must be the name of one, in one line");
            return Err(ErrorObject::invalid_params(message));
        }
        Ok(name)
    };
    Ok(match target {
        ReviewTarget::UncommittedChanges => Target::Uncommitted,
        ReviewTarget::BaseBranch { branch } => Target::Branch(name("branch", branch)?),
        ReviewTarget::Commit { sha, title } => Target::Commit { sha: name("sha", sha)?, title },
        ReviewTarget::Custom { instructions } => {
            let text = instructions.trim();
            let characters = text.chars().count();
            if !(1..=MAX_INSTRUCTIONS).contains(&characters) {
                return Err(ErrorObject::invalid_params(format!(
                    "`target.instructions` must have 1 to {MAX_INSTRUCTIONS} characters, not \
                     {characters}"
                )));
            }
            Target::Custom(text.to_owned())
        }
    })
}
