//! JSON Schemas of answers: whether a value follows one (`Validator`, by the feature `validator`), the form of one that
//! providers take as strict ([`strict`]), and schemas that are made of a program's types ([`typed`]).

pub mod strict;
pub mod typed;
#[cfg(feature = "validator")]
mod validator;

#[cfg(feature = "validator")]
pub use validator::Validator;
