//! Answers as values of a type: the schema that is sent for it, and the value out of the text.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// The schema of a type, as it reads answers.
#[derive(Clone, Debug)]
pub(crate) struct OutputType(Arc<Value>);

impl OutputType {
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let generator = SchemaSettings::draft2020_12().into_generator();
        Self(Arc::new(generator.into_root_schema_for::<T>().to_value()))
    }

    /// The schema that is sent: the strict one, or that of the type where a strict one would mean something else.
    pub(crate) fn sent(&self) -> Value {
        json_schema::typed::strict_form(&self.0).unwrap_or_else(|| (*self.0).clone())
    }
}

/// The value of an answer. An error is the path of the mistake, where it is inside of the answer, and a description.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    of: Option<&OutputType>,
) -> Result<T, (Option<String>, String)> {
    let not_json = |error: serde_json::Error| (None, format!("it is no JSON: {error}"));
    let raw = match of {
        None => serde_json::from_str::<Box<RawValue>>(text).map_err(not_json)?,
        Some(of) => {
            let answer: Value = serde_json::from_str(text).map_err(not_json)?;
            // A derived struct also decodes from an array.
            if of.0["type"] == "object" && !answer.is_object() {
                return Err((None, "it is not an object".to_owned()));
            }
            let value = json_schema::typed::without_nulls(&of.0, answer);
            RawValue::from_string(value.to_string()).map_err(not_json)?
        }
    };
    jsonrpc::read_result(&raw).map_err(|why| (why.path().map(str::to_owned), why.to_string()))
}
