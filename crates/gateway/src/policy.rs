//! What the specification says about a request before and after it runs: what it draws on, what a
//! refusal says, what the headers tell, what is announced. Pure functions; nothing here waits.

pub mod announce;
pub mod duration;
pub mod headers;
pub mod plan;
pub mod refusal;
