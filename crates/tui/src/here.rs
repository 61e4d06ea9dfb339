//! Discoveries on the machine of the server, where it is the program's own: model servers, and
//! folders that everybody can write.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// A discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The model servers of this machine.
    Servers(Vec<LocalServer>),
    /// Those of the folders in question that every user of the machine can write.
    WritableByAll(Vec<PathBuf>),
}

/// A model server of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Id of its provider.
    pub id: String,
    /// For people.
    pub name: String,
    /// Where it was looked for.
    pub address: String,
    /// The models that it has, or why there are none, with the next step.
    pub models: Result<Vec<String>, String>,
}

/// Looks for the model servers of this machine.
pub type FindServers = Arc<dyn Fn() -> Finding + Send + Sync>;

/// A search in progress.
pub type Finding = Pin<Box<dyn Future<Output = Vec<LocalServer>> + Send>>;

/// Those of the folders that every user of the machine can write. May wait for a file system.
pub(crate) fn writable_by_all(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_open = |folder: &PathBuf| {
        // A folder that cannot be looked at is one that the agent cannot work in.
        folder.metadata().is_ok_and(|it| it.is_dir() && it.permissions().mode() & 0o002 != 0)
    };
    folders.into_iter().filter(is_open).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_is_open_where_others_can_write() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str, mode| {
            let folder = home.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
            folder
        };
        let (open, closed) = (folder("open", 0o777), folder("closed", 0o770));
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        let missing = home.path().join("missing");
        assert_eq!(writable_by_all(vec![open.clone(), closed, file, missing]), [open]);
    }
}
