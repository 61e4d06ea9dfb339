//! A folder with its record, and what it holds, to compare it before and after.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use undo::{Outcome, Plan, Turn, Undo};

/// Every entry of a folder but version control: kind and mode, and contents or target.
pub(crate) type Picture = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(crate) fn picture(root: &Path) -> Picture {
    let mut found = Picture::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let contents = if metadata.is_symlink() {
                path.read_link().unwrap().into_os_string().into_vec()
            } else if metadata.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            let mode = if metadata.is_symlink() { 0 } else { metadata.mode() };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (mode, contents));
        }
    }
    found
}

/// A folder with its record.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) undo: Undo,
    pub(crate) turns: usize,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let undo = Undo::open(&folder.path().join("undo.sqlite")).unwrap();
        Self { folder, undo, turns: 0 }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: &[u8]) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), contents).unwrap();
    }

    /// Runs a tool call in a turn of its own.
    pub(crate) fn turn(&mut self, call: impl FnOnce(&Path)) -> Turn {
        self.turns += 1;
        let turn = turn("thread", self.turns);
        self.call(&turn, call);
        turn
    }

    pub(crate) fn call(&self, turn: &Turn, call: impl FnOnce(&Path)) {
        let window = self.undo.begin(&self.root(), turn).unwrap();
        call(&self.root());
        self.undo.end(window).unwrap();
    }

    pub(crate) fn plan(&self, since: &Turn) -> Plan {
        self.undo.plan(since).unwrap()
    }

    pub(crate) fn restore(&self, since: &Turn, overwrite: bool) -> Result<Outcome, Plan> {
        self.undo.restore(since, overwrite).unwrap()
    }

    /// Goes back and checks that all is as it was.
    pub(crate) fn restore_to(&self, since: &Turn, before: &Picture) {
        let outcome = self.restore(since, false).unwrap();
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        assert_eq!(&picture(&self.root()), before);
    }
}

pub(crate) fn turn(thread: &str, number: usize) -> Turn {
    Turn { tree: thread.to_owned(), thread: thread.to_owned(), turn: number.to_string() }
}
