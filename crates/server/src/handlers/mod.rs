//! The handlers of the protocol's methods: one file a resource, one function a method. What a
//! method without a handler answers is stated here, once.

mod account;
mod app;
mod collaboration;
mod command;
mod config;
mod connection;
mod external_agent;
mod features;
mod feedback;
mod fs;
mod fuzzy;
mod goal;
mod hooks;
mod marketplace;
mod mcp;
mod memory;
mod model;
mod plugin;
mod plugin_share;
mod process;
mod realtime;
mod review;
mod skills;
mod thread;
mod turn;
mod windows;

use jsonrpc::ErrorObject;
use serde_json::json;

/// The methods of a resource that this version does not have yet.
macro_rules! not_implemented {
    ($($method:ident($params:ty) -> $result:ty = $name:literal;)+) => {
        $(
            async fn $method(&self, _cx: Cx, _params: $params) -> Result<$result, ErrorObject> {
                Err($crate::handlers::missing($name))
            }
        )+
    };
}

pub(crate) use not_implemented;

/// The error of a method, or of a part of one, that this version does not have.
pub(crate) fn missing(what: &str) -> ErrorObject {
    let message = format!("`{what}` is not implemented yet");
    ErrorObject::new(jsonrpc::code::METHOD_NOT_FOUND, message)
        .with_data(json!({ "reason": "notImplemented" }))
}

/// Refuses parameters that this version would have to ignore: `given` pairs each name with
/// whether the client set it.
pub(crate) fn refuse_missing(method: &str, given: &[(&str, bool)]) -> Result<(), ErrorObject> {
    match given.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(missing(&format!("{method}.{name}"))),
        None => Ok(()),
    }
}
