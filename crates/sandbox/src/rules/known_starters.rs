//! Programs that start others: `find -exec`, `xargs` and `timeout`. They are safe if the command
//! that they start is safe with any added words, which come from file names and streams that
//! another party can control.

use super::parse::{Command, Joint};
use super::word::Word;

/// Options of `xargs` that take a value.
const XARGS_VALUES: &[&str] = &["-L", "-n", "-P"];
/// The placeholder of the words that `xargs` adds.
const XARGS_PLACES: &[&str] = &["{}", "%", "@"];

/// The command that `xargs` starts, with a word at its end that stands for all that are added;
/// `None` when an option is not known to be harmless, or when words are put elsewhere. Without
/// `-a` (reads another file), `-p` and `-o` (take the terminal), `-x`, and long names.
pub(super) fn fed_by_xargs(args: &[Word]) -> Option<Command> {
    let mut places = Vec::new();
    let mut rest = args;
    while let Some((word, after)) = rest.split_first().filter(|(word, _)| word.may_be_option()) {
        rest = match word.text.as_str() {
            _ if word.expands => return None,
            "-0" | "-r" | "-t" | "-0r" | "-r0" | "--null" | "--no-run-if-empty" => after,
            "-I" => {
                let (place, after) = after.split_first().filter(|(place, _)| is_place(place))?;
                places.push(place.text.as_str());
                after
            }
            "-I{}" | "-I%" | "-I@" => {
                places.push(&word.text[2..]);
                after
            }
            option if XARGS_VALUES.contains(&option) => {
                after.split_first().filter(|(count, _)| is_count(&count.text))?.1
            }
            option => {
                let count = XARGS_VALUES.iter().find_map(|name| option.strip_prefix(name))?;
                is_count(count).then_some(after)?
            }
        };
    }
    let (program, arguments) = rest.split_first()?;
    if program.expands || places.iter().any(|place| program.text.contains(place)) {
        return None;
    }
    let mut words = vec![program.clone()];
    for word in arguments {
        let replaced = places.iter().any(|place| word.text.contains(place));
        words.push(if replaced { anything() } else { word.clone() });
    }
    if places.is_empty() {
        words.push(anything());
    }
    Some(Command { words, joint: Joint::Start, shell: false })
}

/// A word that another party chose, possibly an option.
fn anything() -> Word {
    Word { text: "*".to_owned(), expands: true }
}

/// The command that `timeout` starts, after a duration and without options.
pub(super) fn limited_by_timeout(args: &[Word]) -> Option<Command> {
    let (duration, words) = args.split_first()?;
    let count = duration.text.strip_suffix(['s', 'm']).unwrap_or(&duration.text);
    let starts = is_count(count) && words.first().is_some_and(|program| !program.may_be_option());
    starts.then(|| Command { words: words.to_vec(), joint: Joint::Start, shell: false })
}

fn is_place(word: &Word) -> bool {
    !word.expands && XARGS_PLACES.contains(&word.text.as_str())
}

fn is_count(text: &str) -> bool {
    (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Each word that could be a predicate must be one that only tests or prints, wherever it
/// stands: so it does not matter which predicates take values.
pub(super) fn is_safe_find(args: &[Word]) -> bool {
    const PREDICATES: &[&str] = &[
        "--",
        "-H",
        "-L",
        "-P",
        "-a",
        "-amin",
        "-and",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-ctime",
        "-d",
        "-daystart",
        "-depth",
        "-empty",
        "-executable",
        "-false",
        "-follow",
        "-gid",
        "-group",
        "-ilname",
        "-iname",
        "-inum",
        "-ipath",
        "-iregex",
        "-iwholename",
        "-links",
        "-lname",
        "-ls",
        "-maxdepth",
        "-mindepth",
        "-mmin",
        "-mount",
        "-mtime",
        "-name",
        "-newer",
        "-newermt",
        "-nogroup",
        "-noleaf",
        "-not",
        "-nouser",
        "-o",
        "-or",
        "-path",
        "-perm",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-quit",
        "-readable",
        "-regex",
        "-regextype",
        "-samefile",
        "-size",
        "-true",
        "-type",
        "-uid",
        "-user",
        "-wholename",
        "-writable",
        "-xdev",
        "-xtype",
    ];
    args.iter().all(|word| {
        let number = word
            .text
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.len() < 16);
        let predicate = PREDICATES.contains(&word.text.as_str()) || number;
        !word.may_be_option() || (!word.expands && predicate)
    })
}

/// The arguments of `find` without its `-exec … ;` and `-exec … +`, and the commands of
/// those. A `{}` becomes a word like `./*`: names of files after a folder, which no program
/// takes for options. `None` when a part of them is not understood.
///
/// `-execdir` is not taken: some versions give it bare names, which may look like options.
pub(super) fn split_exec(args: &[Word]) -> Option<(Vec<Word>, Vec<Command>)> {
    let mut plain = Vec::with_capacity(args.len());
    let mut started = Vec::new();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        if word.text != "-exec" {
            plain.push(word.clone());
            continue;
        }
        let mut words = Vec::new();
        loop {
            let word = rest.next()?;
            match word.text.as_str() {
                ";" => break,
                // `+` ends the command only after `{}`.
                "+" if words.last().is_some_and(|last: &Word| last.text == FOUND) => break,
                "+" => return None,
                "{}" => words.push(Word { text: FOUND.to_owned(), expands: true }),
                text if text.contains("{}") || word.expands => return None,
                _ => words.push(word.clone()),
            }
        }
        started.push(Command { words, joint: Joint::Start, shell: false });
    }
    Some((plain, started))
}

const FOUND: &str = "./*";
