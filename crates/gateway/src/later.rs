//! Answers that come later than the response to their request, such as responses in the background. The store keeps what
//! settles one, and what was reserved stays counted as spend, until the end of the answer is seen: in an answer that a
//! client fetches, or by the gateway itself, which asks at growing intervals. The first to see it settles it, on any
//! node: the row goes in the transaction that writes the ledger.

mod charge;
mod keep;
mod poll;
mod seen;
mod settle;

pub(crate) use keep::{keep, may_come_later};
pub(crate) use poll::{look_before_delete, start};
pub(crate) use seen::{Follow, Source};
