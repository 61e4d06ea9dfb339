//! The Rust client: a server that this process starts, or one that runs elsewhere, with its threads and
//! turns as objects. It adds nothing to the protocol: whatever has no function of its own is
//! [`Agent::request`] with the types of the crate [`protocol`]. A connection to a server that runs elsewhere is made again
//! when it is lost.
//!
//! ```no_run
//! # async fn example() -> Result<(), agentd_embed::Error> {
//! use agentd_embed::Agent;
//!
//! let agent = Agent::builder().start().await?;
//! println!("{}", agent.run("What does this project do?").await?.text);
//! agent.close().await;
//! # Ok(())
//! # }
//! ```

mod address;
mod agent;
mod amount;
mod answers;
mod blocking;
mod builder;
mod callback_error;
mod changes;
mod context;
mod decline;
mod desk;
mod ends;
mod error;
mod event;
mod feed;
mod follow;
mod handlers;
mod image;
mod input;
mod link;
mod order;
mod output;
mod pressure;
mod process;
mod recording;
mod replaced;
mod replay;
mod returning;
mod run;
mod setting;
mod shared;
mod state;
mod stored;
mod thread;
mod tool;
mod transcript;
mod turn;
mod turn_options;

pub use address::{Access, ServerAddress};
pub use agent::{Agent, InContext};
pub use amount::Amount;
pub use answers::{Approval, Decision};
pub use builder::AgentBuilder;
pub use callback_error::CallbackError;
pub use changes::{ReviewOptions, UndoOptions};
pub use context::CallContext;
pub use decline::decline;
pub use error::{Error, Lost, Mismatch, RefusalKind, TurnFailure};
pub use event::Notification;
pub use follow::{ThreadEvent, ThreadEvents};
pub use handlers::NotificationHandle;
pub use image::Image;
pub use input::Input;
pub use jsonrpc;
pub use jsonrpc::{ErrorObject, Method};
pub use protocol;
pub use replaced::{Replaced, ReplacedReason};
pub use schemars;
pub use stored::StoredThreads;
pub use thread::Thread;
pub use tool::{Tool, ToolError};
pub use transcript::Progress;
pub use turn::{Turn, TurnEvent, TurnResult, TypedResult};
pub use turn_options::{OnBusy, TurnOptions};

use jsonrpc::Limits;

/// The bounds of a connection to a server: a line may hold a whole turn.
#[must_use]
pub fn connection_limits() -> Limits {
    Limits { line_bytes: 64 << 20, ..Limits::default() }
}

/// The blocks of the page about this crate, which are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdk-rust.md")]
struct Page;

#[cfg(test)]
mod tests {
    /// The doc tests see every crate that this one depends on, a reader's project only those that the page names.
    #[test]
    fn the_page_names_the_crates_that_its_blocks_use() {
        let page = include_str!("../../../docs/sdk-rust.md");
        let (named, _) = page.split_once("```toml\n").unwrap().1.split_once("```").unwrap();
        let named =
            named.lines().filter_map(|line| Some(line.split_once(" = ")?.0.replace('-', "_")));
        let named: Vec<String> = named.chain(["std".to_owned()]).collect();
        let blocks = page.split("```rust").skip(1).map(|rest| rest.split("```").next().unwrap());
        let paths = blocks
            .flat_map(|block| block.split(|c: char| !(c.is_alphanumeric() || "_:".contains(c))));
        // What follows a method's name, as in `request::<M>`, is no path.
        let roots = paths
            .filter_map(|path| path.split_once("::"))
            .filter_map(|(root, rest)| (!rest.is_empty()).then_some(root));
        let mut count = 0;
        for root in roots.filter(|root| root.starts_with(char::is_lowercase)) {
            assert!(named.iter().any(|name| name == root), "{root}");
            count += 1;
        }
        assert!(count > 10, "{count}");
    }
}
