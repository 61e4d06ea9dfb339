//! Files and folders, for clients: with the rights of the server, as a client's own programs outside of
//! the sandbox have them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::fs::{
    FsCopyParams, FsCreateDirectoryParams, FsGetMetadataParams, FsGetMetadataResponse,
    FsReadDirectoryEntry, FsReadDirectoryParams, FsReadDirectoryResponse, FsReadFileParams,
    FsReadFileResponse, FsRemoveParams, FsUnwatchParams, FsWatchParams, FsWatchResponse,
    FsWriteFileParams,
};
use protocol::{Empty, FsMethods};

use crate::server::Server;
use services::allowed::Allowed;
use services::error::Error;
use services::folders::absolute;
use services::peer::Caller;

/// Time limit for a copy or the removal of a folder. What takes longer ends with an error.
const LONG_LIMIT: Duration = Duration::from_secs(600);

/// Time limit for reading the folders below a watched path.
const WATCH_LIMIT: Duration = Duration::from_secs(60);

impl FsMethods<Caller> for Server {
    async fn fs_read_file(
        &self,
        _caller: Caller,
        params: FsReadFileParams,
    ) -> Result<FsReadFileResponse, Error> {
        let read = |path: &Path| Ok(STANDARD.encode(filesystem::read(path)?));
        let data_base64 = self.on_file(absolute("path", &params.path)?, read).await?;
        Ok(FsReadFileResponse { data_base64 })
    }

    async fn fs_write_file(
        &self,
        _caller: Caller,
        params: FsWriteFileParams,
    ) -> Result<Empty, Error> {
        let path = absolute("path", &params.path)?;
        self.check_writes(&path).await?;
        let contents = STANDARD.decode(&params.data_base64).map_err(|error| {
            Error::invalid_params(format!("`dataBase64` is not base64 with padding: {error}"))
        })?;
        self.on_file(path, move |path| filesystem::write(path, &contents)).await?;
        Ok(Empty {})
    }

    async fn fs_create_directory(
        &self,
        _caller: Caller,
        params: FsCreateDirectoryParams,
    ) -> Result<Empty, Error> {
        let path = absolute("path", &params.path)?;
        self.check_writes(&path).await?;
        let with_parents = params.recursive.unwrap_or(true);
        self.on_file(path, move |path| filesystem::create_folder(path, with_parents)).await?;
        Ok(Empty {})
    }

    async fn fs_get_metadata(
        &self,
        _caller: Caller,
        params: FsGetMetadataParams,
    ) -> Result<FsGetMetadataResponse, Error> {
        let path = absolute("path", &params.path)?;
        let found = self.on_file(path, filesystem::metadata).await?;
        Ok(FsGetMetadataResponse {
            is_file: found.is_file,
            is_directory: found.is_folder,
            is_symlink: found.is_link,
            created_at_ms: found.created_at_ms,
            modified_at_ms: found.modified_at_ms,
        })
    }

    async fn fs_read_directory(
        &self,
        _caller: Caller,
        params: FsReadDirectoryParams,
    ) -> Result<FsReadDirectoryResponse, Error> {
        let path = absolute("path", &params.path)?;
        let entries = self.on_file(path, filesystem::read_folder).await?;
        let entry = |entry: filesystem::Entry| FsReadDirectoryEntry {
            file_name: entry.name,
            is_file: entry.is_file,
            is_directory: entry.is_folder,
        };
        Ok(FsReadDirectoryResponse { entries: entries.into_iter().map(entry).collect() })
    }

    async fn fs_remove(&self, _caller: Caller, params: FsRemoveParams) -> Result<Empty, Error> {
        let path = absolute("path", &params.path)?;
        self.check_writes(&path).await?;
        let (with_contents, or_missing) =
            (params.recursive.unwrap_or(true), params.force.unwrap_or(true));
        let remove = move |path: &Path, _: &dyn Fn() -> bool| {
            filesystem::remove(path, with_contents, or_missing)
        };
        self.on_files(path, remove).await?;
        Ok(Empty {})
    }

    /// Ends early when the client disconnects.
    async fn fs_copy(&self, _caller: Caller, params: FsCopyParams) -> Result<Empty, Error> {
        let source = absolute("sourcePath", &params.source_path)?;
        let destination = absolute("destinationPath", &params.destination_path)?;
        self.check_writes(&destination).await?;
        let recursive = params.recursive;
        let copy = move |source: &Path, is_stopped: &dyn Fn() -> bool| {
            filesystem::copy(source, &destination, recursive, is_stopped)
        };
        self.on_files(source, copy).await?;
        Ok(Empty {})
    }

    async fn fs_watch(
        &self,
        caller: Caller,
        params: FsWatchParams,
    ) -> Result<FsWatchResponse, Error> {
        let FsWatchParams { watch_id, path, recursive } = params;
        let watched = absolute("path", &path)?;
        let watches = &self.services.watches;
        let registration = watches.register(caller.peer.clone(), watch_id)?;
        // An `fs/unwatch` that follows finds it.
        caller.begun();
        let (watcher, for_pool) = (watches.watcher().clone(), watched.clone());
        let begin = move || watcher.watch(&watched, recursive);
        let pool = &self.services.long_files;
        let watch = pool.run_within(WATCH_LIMIT, &for_pool, begin).await??;
        registration.follow(watch, caller.gate())?;
        Ok(FsWatchResponse { path })
    }

    async fn fs_unwatch(&self, caller: Caller, params: FsUnwatchParams) -> Result<Empty, Error> {
        self.services.watches.end(caller.peer.id, &params.watch_id);
        Ok(Empty {})
    }
}

impl Server {
    /// Runs work on one path, of bounded length.
    async fn on_file<T: Send + 'static>(
        &self,
        path: PathBuf,
        work: impl FnOnce(&Path) -> Result<T, filesystem::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let for_pool = path.clone();
        Ok(self.services.files.run(&for_pool, move || work(&path)).await??)
    }

    /// Runs work whose length depends on what is there, apart from all other work on files. The work
    /// can ask whether somebody still waits for it.
    async fn on_files<T: Send + 'static>(
        &self,
        path: PathBuf,
        work: impl FnOnce(&Path, &dyn Fn() -> bool) -> Result<T, filesystem::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let stopped = StopOnDrop::default();
        let (flag, for_pool) = (stopped.0.clone(), path.clone());
        let work = move || work(&path, &|| flag.load(Ordering::Relaxed));
        Ok(self.services.long_files.run_within(LONG_LIMIT, &for_pool, work).await??)
    }

    /// Checks that clients may change files. Where the requirements confine every command, a change
    /// by the server would be a way around them.
    async fn check_writes(&self, path: &Path) -> Result<(), Error> {
        let cwd = &self.services.options.cwd;
        let config = self.services.configurations.in_folder(cwd, None).await?.resolved.config;
        Allowed::full_access(&config).map(drop).map_err(|_| {
            let message = format!(
                "{}: `allowed_sandbox_modes` in the requirements does not permit full access, and this \
                 method writes without the sandbox", path.display()
            );
            Error::denied(message).next_step("use `command/exec` to change files in the sandbox")
        })
    }
}

/// Tells work that its caller has gone.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
