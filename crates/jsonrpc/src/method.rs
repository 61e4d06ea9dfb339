//! What a typed call and a typed notification are. The tables that implement these traits live in
//! the crate that owns the wire types.

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
