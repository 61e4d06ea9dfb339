//! The recorded script: kept in memory, and written atomically after each response, with the
//! upstream's secrets replaced.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use model::{Provider, json::quoted};

use crate::script::{OnExhausted, Script, Scripted, Step};

/// Most conversations that are distinguished; all later ones share one number.
const MAX_CONVERSATIONS: usize = 4096;

#[derive(Debug)]
pub(super) struct Tape {
    out: PathBuf,
    /// Secrets that must not reach the file, plain and as JSON string contents.
    secrets: Vec<String>,
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// Responses with the number of their conversation, in the order of their end.
    answers: Vec<Scripted>,
    conversations: HashMap<String, u64>,
}

impl Tape {
    /// Creates an empty tape for `out`, whose folder must exist.
    pub(super) fn create(out: PathBuf, upstream: &Provider) -> io::Result<Self> {
        let escaped = |secret: &str| quoted(secret).trim_matches('"').to_owned();
        let secrets =
            upstream.secrets().flat_map(|secret| [secret.to_owned(), escaped(secret)]).collect();
        let tape = Self { out, secrets, recorded: Mutex::default() };
        tape.save("{\"responses\": []}\n")?;
        Ok(tape)
    }

    /// The number of the conversation `key`, counted from 0 in the order of first requests.
    pub(super) fn conversation(&self, key: &str) -> u64 {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let count = recorded.conversations.len();
        if count >= MAX_CONVERSATIONS && !recorded.conversations.contains_key(key) {
            return count as u64;
        }
        *recorded.conversations.entry(key.to_owned()).or_insert(count as u64)
    }

    /// Adds a response and replaces the file.
    pub(super) fn append(&self, conversation: u64, steps: Vec<Step>) -> io::Result<()> {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.answers.push(Scripted { conversation: Some(conversation), expect: None, steps });
        let mut responses = recorded.answers.clone();
        if recorded.conversations.len() <= 1 {
            // A script of one conversation applies to every conversation.
            responses.iter_mut().for_each(|response| response.conversation = None);
        }
        let script = Script { on_exhausted: OnExhausted::Error, responses };
        let mut json = serde_json::to_string_pretty(&script)?;
        json.push('\n');
        for secret in &self.secrets {
            json = json.replace(secret, "***");
        }
        self.save(&json)
    }

    fn save(&self, json: &str) -> io::Result<()> {
        let mut name = self.out.clone().into_os_string();
        name.push(".part");
        let part = PathBuf::from(name);
        let written = write_private(&part, json).and_then(|()| fs::rename(&part, &self.out));
        written.map_err(|error| {
            let path = self.out.display();
            io::Error::new(error.kind(), format!("cannot write the recording {path}: {error}"))
        })
    }
}

/// Writes a file that only its owner can read, because responses quote the user's work.
fn write_private(path: &std::path::Path, text: &str) -> io::Result<()> {
    // tidy: open the tape that the user names, for writing.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
