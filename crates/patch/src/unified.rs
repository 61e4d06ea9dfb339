//! Unified diffs, as git and `diff -u` write them and models do in place of a patch: rewritten as a patch, line
//! by line. The line numbers of hunks, which models guess, are ignored.

use crate::marker::{ADD, BEGIN, DELETE, END, MOVE, UPDATE};

/// The path of a file that does not exist before or after.
const NO_FILE: &str = "/dev/null";

/// Beginnings of the lines that may follow the first one of git.
const HEAD: [&str; 8] = [
    "--- ",
    "index ",
    "old mode",
    "new file mode",
    "deleted file mode",
    "similarity",
    "rename ",
    "Binary ",
];

/// Returns whether a diff begins with this line, given the one after it.
pub(crate) fn begins(line: &str, next: Option<&str>) -> bool {
    let Some(next) = next else { return false };
    (line.starts_with("diff --git ") && HEAD.iter().any(|start| next.starts_with(start)))
        || (line.starts_with("--- ") && next.starts_with("+++ "))
}

/// Returns whether a text is a diff, perhaps in a code fence.
pub(crate) fn is_diff(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| is_around(line));
    lines.next().is_some_and(|line| begins(line, lines.next()))
}

/// A text that is a diff as a patch; `None` for another text.
pub(crate) fn as_patch(text: &str) -> Option<String> {
    if !is_diff(text) {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut rewriter = Rewriter::default();
    rewriter.push(BEGIN);
    let mut at = lines.iter().take_while(|line| is_around(line)).count();
    while let Some(line) = lines.get(at) {
        let next = lines.get(at + 1).copied();
        match next {
            Some(new) if line.starts_with("--- ") && new.starts_with("+++ ") => {
                rewriter.file(&line[4..], &new[4..]);
                at += 2;
                continue;
            }
            _ => rewriter.line(line),
        }
        at += 1;
    }
    rewriter.end_head();
    rewriter.push(END);
    Some(rewriter.patch)
}

fn is_around(line: &str) -> bool {
    line.trim().is_empty() || line.trim().starts_with("```")
}

#[derive(Default)]
struct Rewriter {
    patch: String,
    /// The lines of git before the changes of a file.
    head: Option<Head>,
    body: Body,
}

/// The lines of git about a file, before its changes.
#[derive(Default)]
struct Head {
    path: Option<String>,
    renamed_from: Option<String>,
    renamed_to: Option<String>,
    is_new: bool,
    is_deleted: bool,
}

/// The meaning of the lines that follow.
#[derive(Default, PartialEq)]
enum Body {
    #[default]
    None,
    Hunks,
    /// The lines of a deleted file.
    Deleted,
}

impl Rewriter {
    fn push(&mut self, line: &str) {
        self.patch.push_str(line);
        self.patch.push('\n');
    }

    fn push_path(&mut self, marker: &str, path: &str) {
        self.push(&format!("{marker} {path}"));
    }

    /// The names of a file before and after its changes.
    fn file(&mut self, old: &str, new: &str) {
        self.head = None;
        // A time may follow, after a tab.
        let path = |text: &str| text.split('\t').next().unwrap_or(text).trim().to_owned();
        let (old, new) = (path(old), path(new));
        let is_git =
            (old == NO_FILE || old.starts_with("a/")) && (new == NO_FILE || new.starts_with("b/"));
        let plain = |path: &str| path.get(2..).filter(|_| is_git).unwrap_or(path).to_owned();
        self.body = Body::Hunks;
        if old == NO_FILE {
            self.push_path(ADD, &plain(&new));
        } else if new == NO_FILE {
            self.push_path(DELETE, &plain(&old));
            self.body = Body::Deleted;
        } else {
            let (old, new) = (plain(&old), plain(&new));
            self.push_path(UPDATE, &old);
            if new != old {
                self.push_path(MOVE, &new);
            }
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.end_head();
            self.head = Some(Head { path: common_path(names), ..Head::default() });
            self.body = Body::None;
            return;
        }
        if let Some(head) = &mut self.head {
            let path = |prefix: &str| line.strip_prefix(prefix).map(str::to_owned);
            head.renamed_from = head.renamed_from.take().or_else(|| path("rename from "));
            head.renamed_to = head.renamed_to.take().or_else(|| path("rename to "));
            head.is_new |= line.starts_with("new file mode");
            head.is_deleted |= line.starts_with("deleted file mode");
            return;
        }
        let is_left_out =
            self.body == Body::Deleted || line.starts_with("\\ ") || line.starts_with("```");
        match self.body {
            _ if is_left_out => {}
            // What follows names a function, maybe cut off, or has numbers only.
            Body::Hunks if line.starts_with("@@ -") => self.push("@@"),
            _ => self.push(line),
        }
    }

    /// The end of the lines of git: without changes of lines the file is renamed, deleted, new, or as it was.
    fn end_head(&mut self) {
        let Some(head) = self.head.take() else { return };
        match (head.renamed_from, head.renamed_to, head.path) {
            (Some(from), Some(to), _) => {
                self.push_path(UPDATE, &from);
                self.push_path(MOVE, &to);
            }
            (_, _, Some(path)) if head.is_deleted => self.push_path(DELETE, &path),
            (_, _, Some(path)) if head.is_new => self.push_path(ADD, &path),
            _ => {}
        }
    }
}

/// The path in `a/PATH b/PATH`, if both are equal.
fn common_path(names: &str) -> Option<String> {
    let half = names.len().checked_sub(1)? / 2;
    let (old, new) = (names.get(..half)?, names.get(half + 1..)?);
    let path = old.strip_prefix("a/")?;
    (new.strip_prefix("b/")? == path).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(diff: &str, expect: &str) {
        let patch = as_patch(diff).unwrap();
        assert_eq!(patch, format!("*** Begin Patch\n{expect}*** End Patch\n"));
    }

    #[test]
    fn diffs_become_patches() {
        check(
            "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n\
             @@ -1,2 +1,2 @@ fn main() {\n a\n-b\n+c\n@@ -9 +9 @@\n-x\n+y\n\\ No newline at end of file\n",
            "*** Update File: src/a.rs\n@@\n a\n-b\n+c\n@@\n-x\n+y\n",
        );
        check(
            "--- old.txt\t2024-01-01\n+++ new.txt\t2024-01-02\n@@ -1 +1 @@\n-a\n+b",
            "*** Update File: old.txt\n*** Move to: new.txt\n@@\n-a\n+b\n",
        );
        check(
            "```diff\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n```",
            "*** Add File: n\n@@\n+a\n",
        );
        check(
            "diff --git a/o b/o\ndeleted file mode 100644\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
             diff --git a/p b/p\n--- a/p\n+++ b/p\n@@\n-a\n+b\n",
            "*** Delete File: o\n*** Update File: p\n@@\n-a\n+b\n",
        );
        check(
            "diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n\
             diff --git a/e b/e\nnew file mode 100644\n\
             diff --git a/d b/d\ndeleted file mode 100644\n",
            "*** Update File: o\n*** Move to: n\n*** Add File: e\n*** Delete File: d\n",
        );
    }

    #[test]
    fn other_texts_are_none() {
        for text in
            ["", "--- a", "--- a\nb", "diff -u a b", "*** Begin Patch", "text\n--- a\n+++ b"]
        {
            assert_eq!(as_patch(text), None, "{text}");
        }
    }
}
