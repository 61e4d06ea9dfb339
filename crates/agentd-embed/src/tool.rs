//! Functions of the embedding program that the model can call.

use std::fmt::Display;
use std::pin::Pin;

use protocol::{
    DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse,
    DynamicToolSpec, JsonText,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Running = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// A function that the model can call.
pub struct Tool {
    pub(crate) spec: DynamicToolSpec,
    run: Box<dyn Fn(JsonText) -> Running + Send + Sync>,
}

impl Tool {
    /// Creates a tool. `parameters` is the JSON Schema of the arguments, which are read as `A`. A result that is
    /// no text goes to the model as JSON; the model also gets errors, and those of arguments of another shape.
    ///
    /// ```
    /// use agentd_embed::Tool;
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct City {
    ///     city: String,
    /// }
    ///
    /// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    /// let weather = Tool::new("weather", "What the weather will be.", schema, |place: City| async move {
    ///     match place.city.as_str() {
    ///         "Vienna" => Ok(json!({ "weather": "sunny" })),
    ///         other => Err(format!("there is no weather in {other}")),
    ///     }
    /// });
    /// ```
    pub fn new<A, R, E, F, W>(name: &str, description: &str, parameters: Value, run: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Display,
        F: Fn(A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, E>> + Send + 'static,
    {
        let run = move |arguments: JsonText| -> Running {
            let running = serde_json::from_str(arguments.as_str()).map(&run);
            Box::pin(async move {
                let running = running.map_err(|error| format!("the arguments: {error}"))?;
                let result = running.await.map_err(|error| error.to_string())?;
                match serde_json::to_value(result).map_err(|error| error.to_string())? {
                    Value::String(text) => Ok(text),
                    value => Ok(value.to_string()),
                }
            })
        };
        Self {
            spec: DynamicToolSpec {
                namespace: None,
                namespace_description: None,
                name: name.to_owned(),
                description: description.to_owned(),
                input_schema: parameters.into(),
                defer_loading: false,
            },
            run: Box::new(run),
        }
    }

    pub(crate) async fn answer(&self, call: DynamicToolCallParams) -> DynamicToolCallResponse {
        let (text, success) = match (self.run)(call.arguments).await {
            Ok(text) => (text, true),
            Err(text) => (text, false),
        };
        let content_items = vec![DynamicToolCallOutputContentItem::InputText { text }];
        DynamicToolCallResponse { content_items, success }
    }
}
