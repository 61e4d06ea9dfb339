//! The values that a key accepts, in words: for messages and the reference page.

use crate::kind::{Kind, MAX_NICKNAME};

/// Describes the values of a kind.
pub(crate) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Boolean => "true or false".to_owned(),
        Kind::Whole { min, max } if *max == i64::MAX as u64 => {
            format!("a whole number of at least {min}")
        }
        Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Time { min, max, .. } => format!("a number from {min} to {max}"),
        Kind::Text => "a string".to_owned(),
        Kind::Url => "a string with an address that starts with `https://` or `http://`".to_owned(),
        Kind::Uuid => "a string with a UUID".to_owned(),
        Kind::Nickname => format!(
            "a name of 1 to {MAX_NICKNAME} visible characters that is not the id of a thread"
        ),
        Kind::Country => "a country code of two letters, such as \"NL\"".to_owned(),
        Kind::TimeZone => {
            "the name of a time zone of the IANA database, such as \"Europe/Amsterdam\"".to_owned()
        }
        Kind::Host => {
            "the name of a host without scheme, port and path, such as \"docs.example\", \
                       with letters of other scripts as in \"xn--bcher-kva.example\""
                .to_owned()
        }
        Kind::Path => "a string with a path".to_owned(),
        Kind::Choice(names, _) => one_of(names),
        Kind::List(Kind::Table(_)) => "an array of tables".to_owned(),
        Kind::List(Kind::Text) => "an array of strings".to_owned(),
        Kind::List(Kind::Path) => "an array of strings with paths".to_owned(),
        Kind::List(Kind::Choice(names, _)) => format!("an array of {}", names.join(", ")),
        Kind::List(of) => format!("an array, each {}", expected(of)),
        Kind::Map(_, Kind::Text) => "a table of strings".to_owned(),
        Kind::Map(..) | Kind::Table(_) => "a table".to_owned(),
        Kind::Profile => "a table of keys".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.as_slice() {
        [only] => only.clone(),
        _ => format!("one of {}", quoted.join(", ")),
    }
}
