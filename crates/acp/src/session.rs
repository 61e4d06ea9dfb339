//! The known state of an open session.

use std::collections::{HashMap, HashSet, VecDeque};

use jsonrpc::RequestId;
use protocol::{CommandExecutionItem, FileChangeItem, ThreadItem, UserInput};

use crate::editor::Question;
use crate::map::commands::Skill;
use crate::map::item::MAX_OUTPUT;
use crate::map::settings::Settings;

/// A session: a thread of the server.
pub(crate) struct Session {
    pub(crate) cwd: String,
    pub(crate) settings: Settings,
    pub(crate) skills: Vec<Skill>,
    pub(crate) turn: Option<Turn>,
    items: HashMap<String, OpenItem>,
    /// Commands whose output has grown since it was last shown.
    grown: HashSet<String>,
    /// While it is being opened.
    pub(crate) held: Option<Held>,
    /// Version 2: messages that no turn has taken yet.
    pub(crate) pending: VecDeque<Waiting>,
}

/// The updates that wait until a session is open: they follow the history.
pub(crate) struct Held {
    /// The request that opens it.
    pub(crate) request: RequestId,
    pub(crate) events: Vec<jsonrpc::Event>,
    pub(crate) notices: Vec<Notice>,
}

/// A notice for the user.
#[derive(Clone)]
pub(crate) struct Notice {
    pub(crate) title: String,
    pub(crate) description: Option<String>,
}

/// A turn in progress, or about to begin.
pub(crate) struct Turn {
    /// `None` until the server has said it.
    pub(crate) id: Option<String>,
    /// The prompt that began it; `None` for a turn of another client, or of a goal.
    pub(crate) prompt: Option<RequestId>,
    pub(crate) is_cancelled: bool,
    /// Questions about files of the prompt, before the turn begins.
    pub(crate) reading: HashSet<Question>,
    /// Version 2: prompts whose messages do not stand in the conversation yet.
    pub(crate) waiting: Vec<Waiting>,
    /// Version 2: it began with a command, whose text was shown as a message.
    pub(crate) is_command: bool,
}

/// A prompt of version 2 without an answer.
pub(crate) struct Waiting {
    pub(crate) prompt: RequestId,
    /// Its message.
    pub(crate) input: Vec<UserInput>,
    pub(crate) state: Sending,
}

/// The progress of a message on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Unsent,
    /// Sent, and not yet accepted or refused.
    Sent,
    Taken,
}

/// An item that is not completed.
#[derive(Default)]
pub(crate) struct OpenItem {
    /// The command or the change, for a request that asks about it.
    item: Option<ThreadItem>,
    /// Bytes of the text that are known to the client, or that it was to know none of.
    pub(crate) sent: usize,
    /// The end of a command's output, and how many bytes came before it.
    output: String,
    before: usize,
}

impl Session {
    pub(crate) fn new(cwd: String, settings: Settings) -> Self {
        Self {
            cwd,
            settings,
            skills: Vec::new(),
            turn: None,
            items: HashMap::new(),
            grown: HashSet::new(),
            held: None,
            pending: VecDeque::new(),
        }
    }

    /// Notes an item; `false` if it is known.
    pub(crate) fn begin(&mut self, id: &str, item: OpenItem) -> bool {
        if self.items.contains_key(id) {
            return false;
        }
        self.items.insert(id.to_owned(), item);
        true
    }

    pub(crate) fn item(&mut self, id: &str) -> &mut OpenItem {
        self.items.entry(id.to_owned()).or_default()
    }

    /// Forgets a completed item.
    pub(crate) fn end(&mut self, id: &str) -> Option<OpenItem> {
        self.grown.remove(id);
        self.items.remove(id)
    }

    /// Forgets the items of a turn that has ended.
    pub(crate) fn clear_items(&mut self) {
        self.items.clear();
        self.grown.clear();
    }

    /// An item that is not completed.
    pub(crate) fn open_item(&self, id: &str) -> Option<&ThreadItem> {
        self.items.get(id)?.item.as_ref()
    }

    pub(crate) fn command(&self, id: &str) -> Option<&CommandExecutionItem> {
        match self.open_item(id)? {
            ThreadItem::CommandExecution(item) => Some(item),
            _ => None,
        }
    }

    pub(crate) fn change(&self, id: &str) -> Option<&FileChangeItem> {
        match self.open_item(id)? {
            ThreadItem::FileChange(item) => Some(item),
            _ => None,
        }
    }

    /// Notes more output of a command. Of a long output the end is kept.
    pub(crate) fn add_output(&mut self, id: &str, text: &str) {
        let item = self.item(id);
        item.output.push_str(text);
        if item.output.len() > 2 * MAX_OUTPUT {
            let cut = item.output.ceil_char_boundary(item.output.len() - MAX_OUTPUT);
            item.output.drain(..cut);
            item.before += cut;
        }
        self.grown.insert(id.to_owned());
    }

    pub(crate) fn has_grown(&self) -> bool {
        !self.grown.is_empty()
    }

    /// The outputs that have grown: id, text, and how many bytes came before it.
    pub(crate) fn take_grown(&mut self) -> Vec<(String, String, usize)> {
        let grown = std::mem::take(&mut self.grown);
        let output = |id: String| {
            let item = self.items.get(&id)?;
            Some((id, item.output.clone(), item.before))
        };
        grown.into_iter().filter_map(output).collect()
    }
}

impl OpenItem {
    pub(crate) fn of(item: ThreadItem) -> Self {
        Self { item: Some(item), ..Self::default() }
    }

    /// A message that began before it was seen: its deltas follow this much of the text.
    pub(crate) fn joined(sent: usize) -> Self {
        Self { sent, ..Self::default() }
    }
}

impl Turn {
    /// A turn that a prompt begins.
    pub(crate) fn of_prompt(prompt: RequestId) -> Self {
        Self { prompt: Some(prompt), ..Self::foreign(None) }
    }

    /// A turn that no prompt of this client began.
    pub(crate) fn foreign(id: Option<String>) -> Self {
        Self {
            id,
            prompt: None,
            is_cancelled: false,
            reading: HashSet::new(),
            waiting: Vec::new(),
            is_command: false,
        }
    }
}
