//! The wire protocol: every message's type, the tables of methods and notifications, and their
//! JSON Schema and TypeScript. It decides what a message looks like, never what the server does.
//!
//! One file a resource holds its types and its table entries. Adding a method is one entry there
//! and one handler in the server: the table yields the marker for typed calls, the trait method
//! the server must implement, the decoder, the gate and the schema.

macro_rules! resources {
    ($($module:ident)+) => {
        $(
            pub mod $module;
            #[doc(inline)]
            pub use $module::*;
        )+
    };
}

pub mod artifacts;
mod dispatch;
mod gate;
#[cfg(feature = "schema")]
pub mod generate;
mod registry;
mod table;
mod wire;

pub use dispatch::{Reply, dispatch, unimplemented};
pub use gate::experimental_violation;
pub use registry::{
    AllMethods, CLIENT_NOTIFICATIONS, METHODS, NOTIFICATIONS, Resource, SERVER_REQUESTS, lookup,
    lookup_notification, lookup_server_request,
};
pub use table::{MessageInfo, MethodInfo, Ordering, Stability};

resources! {
    account app approval collaboration command common config connection elicitation error
    external_agent features feedback fs fuzzy goal guardian hooks input item item_event
    legacy_approval marketplace mcp memory model permission plugin plugin_share policy process
    realtime requirements response_item review skills thread thread_edit thread_list thread_record
    tool turn windows
}
