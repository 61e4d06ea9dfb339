//! Follows `cd` through a script, to determine the folders in which each command can run. Compares
//! folders as text, without file access.

use std::path::{Path, PathBuf};

use super::parse::{Command, Joint};
use super::resolver::normalize;

/// Number of possible folders from which on the folder is unknown.
const MAX_PLACES: usize = 8;

/// The folders in which a command can run; `None` if they are unknown.
pub(super) type Places = Option<Vec<PathBuf>>;

/// The folders in which each command of a script can run that starts at `cwd`.
pub(super) fn places(commands: &[Command], cwd: &Path) -> Vec<Places> {
    let mut walk =
        Walk { seen: Some(vec![cwd.to_owned()]), now: Some(vec![cwd.to_owned()]), or_seen: false };
    let mut result = Vec::with_capacity(commands.len());
    for (at, command) in commands.iter().enumerate() {
        walk.join(command.joint);
        result.push(walk.now.clone());
        let next = commands.get(at + 1).map(|next| next.joint);
        // Each part of a pipeline is a separate shell with its own folder, except the last part in
        // some shells.
        let first_of_pipe = next == Some(Joint::Pipe);
        if command.words.first().is_some_and(|name| name.text == "cd") && !first_of_pipe {
            walk.change(command);
        }
    }
    result
}

struct Walk {
    /// Every folder in which a part of the script can leave the shell.
    seen: Places,
    now: Places,
    or_seen: bool,
}

impl Walk {
    fn join(&mut self, joint: Joint) {
        match joint {
            Joint::Start | Joint::And | Joint::Pipe => {}
            // The preceding `cd` can fail, or not be reached.
            Joint::Or => {
                self.or_seen = true;
                self.now.clone_from(&self.seen);
            }
            Joint::Then => {
                self.or_seen = false;
                self.now.clone_from(&self.seen);
            }
        }
    }

    fn change(&mut self, command: &Command) {
        let target = match command.words.as_slice() {
            [_, target] => Some(target),
            [_, dashes, target] if dashes.text == "--" => Some(target),
            _ => None,
        };
        let reached = target
            .filter(|word| !word.expands && !word.text.is_empty() && !word.text.starts_with('-'))
            .zip(self.now.as_ref())
            .map(|(word, now)| now.iter().map(|from| normalize(&from.join(&word.text))).collect());
        let certain = !self.or_seen && command.joint != Joint::Pipe;
        self.seen = union(self.seen.take(), reached.as_ref());
        self.now = match certain {
            true => reached,
            false => union(self.now.take(), reached.as_ref()),
        };
    }
}

fn union(places: Places, more: Option<&Vec<PathBuf>>) -> Places {
    let (mut all, more) = (places?, more?);
    for place in more {
        if !all.contains(place) {
            all.push(place.clone());
        }
    }
    (all.len() <= MAX_PLACES).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::parse;

    #[test]
    fn folders_of_the_last_command() {
        let check = |script: &str, expect: Option<&[&str]>| {
            let commands = parse(script).unwrap();
            let last = places(&commands, Path::new("/w")).pop().unwrap();
            let expect = expect.map(|list| list.iter().map(PathBuf::from).collect());
            assert_eq!(last, expect, "{script}");
        };
        check("x", Some(&["/w"]));
        check("cd a && x", Some(&["/w/a"]));
        check("cd a && cd ../b && x", Some(&["/w/b"]));
        check("cd /a/./b && x", Some(&["/a/b"]));
        check("cd a; x", Some(&["/w", "/w/a"]));
        check("cd a || x", Some(&["/w", "/w/a"]));
        check("true || cd a && x", Some(&["/w", "/w/a"]));
        check("true && cd a && true || x && x", Some(&["/w", "/w/a"]));
        check("cd a | true; x", Some(&["/w"]));
        check("true | cd a; x", Some(&["/w", "/w/a"]));
        check("cd; x", None);
        check("cd -; x", None);
        check("cd ~/a && x", None);
        check("cd - && cd a && x", None);
        check("cd - && cd /a && x", None);
    }
}
