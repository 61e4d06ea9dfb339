//! Permissions of Claude Code as command rules, which never permit more.
//!
//! There, `deny` wins over `ask`, and `ask` over `allow`, whatever file they are in; here the strictest rule
//! wins. A permission that allows becomes a rule only when the two mean exactly the same. One that restricts
//! becomes the nearest rule, even if that restricts more. What a rule cannot restrict, or restrictions
//! that cannot be read, leave out the allowing permissions that they are about.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::bounds::PERMISSIONS;
use crate::command_scope::{CommandScope, Fit};
use crate::item::{Change, Item};

/// Modes in which commands that are allowed run.
const MODES: [&str; 4] = ["default", "acceptEdits", "dontAsk", "bypassPermissions"];

/// The permissions of some files of settings.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    allowing: Vec<Permission>,
    /// Those that deny first.
    restricting: Vec<Permission>,
    names: BTreeSet<String>,
    /// The permissions that have no counterpart, and why.
    left_out: Vec<(String, String)>,
    /// Why it is not known what they restrict.
    unknown: Option<String>,
    has_hooks: bool,
}

/// An entry of one of the lists.
#[derive(Debug)]
struct Permission {
    /// The list and the entry.
    name: String,
    decision: Decision,
    scope: CommandScope,
}

/// The decision of a permission, from lax to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Allow,
    Prompt,
    Forbidden,
}

impl Permissions {
    /// Adds those of a file of settings.
    pub(crate) fn read(&mut self, settings: &Value, path: &Path) {
        let hooks = &settings["hooks"]["PreToolUse"];
        self.has_hooks |= !hooks.is_null() && settings["disableAllHooks"] != true;
        let permissions = &settings["permissions"];
        if !(permissions.is_null() || permissions.is_object()) {
            return self.misread(path, "permissions", "it must be an object");
        }
        for (list, decision) in
            [("deny", Decision::Forbidden), ("ask", Decision::Prompt), ("allow", Decision::Allow)]
        {
            self.read_list(list, decision, &permissions[list], path);
        }
        self.restricting.sort_by_key(|permission| std::cmp::Reverse(permission.decision));
        let mode = &permissions["defaultMode"];
        if !mode.is_null() && mode.as_str().is_none_or(|mode| !MODES.contains(&mode)) {
            let mode = visible::exact(&mode.to_string());
            self.does_not_know(format!("`defaultMode` is {mode} in {}", visible::path(path)));
        }
        for key in ["defaultMode", "additionalDirectories"] {
            if !permissions[key].is_null() {
                let why = "it has no exact counterpart; see `sandbox_mode` and `approval_policy`";
                self.left_out.push((key.to_owned(), why.to_owned()));
            }
        }
    }

    fn read_list(&mut self, list: &str, decision: Decision, entries: &Value, path: &Path) {
        let entries = match entries {
            Value::Null => return,
            Value::Array(entries) => entries,
            _ => return self.misread(path, list, "it must be a list"),
        };
        if entries.len() > PERMISSIONS {
            let why = format!("at most {PERMISSIONS} entries are read");
            return self.misread(path, list, &why);
        }
        for entry in entries {
            let Some(entry) = entry.as_str() else {
                self.misread(path, list, "its entries must be texts");
                continue;
            };
            let name = format!("{list}: {entry}");
            if !self.names.insert(name.clone()) {
                continue;
            }
            match (CommandScope::parse(entry), decision) {
                (None, _) => {
                    let why = "only rules about commands have a counterpart";
                    self.left_out.push((name, why.to_owned()));
                }
                (Some(scope), Decision::Allow) => {
                    self.allowing.push(Permission { name, decision, scope });
                }
                (Some(scope), _) => self.restricting.push(Permission { name, decision, scope }),
            }
        }
    }

    /// A member that cannot be used.
    fn misread(&mut self, path: &Path, member: &str, why: &str) {
        self.left_out.push((member.to_owned(), why.to_owned()));
        if member != "allow" {
            self.does_not_know(format!("{}: `{member}`: {why}", visible::path(path)));
        }
    }

    /// Notes why it is not known what these permissions restrict, such as a file that cannot be read.
    pub(crate) fn does_not_know(&mut self, why: String) {
        self.unknown.get_or_insert(why);
    }
}

/// Adds the rules of `own`. Those of `above`, of the user for a project and of an administrator, are not taken
/// over here, but hold there as well.
pub(crate) fn add(own: &Permissions, above: &Permissions, target: &Path, item: &mut Item) {
    for (name, why) in &own.left_out {
        item.leave_out(name, why);
    }
    let mut restrictions = 0;
    for permission in &own.restricting {
        restrictions += usize::from(add_restriction(permission, target, item));
        if permission.is_complete() {
            continue;
        }
        // The user's own rules may have been imported.
        for allowing in &above.allowing {
            if allowing.why_not_exact().is_none() && permission.scope.may_overlap(&allowing.scope) {
                let name = format!("{}, {}", permission.name, allowing.name);
                let note = "about commands that your own settings allow";
                let words = &allowing.scope.words;
                restrictions += 1;
                add_rule(&name, words, Decision::Prompt, note, target, item);
            }
        }
    }
    let mut unknown = own.unknown.as_ref().or(above.unknown.as_ref()).map(|why| {
        format!("it is not known whether anything restricts it, because of this: {why}")
    });
    if item.parts.len() < restrictions {
        unknown = Some("not all that restricts it can be taken over at a time".to_owned());
    }
    let before = item.parts.len();
    for permission in &own.allowing {
        let why = permission.why_not_exact().map(str::to_owned);
        match why.or_else(|| unknown.clone()).or_else(|| restricted(permission, own, above)) {
            Some(why) => item.leave_out(&permission.name, &why),
            None => {
                let words = &permission.scope.words;
                add_rule(&permission.name, words, Decision::Allow, "", target, item);
            }
        }
    }
    if item.parts.len() > before && (own.has_hooks || above.has_hooks) {
        let why = "commands that hooks of `PreToolUse` refuse there are refused here only when the hooks are \
                   imported, too, and `features.codex_hooks` is on";
        item.leave_out("hooks", why);
    }
}

/// Adds the nearest rule of a permission that restricts; false when there is none.
fn add_restriction(permission: &Permission, target: &Path, item: &mut Item) -> bool {
    let Permission { name, scope, .. } = permission;
    let decision = permission.rule_decision();
    let note = match scope.fit {
        Fit::Exact => "",
        Fit::Longer => "with further arguments, too",
        Fit::Wider if decision < permission.decision => {
            "about all commands of the program: more cannot be told apart here; it asks, and does not forbid"
        }
        Fit::Wider => "more than there: rules here are about how a command begins",
        Fit::Narrower => "whole words only",
        Fit::Unknown => {
            let why = "rules here are about how a command begins, and these begin in many ways: nothing \
                       restricts them here, and no permission that could allow them is imported";
            item.leave_out(name, why);
            return false;
        }
    };
    add_rule(name, &scope.words, decision, note, target, item);
    if scope.fit == Fit::Narrower {
        let why = format!(
            "its rule has `{0}`, and no longer words such as `{0}x`; no permission that could allow those is \
             imported",
            scope.words.join(" ")
        );
        item.leave_out(name, &why);
    }
    true
}

fn add_rule(
    name: &str,
    words: &[String],
    decision: Decision,
    note: &str,
    target: &Path,
    item: &mut Item,
) {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let decision = match decision {
        Decision::Allow => "allow",
        Decision::Prompt => "prompt",
        Decision::Forbidden => "forbidden",
    };
    let line = format!("prefix_rule(pattern = [{}], decision = \"{decision}\")", quoted.join(", "));
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    let change = Change::Rule { path: target.to_owned(), line: line.clone() };
    item.add(name, line + &note, change);
}

impl Permission {
    /// Returns the decision of a restricting permission's rule. To forbid all commands of a program
    /// because of some of them would make it useless.
    fn rule_decision(&self) -> Decision {
        match self.scope.fit == Fit::Wider && self.scope.words.len() == 1 {
            true => Decision::Prompt,
            false => self.decision,
        }
    }

    /// Returns whether the rule of a restricting permission covers all of its commands.
    fn is_complete(&self) -> bool {
        !matches!(self.scope.fit, Fit::Narrower | Fit::Unknown)
    }

    /// Why no rule means the same.
    fn why_not_exact(&self) -> Option<&'static str> {
        match self.scope.fit {
            Fit::Exact => None,
            Fit::Longer => {
                Some("it is about one exact command, and rules here are about beginnings")
            }
            Fit::Wider | Fit::Narrower | Fit::Unknown => Some(
                "rules here are about whole plain words that a command begins with, and a rule that only \
                 resembles it could permit more",
            ),
        }
    }
}

/// Why a permission that allows is restricted.
fn restricted(allowing: &Permission, own: &Permissions, above: &Permissions) -> Option<String> {
    let scope = &allowing.scope;
    let covering = own.restricting.iter().find(|other| other.scope.rule_covers(scope));
    if let Some(other) = covering {
        return Some(format!("the rule of `{}` comes before it", visible::exact(&other.name)));
    }
    let is_open = |other: &&Permission| !other.is_complete() && other.scope.may_overlap(scope);
    if let Some(other) = own.restricting.iter().find(is_open) {
        let name = visible::exact(&other.name);
        return Some(format!(
            "it could allow commands that `{name}` restricts, and no rule here does"
        ));
    }
    let above = above.restricting.iter().find(|other| other.scope.may_overlap(scope))?;
    let name = visible::exact(&above.name);
    Some(format!(
        "it could allow commands that `{name}` restricts in settings that hold everywhere"
    ))
}

/// The file with the line; `None` when it has it already.
pub(crate) fn with_rule(old: &str, line: &str) -> Option<String> {
    if old.lines().any(|known| known.trim() == line) {
        return None;
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    Some(format!("{old}{gap}{line}\n"))
}
