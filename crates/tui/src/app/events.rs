//! The inputs and outputs of the state machine, besides frames.

use std::path::PathBuf;

use jsonrpc::{ErrorObject, RequestId};
use protocol::{InitializeResponse, OpeningOverrides, ThreadWorktreeParams};
use serde_json::Value;

use crate::composer::Draft;
use crate::here::{AskedServer, Found};
use crate::image::{FoundImage, ImageSource, NoImage};
use crate::link::{Arrival, Tag};
use crate::palette::Palette;
use crate::terminal::input::Input;
use crate::terminal::screen::Size;

/// Which thread to show first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// Where the thread comes from.
    pub thread: StartThread,
    /// The first message.
    pub prompt: Option<String>,
    /// Settings of the thread that differ from the configuration.
    pub overrides: OpeningOverrides,
    /// The worktree of a new thread.
    pub worktree: Option<ThreadWorktreeParams>,
}

/// Where the first thread comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartThread {
    /// It is a new one.
    #[default]
    New,
    /// The one with this id.
    Resume(String),
    /// The latest one of the working folder.
    Latest,
    /// The one that the user chooses from a list.
    Choose,
    /// A copy of the one with this id.
    Fork(String),
    /// A copy of the latest one of the working folder.
    ForkLatest,
}

/// An input.
#[derive(Debug)]
pub enum Event {
    /// From the terminal.
    Input(Input),
    /// The terminal has another size.
    Resized(Size),
    /// From the server.
    Arrived(Arrival),
    /// The handshake is complete.
    Connected(Box<InitializeResponse>),
    /// There is no connection.
    Lost {
        /// Why, for people.
        why: String,
        /// True if the server may still be there.
        can_return: bool,
    },
    /// The call could not be sent: there is no connection.
    Unsent(Tag),
    /// Messages of earlier sessions.
    History(Vec<String>),
    /// The message that was not sent when the program ended last.
    Draft(Draft),
    /// No browser could be started, for this reason.
    Unopened(String),
    /// The thread was written into this file, or why not.
    Exported(Result<PathBuf, String>),
    /// Findings on the machine of the server.
    Found(Found),
    /// The editor was closed: what it saved, or why there is nothing.
    Edited(Result<String, String>),
    /// The image that was looked for, or why there is none.
    Image(ImageSource, Result<FoundImage, NoImage>),
    /// The time that was asked for has come.
    Tick,
}

/// An output: something to be done.
#[derive(Debug)]
pub enum Effect {
    /// Send a call.
    Call {
        /// By which the answer is known.
        tag: Tag,
        /// Name of the method.
        method: &'static str,
        /// Its parameters.
        params: Value,
    },
    /// Answer a question.
    Respond {
        /// Of the question.
        id: RequestId,
        /// The answer.
        outcome: Result<Value, ErrorObject>,
    },
    /// Connect again.
    Reconnect,
    /// Write to the terminal: a bell, a notification, the clipboard.
    Write(Vec<u8>),
    /// Use these colours: the terminal's background is known.
    Recolor(Palette),
    /// Switch to or from the alternate screen.
    Alternate(bool),
    /// Show a list or a text on the alternate screen, or no longer: the screen is then as it was.
    Overlay(bool),
    /// Write the text into a new file.
    Export {
        /// Where.
        path: PathBuf,
        /// The text.
        text: String,
    },
    /// Read the messages of earlier sessions.
    LoadHistory,
    /// Keep the message that is being written.
    Keep(Draft),
    /// Open the text in the user's editor.
    Edit(String),
    /// See whether there is an image that can be sent.
    FindImage(ImageSource),
    /// Clear the screen. What scrolled out of it stays.
    Clear,
    /// Open an address in the user's browser.
    Browse(String),
    /// Look for model servers on this machine.
    FindServers,
    /// Ask a server for its models.
    FindModels(AskedServer),
    /// Find out which of these folders every user of the machine can write.
    CheckWritable(Vec<PathBuf>),
    /// Stop the process, for the shell's job control.
    Suspend,
    /// End.
    Quit(Ended),
}

/// The end of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub code: u8,
    /// The last message, on the ordinary screen.
    pub message: Option<String>,
}
