//! The tree that searches are measured in: 500,000 files in 48,000 folders, the same on every machine,
//! made once in the temporary folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) const FILES: usize = 500_000;
const FOLDERS: usize = 48_000;
const DEPTH: usize = 9;

/// A part of the names of folders and files.
const WORDS: &[&str] = &[
    "src",
    "core",
    "main",
    "test",
    "util",
    "server",
    "client",
    "thread",
    "message",
    "policy",
    "sandbox",
    "kernel",
    "driver",
    "drivers",
    "net",
    "fs",
    "handler",
    "model",
    "view",
    "index",
    "config",
    "parser",
    "lexer",
    "token",
    "store",
    "cache",
    "queue",
    "worker",
    "session",
    "turn",
    "item",
    "event",
    "stream",
    "socket",
    "http",
    "json",
    "schema",
    "types",
    "build",
    "docs",
    "guide",
    "image",
    "asset",
    "style",
    "theme",
    "layout",
    "widget",
    "button",
    "dialog",
    "form",
    "table",
    "chart",
    "graph",
    "node",
    "edge",
    "tree",
    "list",
    "map",
    "set",
    "hash",
    "crypto",
    "auth",
    "login",
    "user",
    "group",
    "role",
    "permission",
    "audit",
    "log",
    "metric",
    "trace",
    "span",
    "deploy",
    "docker",
    "chart",
    "release",
    "version",
    "patch",
    "diff",
    "merge",
    "commit",
    "branch",
    "remote",
    "fetch",
    "push",
    "pull",
    "clone",
    "archive",
    "backup",
    "restore",
];
const EXTENSIONS: &[&str] =
    &["rs", "ts", "tsx", "py", "c", "h", "go", "java", "md", "json", "toml", "yaml", "css", "txt"];

/// Numbers that are the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % bound.max(1)
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }
}

/// The root of the tree, which is made if this machine does not have it.
pub(crate) fn search_tree() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("agentd-bench-search-{FILES}"));
    let root = folder.join("tree");
    let complete = folder.join("complete");
    if !complete.exists() {
        eprintln!("making {FILES} files in {}", root.display());
        if root.exists() {
            std::fs::remove_dir_all(&root)?;
        }
        make(&root).with_context(|| root.display().to_string())?;
        std::fs::write(complete, "")?;
    }
    Ok(root)
}

fn make(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root)?;
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut folders = vec![(root.to_owned(), 0)];
    while folders.len() < FOLDERS {
        let (parent, depth) = folders[numbers.below(folders.len())].clone();
        if depth == DEPTH {
            continue;
        }
        let name = match numbers.below(3) {
            0 => numbers.pick(WORDS).to_owned(),
            1 => format!("{}-{}", numbers.pick(WORDS), numbers.pick(WORDS)),
            _ => format!("{}{}", numbers.pick(WORDS), numbers.below(100)),
        };
        let folder = parent.join(name);
        if !folder.exists() {
            std::fs::create_dir(&folder)?;
            folders.push((folder, depth + 1));
        }
    }
    let mut made = 0;
    while made < FILES {
        let (folder, _) = &folders[numbers.below(folders.len())];
        let (first, extension) = (numbers.pick(WORDS), numbers.pick(EXTENSIONS));
        let name = match numbers.below(4) {
            0 => format!("{first}.{extension}"),
            1 => format!("{first}{}.{extension}", numbers.below(1000)),
            _ => format!("{first}_{}.{extension}", numbers.pick(WORDS)),
        };
        let file = folder.join(name);
        if !file.exists() {
            std::fs::File::create(file)?;
            made += 1;
        }
    }
    Ok(())
}
