//! Traits of typed calls and notifications. The crate that owns the wire types implements them.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// One method: its name on the wire, its parameters and its result.
pub trait Method {
    /// The `method` member.
    const NAME: &'static str;
    /// The `params` member; `()` leaves it out.
    type Params: Serialize;
    /// The `result` member; `()` accepts `{}` and `null`.
    type Result: DeserializeOwned;
}

/// One notification: its name on the wire and its parameters.
pub trait Notification {
    /// The `method` member.
    const NAME: &'static str;
    /// The `params` member; `()` leaves it out.
    type Params: Serialize;
}
