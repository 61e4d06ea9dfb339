//! The complete tables, joined from those of the resources, and lookup in them.

use crate::resource::{Resource, resources};
use crate::table::{MessageInfo, MethodInfo};

/// Joins the methods of the resources.
macro_rules! resource_methods {
    ($($resource:ident: $module:ident::$trait:ident,)+) => {
        /// All methods that a server must implement.
        pub trait AllMethods<Cx>: $(crate::$module::$trait<Cx> +)+ {}

        impl<S, Cx> AllMethods<Cx> for S where S: $(crate::$module::$trait<Cx> +)+ {}

        const METHOD_PARTS: &[&[MethodInfo]] = &[$(crate::$module::METHODS),+];

        /// Passes the request to its resource, which decodes it and calls the handler.
        pub(crate) fn route<'a, S, Cx>(
            resource: Resource,
            server: &'a S,
            cx: Cx,
            method: &str,
            params: Option<&serde_json::value::RawValue>,
        ) -> Result<crate::handling::Reply<'a>, jsonrpc::ErrorObject>
        where
            S: AllMethods<Cx>,
            Cx: 'a,
        {
            match resource {
                $(Resource::$resource => crate::$module::dispatch(server, cx, method, params),)+
            }
        }

        pub(crate) fn method_schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::message_schema::MessageSchema> {
            let mut schemas = Vec::new();
            $(schemas.extend(crate::$module::method_schemas(generator));)+
            schemas
        }
    };
}

/// Adds the notifications of these modules to the complete table.
macro_rules! resource_messages {
    ($parts:ident = $table:ident, $schemas:ident: $($module:ident)+) => {
        const $parts: &[&[MessageInfo]] = &[$(crate::$module::$table),+];

        pub(crate) fn $schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::message_schema::MessageSchema> {
            let mut schemas = Vec::new();
            $(schemas.extend(crate::$module::$schemas(generator));)+
            schemas
        }
    };
}

resources!(resource_methods);

resource_messages! {
    NOTIFICATION_PARTS = NOTIFICATIONS, notification_schemas:
    connection thread goal queue turn item_event command process fs model account app mcp skills hooks
    fuzzy search realtime windows external_agent guardian
}

resource_messages! {
    CLIENT_NOTIFICATION_PARTS = CLIENT_NOTIFICATIONS, client_notification_schemas: connection
}

resource_messages! {
    SERVER_REQUEST_PARTS = SERVER_REQUESTS, server_request_schemas:
    account elicitation approval tool legacy_approval
}

/// Every request that a client can send.
pub static METHODS: &[MethodInfo] = &join::<_, { count(METHOD_PARTS) }>(METHOD_PARTS);

/// Every notification that the server can send.
pub static NOTIFICATIONS: &[MessageInfo] =
    &join::<_, { count(NOTIFICATION_PARTS) }>(NOTIFICATION_PARTS);

/// Every notification that a client can send.
pub static CLIENT_NOTIFICATIONS: &[MessageInfo] =
    &join::<_, { count(CLIENT_NOTIFICATION_PARTS) }>(CLIENT_NOTIFICATION_PARTS);

/// Every request that the server can send.
pub static SERVER_REQUESTS: &[MessageInfo] =
    &join::<_, { count(SERVER_REQUEST_PARTS) }>(SERVER_REQUEST_PARTS);

/// Returns the row of a client's request.
#[must_use]
pub fn lookup(method: &str) -> Option<&'static MethodInfo> {
    // Comparing lengths first makes this faster than hashing the name.
    METHODS.iter().find(|info| info.name == method)
}

/// Returns the row of a notification of the server.
#[must_use]
pub fn lookup_notification(method: &str) -> Option<&'static MessageInfo> {
    NOTIFICATIONS.iter().find(|info| info.name == method)
}

/// Returns the row of a request of the server.
#[must_use]
pub fn lookup_server_request(method: &str) -> Option<&'static MessageInfo> {
    SERVER_REQUESTS.iter().find(|info| info.name == method)
}

const fn count<T>(parts: &[&[T]]) -> usize {
    let mut total = 0;
    let mut part = 0;
    while part < parts.len() {
        total += parts[part].len();
        part += 1;
    }
    total
}

/// Joins the parts at compile time; `N` is their [`count`].
const fn join<T: Copy, const N: usize>(parts: &[&[T]]) -> [T; N] {
    let mut joined = [parts[0][0]; N];
    let mut at = 0;
    let mut part = 0;
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            joined[at] = parts[part][row];
            at += 1;
            row += 1;
        }
        part += 1;
    }
    joined
}
