//! Threads that are not stored yet: the client sends their history, or names a file that
//! `agentd threads export` wrote.

use std::path::PathBuf;
use std::time::Duration;

use files::Pool;
use images::Bounds;
use protocol::ThreadSource;
use protocol::response_item::ResponseItem;
use serde_json::Value;
use store::StoreError;
use store::transfer;
use store::{ThreadChanges, Write};

use crate::handlers::thread::inject;
use crate::handlers::turn::ask;
use crate::server::Server;
use services::allowed::MachineInput;
use services::error::Error;
use services::peer::{Caller, Gate};
use services::thread_port::{Extra, ThreadHandle};
use threads::thread_loader::ClientOverrides;

/// Largest file that a thread is read from: a file is held in memory until all of it is stored.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// Time limit for reading it.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Refuses members that are set together.
pub(super) fn at_most_one(given: &[(&str, bool)]) -> Result<(), Error> {
    let mut set = given.iter().filter(|(_, is_set)| *is_set);
    match (set.next(), set.next()) {
        (Some((first, _)), Some((second, _))) => Err(Error::exclusive(first, second)),
        _ => Ok(()),
    }
}

impl Server {
    /// A new thread whose history is these items.
    ///
    /// # Errors
    /// `-32602` for items that the model could not be sent; no thread is made.
    pub(super) async fn given_items(
        &self,
        caller: &Caller,
        items: &[ResponseItem],
        mut overrides: ClientOverrides,
    ) -> Result<ThreadHandle, Error> {
        let items: Result<Vec<Value>, _> = items.iter().map(serde_json::to_value).collect();
        let items = items.map_err(|error| Error::invalid_params(error.to_string()))?;
        let fragments =
            inject::fragments("history", items, (&self.services.images, Bounds::default())).await?;
        let extra = Extra {
            service_name: overrides.service_name.take(),
            dynamic_tools: overrides.dynamic_tools.take().unwrap_or_default(),
            ..Extra::default()
        };
        let handle =
            self.services.loader.new_thread(caller.clients(), overrides, false, extra).await?;
        ask(&handle, Gate::open(), move |reply| MachineInput::Inject { reply, fragments }).await?;
        Ok(handle)
    }

    /// The id of the thread in the file, which is imported if it is not stored.
    pub(super) async fn of_file(&self, path: &str) -> Result<String, Error> {
        let lines = read(&self.services.files, path).await?;
        let id = transfer::thread_id(&*lines).map_err(|error| unreadable(path, error))?;
        let store = self.services.store.get().await?;
        if store.thread(&id).await?.is_none() {
            transfer::import(store, &*lines, None)
                .await
                .map_err(|error| unreadable(path, error))?;
        }
        Ok(id)
    }

    /// The id of a new thread that is a copy of the one in the file.
    pub(super) async fn copy_of_file(
        &self,
        path: &str,
        source: Option<ThreadSource>,
    ) -> Result<String, Error> {
        let lines = read(&self.services.files, path).await?;
        let store = self.services.store.get().await?;
        let new_id = Some(self.services.options.ids.next());
        let id = transfer::import(store, &*lines, new_id).await;
        let id = id.map_err(|error| unreadable(path, error))?;
        if let Some(source) = source {
            let _lock = self.services.threads.lock(&id).await;
            let found = store.thread(&id).await?;
            let record = found.ok_or_else(|| Error::unknown_thread(&id))?.record;
            let extra = Extra { thread_source: Some(source), ..Extra::read(&record)? };
            let extra = Some(Some(extra.json()));
            let changes = Box::new(ThreadChanges { extra, ..ThreadChanges::default() });
            self.write_unloaded(&id, Write::UpdateThread { thread: id.clone(), changes }).await?;
        }
        Ok(id)
    }
}

async fn read(files: &Pool, path: &str) -> Result<Vec<u8>, Error> {
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        let message = format!("`path` must be absolute, not {}", path.display());
        return Err(Error::invalid_params(message));
    }
    let file = path.clone();
    let reading = files.run_within(READ_TIMEOUT, &path, move || {
        ::files::read(&file, MAX_FILE_BYTES)
            .map_err(|error| Error::invalid_params(format!("`path`: {error}")))
    });
    reading.await?
}

fn unreadable(path: &str, error: StoreError) -> Error {
    match error {
        StoreError::ImportLine { .. } | StoreError::Transfer(_) => {
            Error::invalid_params(format!("`path`: {path}: {error}"))
        }
        error => error.into(),
    }
}
