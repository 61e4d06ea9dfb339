//! Discoveries on the machine of the server, where it is the program's own: model servers, the models of one
//! at an address, and folders that everybody can write.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// A discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The model servers of this machine.
    Servers(Vec<LocalServer>),
    /// The answer of a server that was asked for its models.
    Models(AskedServer, Result<ServerModels, AddressFault>),
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

/// A server that is asked for its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedServer {
    /// As the user wrote it.
    pub address: String,
    /// Its key.
    pub key: ServerKey,
    /// The protocol that it speaks (`wire_api`), once it has answered.
    pub wire_api: Option<String>,
}

/// The key of a server.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerKey {
    /// It has none.
    None,
    /// The value of this variable.
    Variable(String),
    /// The user wrote it.
    Typed(String),
}

impl fmt::Debug for ServerKey {
    /// Without a key that was typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
            Self::Typed(_) => f.write_str("Typed(***)"),
        }
    }
}

/// The models of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerModels {
    /// The address that they are below.
    pub base_url: String,
    /// By id, at least one.
    pub models: Vec<String>,
    /// The protocol that it speaks (`wire_api`).
    pub wire_api: String,
    /// The one that is suggested.
    pub default: String,
}

/// Why a server cannot be used, for the person who wrote its address and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressFault {
    /// The address is wrong, or nothing answers there.
    Address(String),
    /// The key is missing or not accepted.
    Key(String),
}

/// Asks a server for its models.
pub type FindModels = Arc<dyn Fn(AskedServer) -> FindingModels + Send + Sync>;

/// A question in progress.
pub type FindingModels = Pin<Box<dyn Future<Output = Result<ServerModels, AddressFault>> + Send>>;

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
    fn a_typed_key_is_in_no_debug_text() {
        let server = |key| {
            let address = "http://h".to_owned();
            format!("{:?}", AskedServer { address, key, wire_api: None })
        };
        assert!(!server(ServerKey::Typed("sk-secret".to_owned())).contains("sk-secret"));
        assert!(server(ServerKey::Variable("A_KEY".to_owned())).contains("A_KEY"));
    }

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
