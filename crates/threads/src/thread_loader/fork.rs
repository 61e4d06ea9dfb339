//! Makes threads that begin with the turns of another one.

use hooks::StartSource;
use protocol::ThreadSource;
use session::{Restored, ThreadStart};
use store::{StoredThread, ThreadRecord};

use super::{ClientOverrides, Clients, StoredParts, ThreadLoader, limit};
use services::convert;
use services::error::Error;
use services::stored::Totals;
use services::thread_port::{Extra, ThreadHandle};
use services::thread_store::NewThread;

/// Where a fork ends, and whether it is kept.
pub struct Fork<'a> {
    pub parent: &'a str,
    /// `None`: with the last turn that has ended.
    pub last_turn: Option<String>,
    pub ephemeral: bool,
    pub source: Option<ThreadSource>,
    /// The kind of thread that lists show it as, when it is not the server's usual one.
    pub session_source: Option<(String, String)>,
}

impl ThreadLoader {
    /// Makes a thread that begins with the turns of another one, and loads it.
    pub async fn fork_thread(
        &self,
        clients: Clients<'_>,
        fork: Fork<'_>,
        client: ClientOverrides,
    ) -> Result<ThreadHandle, Error> {
        let store = self.store.get().await?;
        let Some(StoredThread { record: parent, .. }) = store.thread(fork.parent).await? else {
            return Err(match self.threads.get(fork.parent) {
                Some(_) => {
                    Error::wrong_state("an ephemeral thread is not stored, so it cannot be forked")
                }
                None => Error::unknown_thread(fork.parent),
            });
        };
        let mut settings = self.stored_settings(&parent).await?;
        let cwd = client.cwd.clone().unwrap_or_else(|| settings.cwd.clone());
        let (config, origin) = self.configuration(clients, &cwd, &client).await?;
        let inherited = Extra::read(&parent)?;
        // An agent's own settings may ask for more than it may do. The fork is a thread of the user,
        // so what the client chooses is bounded by the requirements only.
        if let Some(bound) = self.present_bound(&inherited).await? {
            bound.limit(&mut settings);
        }
        settings.apply(client.checked(&config, &self.defaults, &cwd)?);
        let settings = limit(clients, settings, &config);
        let extra = Extra {
            base_instructions: client.base_instructions.or(inherited.base_instructions),
            developer_instructions: client
                .developer_instructions
                .or(inherited.developer_instructions),
            thread_source: fork.source,
            without_memories: inherited.without_memories || fork.ephemeral,
            dynamic_tools: inherited.dynamic_tools,
            worktree: inherited.worktree,
            // What the model knew at an earlier turn is unknown: it is informed again.
            introduced: inherited.introduced.filter(|_| fork.last_turn.is_none()),
            documents: match fork.last_turn {
                None => inherited.documents,
                // The history shows them when it is read.
                Some(_) => Vec::new(),
            },
            ..Extra::default()
        };
        let options = &self.options;
        let now = options.clock.now_ms() / 1000;
        let (source_kind, source_json) = fork.session_source.unwrap_or_else(|| {
            let name = &options.session_source;
            (convert::thread::source_kind(name), convert::thread::source_json(name))
        });
        let record = ThreadRecord {
            id: options.ids.next(),
            session_id: parent.session_id.clone(),
            forked_from_id: Some(parent.id.clone()),
            preview: parent.preview.clone(),
            created_at: now,
            updated_at: now,
            source_kind,
            source: source_json,
            git_info: self.git_info(&settings).await?,
            cli_version: options.version.clone(),
            token_usage: parent.token_usage.clone(),
            extra: Some(extra.json()),
            ..ThreadRecord::default()
        };
        let new = NewThread::new(record, &settings);
        let parts = self.parts(clients, &config, &extra, settings).await?;
        let (usage, cost) = Totals::read(&parent.id, parent.token_usage.as_deref());
        let mut restored = Restored {
            introduced: extra.introduced.clone(),
            usage,
            cost,
            previewed: !parent.preview.is_empty(),
            documents: extra.documents.clone(),
            start: ThreadStart::User(StartSource::Fork),
            ..Restored::default()
        };
        if fork.ephemeral {
            let history = store.history(fork.parent).await?;
            restored.history = Some(convert::thread::fragments(history));
        } else {
            self.store.fork(&new, parent.id, fork.last_turn).await?;
        }
        let bound = self.bound(new.id(), &extra).await?;
        let stored = StoredParts::new(new.into_record(), extra, fork.ephemeral);
        Ok(self.start_actor((config, origin), (parts, bound), stored, restored))
    }
}
