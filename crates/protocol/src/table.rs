//! What a table entry says of a message, and the macros that turn entries into markers, traits,
//! rows and decoders. The whole tables are put together in `registry`.

use crate::registry::Resource;

/// A row of [`crate::METHODS`]: a request that the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodInfo {
    /// The `method` member.
    pub name: &'static str,
    /// The file and the trait that it belongs to.
    pub resource: Resource,
    /// Whether it needs the `experimentalApi` capability.
    pub stability: Stability,
    /// How it is scheduled on its connection.
    pub ordering: Ordering,
    /// Members of `params` that need the `experimentalApi` capability.
    pub experimental_fields: &'static [&'static str],
}

/// A row of the other tables: a notification, or a request that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// The `method` member.
    pub name: &'static str,
    /// Whether it is only for connections with the `experimentalApi` capability.
    pub stability: Stability,
}

/// Whether a message is open to every connection (specification, "Versioning").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Open to every connection.
    Stable,
    /// Only with `capabilities.experimentalApi`.
    Experimental,
}

/// When a request is handled, relative to the others of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// In order of arrival, before the next one is looked at. Its handler must not wait for the
    /// outside world, or the connection waits with it.
    Ordered,
    /// Beside the others: it may take long.
    Concurrent,
    /// Beside the others, but the next one is looked at only once it has begun: what follows may
    /// speak of what it began.
    Begins,
}

/// Requests of the client, one resource a call. An entry reads
///
/// ```text
/// /// What it does.
/// Marker = "wire/name",
///     handler(Params) -> Result,
///     Stable | Experimental, Ordered | Concurrent, ["experimentalField", …];
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
            $stability:ident, $ordering:ident, [$($field:literal),* $(,)?];
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

        /// Handlers of this resource; `Cx` is what the server knows of the caller.
        pub trait $trait<Cx> {
            $(
                $(#[doc = $doc])+
                fn $handler(
                    &self,
                    cx: Cx,
                    params: $params,
                ) -> impl Future<Output = Result<$result, jsonrpc::ErrorObject>> + Send;
            )+
        }

        #[cfg(test)]
        impl<Cx: Send> $trait<Cx> for crate::dispatch::tests::Probe {
            $(
                async fn $handler(
                    &self,
                    _: Cx,
                    _: $params,
                ) -> Result<$result, jsonrpc::ErrorObject> {
                    Err(jsonrpc::ErrorObject::internal(concat!("reached ", $name)))
                }
            )+
        }

        pub(crate) const METHODS: &[crate::table::MethodInfo] = &[
            $(crate::table::MethodInfo {
                name: $name,
                resource: crate::registry::Resource::$resource,
                stability: crate::table::Stability::$stability,
                ordering: crate::table::Ordering::$ordering,
                experimental_fields: &[$($field),*],
            },)+
        ];

        pub(crate) fn dispatch<'a, S, Cx>(
            server: &'a S,
            cx: Cx,
            method: &str,
            params: Option<&serde_json::value::RawValue>,
        ) -> Result<crate::dispatch::Reply<'a>, jsonrpc::ErrorObject>
        where
            S: $trait<Cx>,
            Cx: 'a,
        {
            match method {
                $(
                    $name => {
                        let params: $params = jsonrpc::decode_params(params)?;
                        Ok(crate::dispatch::reply(server.$handler(cx, params)))
                    }
                )+
                _ => Err(jsonrpc::ErrorObject::method_not_found(method)),
            }
        }

        #[cfg(feature = "schema")]
        pub(crate) fn method_schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::generate::MessageSchema> {
            vec![
                $(crate::generate::MessageSchema {
                    method: $name,
                    doc: concat!($($doc),+),
                    stability: crate::table::Stability::$stability,
                    params: crate::generate::Part::of::<$params>(generator),
                    result: Some(crate::generate::Part::of::<$result>(generator)),
                },)+
            ]
        }
    };
}

/// Requests that the server sends. An entry reads `Marker = "wire/name", Params -> Result,
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
            },)+
        ];

        #[cfg(feature = "schema")]
        pub(crate) fn server_request_schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::generate::MessageSchema> {
            vec![
                $(crate::generate::MessageSchema {
                    method: $name,
                    doc: concat!($($doc),+),
                    stability: crate::table::Stability::$stability,
                    params: crate::generate::Part::of::<$params>(generator),
                    result: Some(crate::generate::Part::of::<$result>(generator)),
                },)+
            ]
        }
    };
}

/// Notifications. An entry reads `Marker = "wire/name", Params, Stable | Experimental;`; the two
/// names in front are those of the table and of the function that lists the schemas.
macro_rules! notifications {
    ($table:ident, $schemas:ident; $(
        $(#[doc = $doc:literal])+
        $marker:ident = $name:literal, $params:ty, $stability:ident;
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
            },)+
        ];

        #[cfg(feature = "schema")]
        pub(crate) fn $schemas(
            generator: &mut schemars::SchemaGenerator,
        ) -> Vec<crate::generate::MessageSchema> {
            vec![
                $(crate::generate::MessageSchema {
                    method: $name,
                    doc: concat!($($doc),+),
                    stability: crate::table::Stability::$stability,
                    params: crate::generate::Part::of::<$params>(generator),
                    result: None,
                },)+
            ]
        }
    };
}

pub(crate) use {methods, notifications, server_requests};
