//! The door of a server: a Unix socket at which other processes of its home ask for the threads that it has open.
//! It is named after the owner that leases threads, so the server that finds a thread leased finds the door.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use jsonrpc::ErrorObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};

/// The folder of the doors, next to the database of threads.
const FOLDER: &str = "doors";
/// Longest path of a socket that every system takes, in bytes.
const MAX_PATH_BYTES: usize = 100;
/// Doors above which those of dead servers are looked for.
const FEW: usize = 8;
/// Value of `reason` in the data of an error.
const REASON: &str = "openElsewhere";

/// The place of a thread that another server has open: the data of the error that refuses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenElsewhere {
    reason: String,
    pub thread_id: String,
    /// For people: `process 123`.
    pub holder: String,
    /// Names the door.
    pub owner: String,
}

impl OpenElsewhere {
    pub(crate) fn new(thread: &str, holder: &str, owner: &str) -> Self {
        Self {
            reason: REASON.to_owned(),
            thread_id: thread.to_owned(),
            holder: holder.to_owned(),
            owner: owner.to_owned(),
        }
    }

    /// The same server, with another thread.
    #[must_use]
    pub fn of_thread(&self, thread: &str) -> Self {
        Self::new(thread, &self.holder, &self.owner)
    }

    pub(crate) fn data(&self) -> Value {
        json!(self)
    }

    /// The place that an error names, if it is this one.
    #[must_use]
    pub fn of(error: &ErrorObject) -> Option<Self> {
        let place = Self::deserialize(error.data.as_ref()?).ok()?;
        (place.reason == REASON).then_some(place)
    }
}

/// An open door. Dropping it closes it.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    /// Opens the door of `owner`, next to the database in `home`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The folder or the socket cannot be made.
    pub async fn open(home: &Path, owner: &str) -> io::Result<Self> {
        let folder = home.join(FOLDER);
        // Only the user can reach what is in it.
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        remove_dead(&folder).await;
        // Under its name from when it listens on: until then a socket looks like that of a dead server.
        let hidden = format!(".{owner}");
        let listener = StdUnixListener::bind(Place::new(&folder, &hidden)?.path)?;
        let door = Self::named(listener, &folder, (&hidden, owner));
        if door.is_err() {
            // One that is left behind has no effect.
            let _ = fs::remove_file(folder.join(&hidden));
        }
        door
    }

    fn named(
        listener: StdUnixListener,
        folder: &Path,
        (hidden, owner): (&str, &str),
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (listener, path) = (UnixListener::from_std(listener)?, folder.join(owner));
        fs::set_permissions(folder.join(hidden), Permissions::from_mode(0o600))?;
        fs::rename(folder.join(hidden), &path)?;
        Ok(Self { listener, path })
    }

    /// The next visitor, who is of the same user.
    ///
    /// # Errors
    /// The system has no room for one more.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // One that is left behind is removed by a later server.
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the door of `owner`. Must be called within a tokio runtime.
///
/// # Errors
/// It has none, or has ended.
pub async fn visit(home: &Path, owner: &str) -> io::Result<UnixStream> {
    if owner.is_empty() || owner.starts_with('.') || owner.contains(['/', '\0']) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let place = Place::new(&home.join(FOLDER), owner)?;
    let stream = UnixStream::connect(&place.path).await?;
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(stream)
}

/// The path of a socket, short enough for the system.
struct Place {
    path: PathBuf,
    /// Open while the path leads through it.
    _folder: Option<File>,
}

impl Place {
    fn new(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        if path.as_os_str().len() <= MAX_PATH_BYTES || !cfg!(target_os = "linux") {
            return Ok(Self { path, _folder: None });
        }
        // tidy: open of a folder of the home, which never waits.
        let folder = File::open(folder)?;
        let path = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
        Ok(Self { path: path.into(), _folder: Some(folder) })
    }
}

/// Removes the doors of servers that have died, if there are many. Never waits for a server: one that is stopped, and
/// takes no more visitors, is alive.
async fn remove_dead(folder: &Path) {
    // What cannot be listed or removed is harmless: no lease names it.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    if names.len() <= FEW {
        return;
    }
    // Hidden ones do not listen yet.
    let named = names.iter().filter_map(|name| name.to_str()).filter(|name| !name.starts_with('.'));
    for name in named {
        let Ok(place) = Place::new(folder, name) else { continue };
        let visited = UnixStream::connect(&place.path).await;
        if visited.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_door_is_found_by_its_owner_and_closes_with_its_server() {
        for depth in [0, 3] {
            let home = tempfile::tempdir().unwrap();
            let home = (0..depth).fold(home.path().to_owned(), |it, _| it.join("x".repeat(60)));
            fs::create_dir_all(&home).unwrap();
            let door = Door::open(&home, "one").await.unwrap();
            let mut visitor = visit(&home, "one").await.unwrap();
            visitor.write_all(b"!").await.unwrap();
            assert_eq!(door.accept().await.unwrap().read_u8().await.unwrap(), b'!');
            for name in ["two", "", ".", "../one", "a/b"] {
                assert!(visit(&home, name).await.is_err(), "{name}");
            }
            drop(door);
            assert!(visit(&home, "one").await.is_err());
            assert_eq!(fs::read_dir(home.join(FOLDER)).unwrap().count(), 0);
        }
    }

    #[tokio::test]
    async fn doors_of_dead_servers_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let alive = Door::open(home.path(), "alive").await.unwrap();
        for number in 0..FEW {
            let path = home.path().join(FOLDER).join(format!("dead-{number}"));
            // The socket stays behind, as after a kill.
            drop(StdUnixListener::bind(path).unwrap());
        }
        let new = Door::open(home.path(), "new").await.unwrap();
        let mut names: Vec<_> = fs::read_dir(home.path().join(FOLDER))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["alive", "new"]);
        drop((alive, new));
    }

    #[tokio::test]
    async fn a_door_is_not_removed_before_it_listens_or_while_its_server_is_stopped() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        // The queue of connections is full, and none is accepted.
        let stopped = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        let address = rustix::net::SocketAddrUnix::new(folder.join("stopped")).unwrap();
        rustix::net::bind(&stopped, &address).unwrap();
        rustix::net::listen(&stopped, 0).unwrap();
        let mut visitors = Vec::new();
        while let Ok(visitor) = UnixStream::connect(folder.join("stopped")).await {
            visitors.push(visitor);
        }
        // Bound, and not listening.
        let beginning = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        let address = rustix::net::SocketAddrUnix::new(folder.join(".beginning")).unwrap();
        rustix::net::bind(&beginning, &address).unwrap();
        for number in 0..FEW {
            drop(StdUnixListener::bind(folder.join(format!("dead-{number}"))).unwrap());
        }
        let new = Door::open(home.path(), "new").await.unwrap();
        let mut names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".beginning", "new", "stopped"]);
        drop(new);
    }

    #[test]
    fn an_error_names_the_place_of_the_thread() {
        let place = OpenElsewhere::new("t", "process 5", "o");
        let error = ErrorObject::invalid_request("open").with_data(place.data());
        assert_eq!(OpenElsewhere::of(&error), Some(place));
        let other =
            ErrorObject::invalid_request("x").with_data(json!({ "reason": "notImplemented" }));
        assert_eq!(OpenElsewhere::of(&other), None);
        assert_eq!(OpenElsewhere::of(&ErrorObject::invalid_request("x")), None);
    }
}
