//! The services of the embedding program: processes, and the clients who answer a server's
//! questions.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::definition::Program;
use crate::server::State;

/// A future of a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts the programs of servers.
pub trait Launcher: Send + Sync {
    /// Starts a program. When the receiver of its output is dropped, its standard input is closed, and
    /// it is ended with everything that it started.
    fn launch(&self, program: Program) -> BoxFuture<'_, Result<Child, String>>;
}

/// A running program.
pub struct Child {
    /// Bounded: the program waits while its output is not read.
    pub output: mpsc::Receiver<Output>,
    pub control: Arc<dyn ChildControl>,
}

/// A piece of a program's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
}

/// The input of a running program, and its end.
pub trait ChildControl: Send + Sync {
    /// Waits until the program has ended. Returns how, as the end of "the program …".
    fn ended(&self) -> BoxFuture<'_, String>;

    /// Writes all of `bytes`; waits while the program does not read.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;
}

/// The keyring of the operating system. Every function blocks, and fails with a reason when there is no
/// keyring.
pub trait Keyring: Send + Sync {
    /// The secret of the entry whose file would be `path`.
    ///
    /// # Errors
    /// The keyring cannot be used.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, String>;

    /// Replaces the secret of an entry.
    ///
    /// # Errors
    /// As [`Keyring::read`].
    fn write(&self, path: &Path, secret: &[u8]) -> Result<(), String>;

    /// Deletes an entry. Returns whether it existed.
    ///
    /// # Errors
    /// As [`Keyring::read`].
    fn delete(&self, path: &Path) -> Result<bool, String>;
}

/// The clients of the holders of servers.
pub trait Audience: Send + Sync {
    /// The state of a server changed. `holders` are those that share it.
    fn state_changed(&self, holders: &[String], server: &str, state: &State);

    /// The tools of a server changed.
    fn tools_changed(&self, holders: &[String], server: &str, state: &State);

    /// A server asks the user. A future that is dropped withdraws the question.
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, Answer>;
}

/// A question of a server to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elicitation {
    pub server: String,
    /// Whose clients are asked: of the first one that has any.
    pub holders: Vec<String>,
    /// The turn of the call that it belongs to, which is one of the first holder.
    pub turn: Option<String>,
    pub message: String,
    pub mode: ElicitationMode,
    pub meta: Option<Value>,
}

/// The form of a server's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElicitationMode {
    /// With a form, whose fields the schema describes.
    Form { schema: Value },
    /// On a page that only the user opens.
    Url { url: String, id: String },
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub action: Action,
    /// Values of the form, complete and checked ([`crate::elicitation::complete`]).
    pub content: Option<Value>,
}

impl Answer {
    /// An answer that has no values.
    pub fn without_content(action: Action) -> Self {
        Self { action, content: None }
    }
}

/// The user's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Accept,
    Decline,
    Cancel,
}
