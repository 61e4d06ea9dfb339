//! The actions of a command for display (`CommandAction`): reading a file, listing, searching, or
//! something else. Not related to safety.

use std::path::{Path, PathBuf};

use super::known::prints_lines;
use super::parse::{Command, Joint};
use super::places::{Places, places};
use super::programs::base_name;
use super::resolver::normalize;
use super::word::{Word, quote};

/// An action of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads a file.
    Read {
        /// The command that reads.
        command: String,
        /// The file's name, for display.
        name: String,
        /// The absolute path of the file.
        path: PathBuf,
    },
    /// Lists files.
    ListFiles {
        /// The command that lists.
        command: String,
        /// The folder as written, if any.
        path: Option<String>,
    },
    /// Searches in files.
    Search {
        /// The command that searches.
        command: String,
        /// The search text.
        query: Option<String>,
        /// The path as written.
        path: Option<String>,
    },
    /// Anything else, as the only action.
    Unknown {
        /// The whole command.
        command: String,
    },
}

/// The actions of plain `commands` that run at `cwd`. `source` is the whole command, which is shown
/// if a part is not understood. Omits stages of a pipeline that only format the output, and steps
/// such as `cd` and `echo`.
pub(super) fn actions(commands: Option<&[Command]>, source: &str, cwd: &Path) -> Vec<Action> {
    let known = commands.and_then(|commands| {
        let places = places(commands, cwd);
        let mut found = Vec::new();
        for (at, (command, places)) in commands.iter().zip(&places).enumerate() {
            let piped = command.joint == Joint::Pipe;
            let feeds = commands.get(at + 1).is_some_and(|next| next.joint == Joint::Pipe);
            if is_step(command, feeds) || (piped && only_shapes(command)) {
                continue;
            }
            found.extend(classify(command, places).filter(|list| !piped && !list.is_empty())?);
        }
        found.dedup();
        (!found.is_empty()).then_some(found)
    });
    known.unwrap_or_else(|| vec![Action::Unknown { command: source.to_owned() }])
}

/// Preparatory steps.
fn is_step(command: &Command, feeds: bool) -> bool {
    let name = command.words.first().map_or("", |word| word.text.as_str());
    matches!(name, "cd" | "true" | ":") || (!feeds && matches!(name, "echo" | "printf"))
}

/// Filters that only reformat their standard input.
fn only_shapes(command: &Command) -> bool {
    let Some((program, args)) = command.words.split_first() else {
        return false;
    };
    let files = operands(args, "nckdftwsSb");
    match program.text.as_str() {
        "head" | "tail" | "wc" | "sort" | "uniq" | "cut" | "nl" | "column" | "cat" | "tac" => {
            files.is_empty()
                && !args.iter().any(|word| word.text.starts_with("--output") || word.text == "-o")
        }
        "tr" => true,
        "sed" => {
            matches!(args, [flag, script] if flag.text == "-n" && script.text.split(';').all(prints_lines))
        }
        "grep" | "rg" => files.len() == 1,
        _ => false,
    }
}

fn classify(command: &Command, places: &Places) -> Option<Vec<Action>> {
    let (program, args) = command.words.split_first()?;
    let line = quote(&command.argv());
    match base_name(&program.text) {
        "cat" | "bat" | "less" | "more" => read(&line, operands(args, ""), places),
        "nl" => read(&line, operands(args, "bdfhilnsvw"), places),
        "head" | "tail" => read(&line, operands(args, "nc"), places),
        "sed" => match args {
            [flag, script, files @ ..]
                if flag.text == "-n" && script.text.split(';').all(prints_lines) =>
            {
                read(&line, operands(files, ""), places)
            }
            _ => None,
        },
        "ls" | "tree" | "eza" | "exa" | "du" => Some(vec![list(line, &operands(args, "ILPw"))]),
        "find" => find(line, args),
        "fd" | "fdfind" => {
            let words = operands(args, "tedEc");
            Some(vec![search_action(line, &words)])
        }
        "rg" if args.iter().any(|word| word.text == "--files") => {
            Some(vec![list(line, &operands(args, RG_VALUES))])
        }
        "rg" => Some(vec![search(line, args, RG_VALUES)]),
        "grep" | "egrep" | "fgrep" => Some(vec![search(line, args, "ABCmefdD")]),
        "git" => git(line, args),
        _ => None,
    }
}

const RG_VALUES: &str = "ABCEMTdefgjmrt";

fn git(line: String, args: &[Word]) -> Option<Vec<Action>> {
    let (verb, rest) = args.split_first()?;
    match verb.text.as_str() {
        "grep" => Some(vec![search(line, rest, "ABCmefO")]),
        "ls-files" => Some(vec![list(line, &operands(rest, "xX"))]),
        _ => None,
    }
}

fn read(line: &str, files: Vec<&Word>, places: &Places) -> Option<Vec<Action>> {
    let [place] = places.as_deref()? else {
        return None;
    };
    files
        .into_iter()
        .map(|file| {
            let path = Path::new(&file.text);
            if file.expands || file.text == "-" {
                return None;
            }
            Some(Action::Read {
                command: line.to_owned(),
                name: path.file_name()?.to_string_lossy().into_owned(),
                path: normalize(&place.join(path)),
            })
        })
        .collect()
}

fn list(command: String, folders: &[&Word]) -> Action {
    Action::ListFiles { command, path: folders.first().map(|word| word.text.clone()) }
}

/// `find` with a test on names is a search, without one a list; with actions that run or delete, it
/// is neither.
fn find(command: String, args: &[Word]) -> Option<Vec<Action>> {
    let changes = |word: &Word| {
        ["-exec", "-ok", "-delete", "-fprint", "-fls"]
            .iter()
            .any(|stem| word.text.starts_with(stem))
    };
    if args.iter().any(changes) {
        return None;
    }
    let path = args.first().filter(|word| !word.text.starts_with(['-', '(', '!']));
    let path = path.map(|word| word.text.clone());
    const NAMES: &[&str] = &["-name", "-iname", "-path", "-ipath", "-regex", "-iregex"];
    let at = args.iter().position(|word| NAMES.contains(&word.text.as_str()));
    let query = at.and_then(|at| args.get(at + 1)).map(|word| word.text.clone());
    Some(vec![match query {
        Some(_) => Action::Search { command, query, path },
        None => Action::ListFiles { command, path },
    }])
}

/// The pattern of `-e`, or else the first operand.
fn search(command: String, args: &[Word], values: &str) -> Action {
    let words = operands(args, values);
    let given = args.iter().position(|word| word.text == "-e" || word.text == "--regexp");
    match given.and_then(|at| args.get(at + 1)) {
        Some(pattern) => Action::Search {
            command,
            query: Some(pattern.text.clone()),
            path: words.first().map(|word| word.text.clone()),
        },
        None => search_action(command, &words),
    }
}

fn search_action(command: String, words: &[&Word]) -> Action {
    Action::Search {
        command,
        query: words.first().map(|word| word.text.clone()),
        path: words.get(1).map(|word| word.text.clone()),
    }
}

/// The words that are not options. The next word after a short option that ends in one of `values`
/// belongs to the option.
fn operands<'w>(args: &'w [Word], values: &str) -> Vec<&'w Word> {
    let mut found = Vec::new();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if text == "--" {
            found.extend(rest);
            break;
        }
        if !text.starts_with('-') || text == "-" {
            found.push(word);
            continue;
        }
        let short = !text.starts_with("--") && text.len() == 2;
        if short && text.ends_with(|c| values.contains(c)) {
            rest.next();
        }
    }
    found
}
