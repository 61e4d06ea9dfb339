//! Reviews: git reads the change, the model comments on it (specification: Turns and review).

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use protocol::{
    ReviewDelivery, ReviewMethods, ReviewStartParams, ReviewStartResponse, ReviewTarget, Thread,
    ThreadStarted, ThreadStartedNotification,
};
use session::{Answer, Id, Overrides, Settings};

use crate::git_command::GitServices;
use crate::handlers::thread::Attaching;
use crate::handlers::turn::ask;
use crate::review_change::{self, ChangeLocation, ReviewSubject};
use services::allowed::{Allowed, MachineInput};
use services::error::Error;
use services::peer::{Caller, Gate, Peer, held_gate};
use services::{convert, git};

use crate::server::Server;
use services::thread_port::{Command, ThreadHandle};
use threads::thread_loader::{ClientOverrides, Fork};

/// Longest instructions of a review, in characters.
const MAX_INSTRUCTIONS: usize = 100_000;

impl ReviewMethods<Caller> for Server {
    async fn review_start(
        &self,
        caller: Caller,
        params: ReviewStartParams,
    ) -> Result<ReviewStartResponse, Error> {
        let target = target(params.target)?;
        let original = self.loaded_thread(&params.thread_id).await?;
        // Before a detached review forks: one that is refused leaves no thread behind.
        let settings = original.snapshot().await.ok_or_else(|| original.unloaded())?.settings;
        let config =
            self.services.configurations.in_folder(&settings.cwd, None).await?.resolved.config;
        // The settings were allowed when they were set; the configuration may have changed since.
        let cwd = settings.cwd.clone();
        let (settings, _) = Allowed::new(settings, &config, &cwd);
        let git = self.git_services();
        let located = review_change::locate(&git, &config, &settings, &target).await;
        let located = located.map_err(|error| error.within("`target`"))?;
        let detached = params.delivery == Some(ReviewDelivery::Detached);
        let (thread, handle, gate) = if detached {
            let fork = Fork {
                parent: &params.thread_id,
                last_turn: None,
                ephemeral: false,
                source: None,
                session_source: Some(convert::thread::review_source()),
            };
            let overrides = ClientOverrides::default();
            let fork = self.services.loader.fork_thread(caller.clients(), fork, overrides).await?;
            let (overrides, since, gate) = (Overrides::default(), None, Gate::open());
            let attaching = Attaching { overrides, since, announce: false, gate };
            let attached = self.attach_at(&caller, &fork, attaching).await?;
            (attached.thread.id.clone(), fork, announced(&caller, attached.thread))
        } else {
            (params.thread_id, original, caller.gate())
        };
        let subject = target.subject();
        // The change is read during the turn, which can be interrupted, because git may be slow.
        let prompt = match &target {
            ReviewSubject::Custom(instructions) => Some(instructions.clone()),
            _ => None,
        };
        let (reads, model) = (prompt.is_none(), config.review_model.clone());
        let started =
            ask(&handle, gate, move |reply| MachineInput::Review { reply, subject, prompt, model });
        match started.await? {
            Answer::Started(view) => {
                if reads {
                    let turn = view.id.clone();
                    let reading = Reading { config, settings, target, located, turn };
                    let (peer, thread) = (caller.peer.clone(), thread.clone());
                    tokio::spawn(reading.run(git, handle, peer, thread));
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

/// Announces the thread of a detached review after the response, and then opens the gate of the review's
/// events.
fn announced(caller: &Caller, thread: Thread) -> Gate {
    let (hold, gate) = held_gate();
    let (peer, response) = (caller.peer.clone(), caller.gate());
    tokio::spawn(async move {
        response.opened().await;
        peer.notify::<ThreadStarted>(&ThreadStartedNotification { thread });
        drop(hold);
    });
    gate
}

/// The change that a running review waits for.
struct Reading {
    config: config::Config,
    settings: Allowed<Settings>,
    target: ReviewSubject,
    located: ChangeLocation,
    turn: Id,
}

impl Reading {
    /// Reads the change and sends it to the turn; stops when the turn is over.
    async fn run(self, git: GitServices, handle: ThreadHandle, peer: Arc<Peer>, thread: String) {
        let Self { config, settings, target, located, turn } = self;
        let change = tokio::select! {
            change = review_change::read(&git, &config, &settings, located) => change,
            () = handle.clone().after_turn() => return,
        };
        if let Some(why) = &change.unread {
            services::warnings::send_about_thread(&peer, &thread, why.clone());
        }
        let prompt = change.prompt(&target);
        handle.send(Command::Input(MachineInput::ReviewPrompt { turn, prompt })).await;
    }
}

/// Checks what can be known about a review in the folder `cwd` without a thread; `review/start` checks
/// the rest. `variables` are those that git gets. Waits for the file system.
///
/// # Errors
/// What is wrong with the target, or that git can find no repository.
pub fn check_review(
    reviewed: &ReviewTarget,
    cwd: &Path,
    variables: &[(OsString, OsString)],
) -> Result<(), Error> {
    let is_custom = matches!(target(reviewed.clone())?, ReviewSubject::Custom(_));
    let names_repository = variables.iter().any(|(name, _)| name == "GIT_DIR");
    if is_custom || names_repository || git::may_be_repository(cwd) {
        return Ok(());
    }
    Err(Error::invalid_params(review_change::no_repository(cwd)))
}

fn target(target: ReviewTarget) -> Result<ReviewSubject, Error> {
    let name = |member: &str, text: String| {
        let name = text.trim().to_owned();
        if name.is_empty() || name.len() > 1000 || name.chars().any(char::is_control) {
            let message =
                format!("`target.{member}` must be a name on one line, of 1 to 1000 bytes");
            return Err(Error::invalid_params(message));
        }
        Ok(name)
    };
    Ok(match target {
        ReviewTarget::UncommittedChanges {} => ReviewSubject::Uncommitted,
        ReviewTarget::BaseBranch { branch } => ReviewSubject::Branch(name("branch", branch)?),
        ReviewTarget::Commit { sha, title } => {
            ReviewSubject::Commit { sha: name("sha", sha)?, title }
        }
        ReviewTarget::Custom { instructions } => {
            let text = instructions.trim();
            let characters = text.chars().count();
            if !(1..=MAX_INSTRUCTIONS).contains(&characters) {
                return Err(Error::invalid_params(format!(
                    "`target.instructions` must have 1 to {MAX_INSTRUCTIONS} characters, not \
                     {characters}"
                )));
            }
            ReviewSubject::Custom(text.to_owned())
        }
    })
}
