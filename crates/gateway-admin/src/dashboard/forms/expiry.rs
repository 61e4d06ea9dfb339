//! The choice of a key's lifetime.

use serde_json::Value;

use super::entered::Entered;
use super::form::{Control, Field};

const NAME: &str = "expires_in_seconds";
const DAY: u64 = 86_400;

/// Lifetimes that are offered, in seconds.
const OFFERED: [(u64, &str); 7] = [
    (3600, "In an hour"),
    (DAY, "In a day"),
    (7 * DAY, "In 7 days"),
    (30 * DAY, "In 30 days"),
    (90 * DAY, "In 90 days"),
    (180 * DAY, "In 180 days"),
    (365 * DAY, "In 365 days"),
];

/// The field. `never` is the name of the choice without an end; `None`: there must be one.
pub(super) fn field(never: Option<&str>) -> Field {
    let offered = OFFERED.iter().map(|(seconds, name)| (seconds.to_string(), (*name).to_owned()));
    let never = never.map(|name| (String::new(), name.to_owned()));
    Field::new(NAME, "Expires", Control::Choice(never.into_iter().chain(offered).collect()))
        .required()
}

/// The value for the API.
pub(super) fn value(entered: &Entered) -> Value {
    entered.count(NAME)
}
