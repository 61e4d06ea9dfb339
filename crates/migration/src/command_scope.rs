//! The commands that a permission of Claude Code is about, and how near a prefix rule comes to them.
//!
//! There, a permission is one whole command, or a pattern in which each `*` stands for any text, spaces
//! included; `:*` and ` *` at the end mean "begins with these words". A prefix rule only has the words that a
//! command begins with.

/// The commands that a permission is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandScope {
    /// Words of the nearest prefix rule; empty for [`Fit::Unknown`].
    pub(crate) words: Vec<String>,
    pub(crate) fit: Fit,
    /// Text that all of its commands begin with, with single spaces.
    head: String,
    /// The same with the program's name alone: another path, or none, can lead to the same file.
    named_head: String,
}

/// The relation between the prefix rule of [`CommandScope::words`] and the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The same commands.
    Exact,
    /// One whole command: the rule has it with further arguments as well.
    Longer,
    /// A pattern: the rule has all of its commands, and more.
    Wider,
    /// The last word is only the beginning of one, such as `git push*`: the rule has no longer words.
    Narrower,
    /// There is no such rule.
    Unknown,
}

impl CommandScope {
    /// Reads a permission. `None` when it is about another tool than commands.
    pub(crate) fn parse(permission: &str) -> Option<Self> {
        let permission = permission.trim();
        let end = permission.find('(').unwrap_or(permission.len());
        let (tool, arguments) = permission.split_at(end);
        // A pattern of tools may have this one.
        if tool.contains('*') {
            return Some(Self::any());
        }
        if tool.trim() != "Bash" {
            return None;
        }
        let inner = arguments.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        Some(inner.map_or_else(Self::any, Self::of_commands))
    }

    /// All commands.
    fn any() -> Self {
        let (head, named_head) = (String::new(), String::new());
        Self { words: Vec::new(), fit: Fit::Unknown, head, named_head }
    }

    fn of_commands(pattern: &str) -> Self {
        let prefix = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"));
        let (literal, whole, fit) = match (prefix, pattern.split_once('*')) {
            (Some(prefix), _) if !prefix.contains('*') => (prefix, prefix, Fit::Exact),
            (_, None) => (pattern, pattern, Fit::Longer),
            (_, Some((literal, ""))) if !literal.ends_with(char::is_whitespace) => {
                (literal, literal, Fit::Narrower)
            }
            (_, Some((literal, _))) => {
                let whole = literal.rfind(char::is_whitespace).map_or("", |at| &literal[..at]);
                (literal, whole, Fit::Wider)
            }
        };
        let all: Vec<&str> = whole.split_whitespace().collect();
        let plain = all.iter().take_while(|word| word.chars().all(is_plain));
        let words: Vec<String> = plain.map(|word| (*word).to_owned()).collect();
        let begins = literal.split_whitespace().next().unwrap_or_default();
        // A variable before the program, or text that a shell replaces: it can be any program.
        if begins.contains('=') || !begins.chars().all(is_plain) {
            return Self::any();
        }
        let fit = match () {
            () if words.is_empty() => Fit::Unknown,
            () if words.len() < all.len() => Fit::Wider,
            // Spaces that the pattern has twice must be twice in a command there.
            () if fit == Fit::Exact && whole != words.join(" ") => Fit::Wider,
            () => fit,
        };
        let head = literal.split_whitespace().collect::<Vec<_>>().join(" ");
        // The rest of a path that a `*` cuts off is not known.
        let is_cut = words.is_empty() || (fit == Fit::Narrower && words.len() == 1);
        let named_head = match is_cut && head.contains('/') {
            true => String::new(),
            false => without_folder(&head),
        };
        Self { words, fit, head, named_head }
    }

    /// Returns whether a command can be one of both, by what they begin with.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        let agree = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        agree(&self.head, &other.head) || agree(&self.named_head, &other.named_head)
    }

    /// Returns whether the prefix rule of this one covers all commands of the other's.
    pub(crate) fn rule_covers(&self, other: &Self) -> bool {
        self.fit != Fit::Unknown && other.words.starts_with(&self.words)
    }
}

/// Characters that a shell reads as themselves.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./:@=+,".contains(c)
}

/// The beginning of a command without the folder of its program.
fn without_folder(head: &str) -> String {
    let end = head.find(' ').unwrap_or(head.len());
    let (program, rest) = head.split_at(end);
    let name = program.rsplit_once('/').map_or(program, |(_, name)| name);
    format!("{name}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_has_the_nearest_prefix_rule() {
        let check = |permission: &str, words: &str, fit: Fit| {
            let scope = CommandScope::parse(permission).unwrap();
            assert_eq!((&*scope.words.join(" "), scope.fit), (words, fit), "{permission}");
        };
        check("Bash(npm run test:*)", "npm run test", Fit::Exact);
        check("Bash(git *)", "git", Fit::Exact);
        check(" Bash(git push:*) ", "git push", Fit::Exact);
        check("Bash(ls)", "ls", Fit::Longer);
        check("Bash(git push origin main)", "git push origin main", Fit::Longer);
        check("Bash(docker run *--privileged*)", "docker run", Fit::Wider);
        check("Bash(git push * --force)", "git push", Fit::Wider);
        check("Bash(git pu* --force)", "git", Fit::Wider);
        check("Bash(a * b:*)", "a", Fit::Wider);
        check("Bash(git push \"a b\":*)", "git push", Fit::Wider);
        check("Bash(git push; rm:*)", "git", Fit::Wider);
        check("Bash(a  b:*)", "a b", Fit::Wider);
        check("Bash(git push*)", "git push", Fit::Narrower);
        check("Bash(rm*)", "rm", Fit::Narrower);
        for all in [
            "Bash",
            "Bash()",
            "Bash(*)",
            "Bash(:*)",
            "Bash(* x:*)",
            "Bash(r*m)",
            "Bash(A=1 b:*)",
            "Bash(git push",
            "Bash($HOME/x:*)",
            "*",
            "B*(x)",
            "Bash (\"a b\":*)",
        ] {
            check(all, "", Fit::Unknown);
        }
        for other in ["", "Read(./.env)", "WebFetch", "mcp__a__b", "bash(ls)", "BashOutput"] {
            assert_eq!(CommandScope::parse(other), None, "{other}");
        }
    }

    #[test]
    fn commands_overlap_unless_they_begin_differently() {
        let check = |one: &str, other: &str, expected: bool| {
            let [one, other] = [one, other].map(|text| CommandScope::parse(text).unwrap());
            assert_eq!(one.may_overlap(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.may_overlap(&one), expected, "{one:?} {other:?}");
        };
        check("Bash(docker:*)", "Bash(dock*er rm)", true);
        check("Bash(docker:*)", "Bash(/usr/bin/dock*)", true);
        check("Bash(docker:*)", "Bash(/usr/b*)", true);
        check("Bash(a/b:*)", "Bash(a*)", true);
        check("Bash(docker:*)", "Bash($HOME/x*)", true);
        check("Bash(docker:*)", "Bash(/usr/bin/git p*)", false);
        check("Bash(docker run:*)", "Bash(*--privileged*)", true);
        check("Bash(docker run:*)", "Bash(docker  r*)", true);
        check("Bash(docker run:*)", "Bash(docker ps*)", false);
        check("Bash(git:*)", "Bash(docker*)", false);
        check("Bash(git:*)", "Bash", true);
    }
}
