//! Work on files that clients, the model or a workspace name: always off the runtime's threads, so
//! that a file system that does not answer costs one request an error.

use std::path::{Path, PathBuf};

use crate::convert::settings::absolute;
use crate::error::Error;
use crate::server::Core;

impl Core {
    /// Runs work that may wait for the file system at `place`; see [`files::Pool`].
    ///
    /// # Errors
    /// `-32603` when the file system does not answer in time.
    pub(crate) async fn on_files<T: Send + 'static>(
        &self,
        place: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.files.run(place, work).await;
        done.map_err(Error::from)
    }

    /// The folder that a client gives as `cwd`: absolute, and there.
    ///
    /// # Errors
    /// `-32602` when it is not, and as [`Core::on_files`].
    pub(crate) async fn existing_folder(&self, path: &str) -> Result<PathBuf, Error> {
        self.folder(absolute("cwd", path)?).await
    }

    /// As [`Core::existing_folder`], for a `cwd` that may be left out.
    ///
    /// # Errors
    /// As [`Core::existing_folder`].
    pub(crate) async fn given_folder(&self, path: Option<&str>) -> Result<Option<PathBuf>, Error> {
        match path {
            Some(path) => self.existing_folder(path).await.map(Some),
            None => Ok(None),
        }
    }

    /// The folder itself, if it is one.
    ///
    /// # Errors
    /// As [`Core::existing_folder`].
    pub(crate) async fn folder(&self, path: PathBuf) -> Result<PathBuf, Error> {
        let looked = path.clone();
        if self.on_files(&path, move || looked.is_dir()).await? {
            return Ok(path);
        }
        Err(Error::invalid_params(format!("`cwd`: {} is not a folder", path.display())))
    }
}
