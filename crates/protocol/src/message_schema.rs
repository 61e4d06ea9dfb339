//! The schemas of one message of the tables. `generate` joins them with their definitions.

mod error;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::table::Stability;

pub use error::{SchemaError, SchemaErrorKind};

/// A message of the tables, with references to the definitions.
pub(crate) struct MessageSchema {
    pub(crate) method: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) stability: Stability,
    pub(crate) params: Part,
    pub(crate) result: Option<Part>,
}

/// The parameters or the result of a message.
pub(crate) struct Part {
    /// Refers to the definitions.
    pub(crate) schema: Value,
    pub(crate) recode: fn(&str) -> Result<Value, SchemaError>,
}

impl Part {
    pub(crate) fn for_type<T>(generator: &mut schemars::SchemaGenerator) -> Self
    where
        T: schemars::JsonSchema + Serialize + DeserializeOwned,
    {
        Self {
            schema: generator.subschema_for::<T>().to_value(),
            // Decodes as the server does, including names in another case style.
            recode: |json| {
                let raw = RawValue::from_string(json.to_owned()).map_err(SchemaError::decode)?;
                let value = jsonrpc::read_result::<T>(&raw).map_err(SchemaError::decode)?;
                serde_json::to_value(value).map_err(SchemaError::decode)
            },
        }
    }
}
