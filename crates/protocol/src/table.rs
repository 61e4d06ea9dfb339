//! The entries of the message tables, and the macros that turn them into markers, traits, rows and
//! decoders. `registry` joins them to the complete tables.

use crate::resource::Resource;

/// A row of [`crate::METHODS`]: a request that the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodInfo {
    /// The `method` member.
    pub name: &'static str,
    /// The module and the trait that it belongs to.
    pub resource: Resource,
    /// The stability of the method: experimental ones require the `experimentalApi` capability.
    pub stability: Stability,
    /// The scheduling of the method on its connection.
    pub ordering: Ordering,
    /// Its cost for the server beyond a short response.
    pub load: Load,
    /// Members of `params` that require the `experimentalApi` capability.
    pub experimental_fields: &'static [&'static str],
}

/// A row of the other tables: a notification, or a request that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// The `method` member.
    pub name: &'static str,
    /// The stability of the message: experimental ones require the `experimentalApi` capability.
    pub stability: Stability,
    /// Which of a thread's notifications of this method are sent to a client that reconnects.
    pub retention: Retention,
}

/// The availability of a message: to every connection, or with a capability (specification,
/// "Versioning").
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stability {
    /// Available to every connection.
    Stable,
    /// Available only with `capabilities.experimentalApi`.
    Experimental,
}

/// When a request is handled, relative to the others of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// In order of arrival: the next request starts when this one is done. Its handler must not
    /// wait for anything outside the server, because the connection waits with it. Answers as long as
    /// a thread are of this kind, so that one at a time waits for a client that does not read.
    Ordered,
    /// In order of arrival among the requests of this kind whose parameters name the same `threadId`:
    /// it starts when the response to the one before is sent. No other request waits for it. It takes
    /// effect even when the connection ends meanwhile.
    InThread,
    /// At once, because it depends on no request without a response; no other request waits for it.
    /// It takes effect even when the connection ends meanwhile.
    Independent,
    /// As [`Ordering::Independent`], but it ends with the connection, because it may take long.
    Concurrent,
    /// Concurrently with other requests, but the next request starts only after this one has begun,
    /// because it may refer to what this one creates. Until then its handler waits for nothing.
    Begins,
    /// Not handled in this version. The parameters are not decoded, and the response is
    /// [`crate::unimplemented`].
    Unimplemented,
}

/// Cost of a request for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A response of bounded length.
    Light,
    /// A response as long as a thread: a server handles only a few at a time.
    LongAnswer,
    /// Work that outlives the response, such as a turn, a command or a loaded thread: a server that
    /// is shutting down refuses it.
    StartsWork,
}

/// Which notifications of a method a thread's event log keeps for clients that reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// All of them.
    Every,
    /// The newest of each turn, or of the thread if it names no turn: it replaces earlier ones.
    Newest,
}

/// The load of an entry; light by default.
macro_rules! load {
    () => {
        crate::table::Load::Light
    };
    ($load:ident) => {
        crate::table::Load::$load
    };
}

/// The retention of an entry; every notification by default.
macro_rules! retention {
    () => {
        crate::table::Retention::Every
    };
    ($retention:ident) => {
        crate::table::Retention::$retention
    };
}

/// The method of a resource's trait that handles a request, unless the request is unimplemented.
macro_rules! handler {
    (Unimplemented, $($rest:tt)*) => {};
    (
        $ordering:ident,
        $(#[doc = $doc:literal])+ fn $handler:ident($cx:ty, $params:ty) -> $result:ty
    ) => {
        $(#[doc = $doc])+
        fn $handler(
            &self,
            cx: $cx,
            params: $params,
        ) -> impl Future<Output = Result<$result, Self::Error>> + Send;
    };
}

/// The same method for the test server that reports which handler a request reached.
#[cfg(test)]
macro_rules! probe_handler {
    (Unimplemented, $($rest:tt)*) => {};
    ($ordering:ident, $name:literal, fn $handler:ident($cx:ty, $params:ty) -> $result:ty) => {
        async fn $handler(&self, _: $cx, _: $params) -> Result<$result, jsonrpc::ErrorObject> {
            Err(jsonrpc::ErrorObject::internal(concat!("reached ", $name)))
        }
    };
}

/// Decodes a request's parameters and calls its handler, if it has one.
macro_rules! call {
    (Unimplemented, $name:literal, $($rest:tt)*) => {
        Err(crate::handling::unimplemented($name))
    };
    (
        $ordering:ident, $name:literal, $raw:ident,
        |$params:ident: $type:ty| $call:expr
    ) => {{
        let $params: $type = crate::handling::params($name, $raw)?;
        Ok(crate::handling::reply($call))
    }};
}

/// Requests of the client; one invocation for each resource. An entry has the form
///
/// ```text
/// /// What it does.
/// Marker = "wire/name",
///     handler(Params) -> Result,
///     Stable | Experimental,
///     Ordered | InThread | Independent | Concurrent | Begins | Unimplemented,
///     ["experimentalField", …], LongAnswer | StartsWork;
/// ```
///
/// and yields the marker for typed calls, a method of the resource's trait (without a body, so
/// that a missing handler does not compile), a row of the table, and an arm of the dispatch.
macro_rules! methods {
    (
        $resource:ident, $trait:ident;
        $(
            $(#[doc = $doc:literal])+
            $marker:ident = $name:literal,
            $handler:ident($params:ty) -> $result:ty,
            $stability:ident, $ordering:ident, [$($field:literal),* $(,)?] $(, $load:ident)?;
        )+
    ) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub struct $marker;

            impl jsonrpc::Method for $marker {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
            }
        )+

        /// Handlers of this resource; `Cx` is the server's knowledge of the caller.
        pub trait $trait<Cx>: crate::handling::Handlers {
            $(
                crate::table::handler! {
                    $ordering, $(#[doc = $doc])+ fn $handler(Cx, $params) -> $result
                }
            )+
        }

        #[cfg(test)]
        impl<Cx: Send> $trait<Cx> for crate::handling::Probe {
            $(
                crate::table::probe_handler! { $ordering, $name, fn $handler(Cx, $params) -> $result }
            )+
        }

        pub(crate) const METHODS: &[crate::table::MethodInfo] = &[
            $(crate::table::MethodInfo {
                name: $name,
                resource: crate::resource::Resource::$resource,
                stability: crate::table::Stability::$stability,
                ordering: crate::table::Ordering::$ordering,
                load: crate::table::load!($($load)?),
                experimental_fields: &[$($field),*],
            },)+
        ];

        pub(crate) fn dispatch<'a, S, Cx>(
            server: &'a S,
            cx: Cx,
            method: &str,
            params: Option<&serde_json::value::RawValue>,
        ) -> Result<crate::handling::Reply<'a>, jsonrpc::ErrorObject>
        where
            S: $trait<Cx>,
            Cx: 'a,
        {
            // A resource may have no handlers yet.
            let _ = (server, &cx, params);
            match method {
                $(
                    $name => crate::table::call!(
                        $ordering, $name, params, |params: $params| server.$handler(cx, params)
                    ),
                )+
                _ => Err(jsonrpc::ErrorObject::method_not_found(method)),
            }
        }

        pub(crate) fn method_schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::message_schema::MessageSchema> {
            vec![
                $(crate::message_schema::MessageSchema {
                    method: $name,
                    doc: concat!($($doc),+),
                    stability: crate::table::Stability::$stability,
                    params: crate::message_schema::Part::for_type::<$params>(generator),
                    result: Some(crate::message_schema::Part::for_type::<$result>(generator)),
                },)+
            ]
        }
    };
}

/// Requests that the server sends. An entry has the form `Marker = "wire/name", Params -> Result,
/// Stable | Experimental;` and yields the marker for typed calls and a row of the table.
macro_rules! server_requests {
    ($(
        $(#[doc = $doc:literal])+
        $marker:ident = $name:literal, $params:ty => $result:ty, $stability:ident;
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub struct $marker;

            impl jsonrpc::Method for $marker {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
            }
        )+

        pub(crate) const SERVER_REQUESTS: &[crate::table::MessageInfo] = &[
            $(crate::table::MessageInfo {
                name: $name,
                stability: crate::table::Stability::$stability,
                retention: crate::table::Retention::Every,
            },)+
        ];

        pub(crate) fn server_request_schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::message_schema::MessageSchema> {
            vec![
                $(crate::message_schema::MessageSchema {
                    method: $name,
                    doc: concat!($($doc),+),
                    stability: crate::table::Stability::$stability,
                    params: crate::message_schema::Part::for_type::<$params>(generator),
                    result: Some(crate::message_schema::Part::for_type::<$result>(generator)),
                },)+
            ]
        }
    };
}

/// Notifications. An entry has the form `Marker = "wire/name", Params, Stable | Experimental;`,
/// with `, Newest` at its end if a newer one replaces an older one. The two names before the
/// entries are those of the table and of the function that lists the schemas.
macro_rules! notifications {
    ($table:ident, $schemas:ident; $(
        $(#[doc = $doc:literal])+
        $marker:ident = $name:literal, $params:ty, $stability:ident $(, $retention:ident)?;
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub struct $marker;

            impl jsonrpc::Notification for $marker {
                const NAME: &'static str = $name;
                type Params = $params;
            }
        )+

        pub(crate) const $table: &[crate::table::MessageInfo] = &[
            $(crate::table::MessageInfo {
                name: $name,
                stability: crate::table::Stability::$stability,
                retention: crate::table::retention!($($retention)?),
            },)+
        ];

        pub(crate) fn $schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::message_schema::MessageSchema> {
            vec![
                $(crate::message_schema::MessageSchema {
                    method: $name,
                    doc: concat!($($doc),+),
                    stability: crate::table::Stability::$stability,
                    params: crate::message_schema::Part::for_type::<$params>(generator),
                    result: None,
                },)+
            ]
        }
    };
}

#[cfg(test)]
pub(crate) use probe_handler;
pub(crate) use {call, handler, load, methods, notifications, retention, server_requests};
