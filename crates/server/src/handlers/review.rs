//! Reviews: the change is read with git, the model judges it (specification: Turns and review).

use std::sync::Arc;

use protocol::{
    ReviewDelivery, ReviewMethods, ReviewStartParams, ReviewStartResponse, ReviewTarget,
};
use session::{Answer, Id, Input, Overrides, Settings};

use crate::change::{self, Located, Target};
use crate::connection::{Cx, Gate, Peer};
use crate::convert;
use crate::error::Error;
use crate::handlers::thread::{Attaching, look};
use crate::handlers::turn::ask;
use crate::loading::{self, Fork, Wishes};
use crate::server::{Core, Server};
use crate::thread::{Command, ThreadHandle};

/// Longest instructions of a review, in characters.
const MAX_INSTRUCTIONS: usize = 100_000;

impl ReviewMethods<Cx> for Server {
    async fn review_start(
        &self,
        cx: Cx,
        params: ReviewStartParams,
    ) -> Result<ReviewStartResponse, Error> {
        let target = target(params.target)?;
        let original = self.loaded_thread(&params.thread_id).await?;
        // Before a detached review forks: one that is refused leaves no thread behind.
        let settings = look(&original).await.ok_or_else(Error::unloaded)?.settings;
        let config = self.core.configuration(&settings.cwd, None).await?.resolved.config;
        let located = change::locate(&self.core, &config, &settings, &target).await;
        let located = located.map_err(|error| error.within("`target`"))?;
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
        let subject = target.subject();
        // The change is read in the turn, which can be interrupted: git may take its time.
        let prompt = match &target {
            Target::Custom(instructions) => Some(instructions.clone()),
            _ => None,
        };
        let (reads, model) = (prompt.is_none(), config.review_model.clone());
        let started =
            ask(&handle, cx.gate(), move |reply| Input::Review { reply, subject, prompt, model });
        match started.await? {
            Answer::Started(view) => {
                if reads {
                    let turn = view.id.clone();
                    let reading = Reading { config, settings, target, located, turn };
                    let (core, peer, thread) = (self.core.clone(), cx.peer.clone(), thread.clone());
                    tokio::spawn(reading.run(core, handle, peer, thread));
                }
                Ok(ReviewStartResponse {
                    turn: convert::event::turn(&view),
                    review_thread_id: thread,
                })
            }
            _ => Err(Error::mismatched_answer("review/start")),
        }
    }
}

/// The change that a running review waits for.
struct Reading {
    config: config::Config,
    settings: Settings,
    target: Target,
    located: Located,
    turn: Id,
}

impl Reading {
    /// Reads the change and gives it to the turn; stops when the turn is over.
    async fn run(self, core: Arc<Core>, handle: ThreadHandle, peer: Arc<Peer>, thread: String) {
        let Self { config, settings, target, located, turn } = self;
        let change = tokio::select! {
            change = change::read(&core, &config, &settings, located) => change,
            () = handle.clone().after_turn() => return,
        };
        if let Some(why) = &change.unread {
            crate::warnings::tell_about_thread(&peer, &thread, why.clone());
        }
        let prompt = change.prompt(&target);
        handle.send(Command::Input(Input::ReviewPrompt { turn, prompt })).await;
    }
}

fn target(target: ReviewTarget) -> Result<Target, Error> {
    let name = |member: &str, text: String| {
        let name = text.trim().to_owned();
        if name.is_empty() || name.len() > 1000 || name.chars().any(char::is_control) {
            let message = format!("`target.{member}` must be the name of one, in one line");
            return Err(Error::invalid_params(message));
        }
        Ok(name)
    };
    Ok(match target {
        ReviewTarget::UncommittedChanges {} => Target::Uncommitted,
        ReviewTarget::BaseBranch { branch } => Target::Branch(name("branch", branch)?),
        ReviewTarget::Commit { sha, title } => Target::Commit { sha: name("sha", sha)?, title },
        ReviewTarget::Custom { instructions } => {
            let text = instructions.trim();
            let characters = text.chars().count();
            if !(1..=MAX_INSTRUCTIONS).contains(&characters) {
                return Err(Error::invalid_params(format!(
                    "`target.instructions` must have 1 to {MAX_INSTRUCTIONS} characters, not \
                     {characters}"
                )));
            }
            Target::Custom(text.to_owned())
        }
    })
}
