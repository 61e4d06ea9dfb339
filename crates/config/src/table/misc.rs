//! Keys about accounts, files of the agent, and the terminal interface.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use crate::error::Error;
use crate::kind::scope::{ANY, RESTART, USER};
use crate::kind::{Effect, Kind, ReadContext, Setting, Whole, unexpected_value};
use crate::options::{choices, options};
use crate::table::Seconds;
use crate::value::{Node, Value};

choices! {
    /// `forced_login_method`.
    LoginMethod { Hosted = "hosted", Api = "api" }
}
choices! {
    /// Where credentials are stored.
    CredentialsStore { Auto = "auto", File = "file", Keyring = "keyring" }
}
choices! {
    /// `file_opener`: the scheme of links to files.
    FileOpener {
        Editor = "editor",
        EditorInsiders = "editor-insiders",
        Windsurf = "windsurf",
        Cursor = "cursor",
        None = "none",
    }
}
choices! {
    /// `history.persistence`.
    Persistence { SaveAll = "save-all", None = "none" }
}
choices! {
    /// `tui.alternate_screen`.
    AlternateScreen { Auto = "auto", Always = "always", Never = "never" }
}
choices! {
    /// `tui.notification_method`.
    NotificationMethod { Auto = "auto", Osc9 = "osc9", Bel = "bel" }
}

options! {
    /// `analytics`.
    pub struct Analytics {
        /// Metrics of usage may be sent to the hosted service: to `hosted_base_url`, with
        /// `otel.metrics_exporter = "hosted"`. When unset, they are not sent.
        enabled: Option<bool>, USER, Effect::Active;
    }
}
options! {
    /// `feedback`.
    pub struct Feedback {
        /// The user can submit feedback.
        enabled: bool = true, ANY, Effect::Active;
    }
}
options! {
    /// `realtime`.
    pub struct Realtime {
        /// The model of realtime conversations.
        model: String = "gpt-realtime".to_owned(), ANY, Effect::Active;
        /// The model that writes down what the user says in them.
        transcription_model: String = "gpt-4o-mini-transcribe".to_owned(), ANY, Effect::Active;
    }
}
options! {
    /// `memories`: see `features.memories`.
    pub struct Memories {
        /// Seconds that a thread rests after a turn before it leaves its notes.
        rest_after_seconds: Seconds<1, 1_200> = Seconds::new(300), USER, Effect::Active;
        /// Largest size of a file of notes, and of the notes that a thread gets, in bytes; the oldest
        /// notes are removed first.
        max_bytes: Whole<1_024, 262_144> = Whole::new(16 * 1024), USER, Effect::Active;
    }
}

options! {
    /// `history`.
    pub struct History {
        /// Store prompts in `history.jsonl` in the agent's home, or store none.
        persistence: Persistence = Persistence::SaveAll, USER, Effect::Active;
        /// Largest size of `history.jsonl` in bytes; the oldest prompts are removed first.
        max_bytes: Option<Whole<0, { i64::MAX as u64 }>>, USER, Effect::Active;
    }
}

options! {
    /// `store`: threads in a PostgreSQL database. Without it, they are in the SQLite database in
    /// `sqlite_home`.
    pub struct StoreTable {
        /// Address of the database without a password, as in `postgres://USER@HOST/DATABASE`. With
        /// `?sslmode=require`, the connection is encrypted and the certificate verified.
        url: Option<String>, USER | RESTART, Effect::Active;
        /// The environment variable that holds the user's password. Commands do not see it.
        env_key: Option<String>, USER | RESTART, Effect::Active;
        /// Schema of the tables, which `agentd store migrate` creates.
        schema: String = "agentd".to_owned(), USER | RESTART, Effect::Active;
        /// A PEM file with the authorities that sign the server's certificate, in place of those of the
        /// operating system. Requires TLS.
        ca_file: Option<PathBuf>, USER | RESTART, Effect::Active;
        /// Most connections of a server to the database.
        max_connections: Whole<2, 1_000> = Whole::new(8), USER | RESTART, Effect::Active;
    }
}

options! {
    /// `notice`: notices that the user has acknowledged.
    pub struct Notice {
        /// Hides the warning before full access is switched on.
        hide_full_access_warning: bool = false, USER, Effect::Active;
        /// Hides the warning about working folders and writable roots that every user of the machine can write.
        hide_world_writable_warning: bool = false, USER, Effect::Active;
        /// Hides the hint to change the model near a rate limit.
        hide_rate_limit_model_nudge: bool = false, USER, Effect::Active;
        /// Accepted model migrations, from old to new name, which are not offered again.
        model_migrations: BTreeMap<String, String>, USER, Effect::Active;
        rest {
            /// Hides the offer to replace this model by its successor.
            hide_migration_prompts as "hide_<model>_migration_prompt": bool, USER, Effect::Active;
        }
    }
}

options! {
    /// `tui`: the terminal interface.
    pub struct Tui {
        /// Use of the alternate screen, which has no history, by the terminal interface: only with
        /// `always`.
        alternate_screen: AlternateScreen = AlternateScreen::Auto, USER, Effect::Active;
        /// Animations of the terminal interface: the elapsed time and the activity mark of a running
        /// turn. `false` is the mode for screen readers.
        animations: bool = true, USER, Effect::Active;
        /// The way to notify while the terminal does not have the focus.
        notification_method: NotificationMethod = NotificationMethod::Auto, USER, Effect::Active;
        /// Notify always, never, or only of these events: `agent-turn-complete`,
        /// `approval-requested`.
        notifications: Option<Notifications>, USER, Effect::Active;
        /// Hints for new users are shown.
        show_tooltips: bool = true, USER, Effect::Active;
        /// Items of the status line; an empty list hides it.
        status_line: Option<Vec<String>>, USER, Effect::Active;
        /// Theme of highlighted code.
        theme: Option<String>, USER, Effect::Active;
        /// Number of announcements of each new model, at most four; maintained by the terminal interface.
        model_availability_nux: BTreeMap<String, Whole<0, 1_000_000>>, USER, Effect::Active;
    }
}

/// The value of `tui.notifications`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notifications {
    /// All events or none.
    Switch(bool),
    /// The names of events.
    Events(Vec<String>),
}

impl Setting for Notifications {
    const KIND: Kind = Kind::Either(&[Kind::Boolean, <Vec<String> as Setting>::KIND]);

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Boolean(on) => Ok(Self::Switch(*on)),
            Value::Array(_) => Vec::read(node, cx).map(Self::Events),
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Switch(on) => Some((*on).into()),
            Self::Events(events) => events.show(),
        }
    }
}
