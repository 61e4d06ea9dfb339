//! The choice among the backends of an upstream, and the health of each: pure functions and state machines over a
//! time that is passed in. They know neither connections nor the configuration.

mod breaker;
mod choice;
mod pauses;
mod shares;

pub use breaker::{Breaker, Health, Pass};
pub use choice::{Candidate, Choice, Order, choose, sticky_key};
pub use pauses::Pauses;
pub use shares::{Places, Requester, Shares};
