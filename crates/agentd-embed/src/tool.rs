//! Functions of the embedding program that the model can call.

use std::any::Any;
use std::fmt;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;

use protocol::{DynamicToolSpec, JsonText};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{CallContext, CallbackError, blocking};

type Running = Pin<Box<dyn Future<Output = Result<String, Failure>> + Send>>;

/// The end of a call without a result.
pub(crate) enum Failure {
    /// The model reads it.
    ForTheModel(String),
    Other(CallbackError),
}

/// An error of a tool that the model reads. Every other one stays with the application, unless
/// [`crate::AgentBuilder::send_tool_errors`] is set.
///
/// ```
/// use agentd_embed::ToolError;
///
/// fn order(number: u32) -> Result<String, ToolError> {
///     Err(ToolError::new(format!("there is no order {number}")))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ToolError {}

/// A function that the model can call.
pub struct Tool {
    pub(crate) spec: DynamicToolSpec,
    run: Box<dyn Fn(JsonText, CallContext) -> Running + Send + Sync>,
}

impl Tool {
    /// Creates a tool. `parameters` is the JSON Schema of the arguments, which are read as `A`. A result that is
    /// no text goes to the model as JSON; the model also gets the mistakes in its arguments, and a [`ToolError`].
    ///
    /// ```
    /// use agentd_embed::{Tool, ToolError};
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
    ///         other => Err(ToolError::new(format!("there is no weather in {other}"))),
    ///     }
    /// });
    /// ```
    pub fn new<A, R, E, F, W>(name: &str, description: &str, parameters: Value, run: F) -> Self
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        E: Display + 'static,
        F: Fn(A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, E>> + Send + 'static,
    {
        Self::in_context(name, description, parameters, move |arguments, _| run(arguments))
    }

    /// As [`Tool::new`], for a function that learns whom it is called for.
    pub fn in_context<A, R, E, F, W>(
        name: &str,
        description: &str,
        parameters: Value,
        run: F,
    ) -> Self
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        E: Display + 'static,
        F: Fn(A, CallContext) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, E>> + Send + 'static,
    {
        let run = move |arguments: JsonText, context: CallContext| -> Running {
            let running = read(&arguments).map(|arguments| run(arguments, context));
            Box::pin(async move { text_of(running?.await) })
        };
        Self { spec: spec(name, description, parameters), run: Box::new(run) }
    }

    /// As [`Tool::in_context`], for a function that blocks: each call has a thread of its own. It should end when
    /// [`CallContext::is_cancelled`] says that its turn has.
    pub fn blocking<A, R, E, F>(name: &str, description: &str, parameters: Value, run: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize + 'static,
        E: Display + 'static,
        F: Fn(A, CallContext) -> Result<R, E> + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        let run = move |arguments: JsonText, context: CallContext| -> Running {
            let (arguments, run) = (read::<A>(&arguments), run.clone());
            Box::pin(async move {
                let arguments = arguments?;
                let work = move |context| text_of(run(arguments, context));
                blocking::run(context, work).await.map_err(Failure::Other)?
            })
        };
        Self { spec: spec(name, description, parameters), run: Box::new(run) }
    }

    pub(crate) async fn call(
        &self,
        arguments: JsonText,
        context: CallContext,
    ) -> Result<String, Failure> {
        (self.run)(arguments, context).await
    }
}

fn spec(name: &str, description: &str, parameters: Value) -> DynamicToolSpec {
    DynamicToolSpec {
        namespace: None,
        namespace_description: None,
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: parameters.into(),
        defer_loading: false,
    }
}

/// A mistake is the model's, which can mend it.
fn read<A: DeserializeOwned>(arguments: &JsonText) -> Result<A, Failure> {
    serde_json::from_str(arguments.as_str())
        .map_err(|error| Failure::ForTheModel(format!("the arguments: {error}")))
}

fn text_of<R: Serialize, E: Display + 'static>(result: Result<R, E>) -> Result<String, Failure> {
    let result = result.map_err(|error| {
        let text = error.to_string();
        match (&error as &dyn Any).is::<ToolError>() {
            true => Failure::ForTheModel(text),
            false => Failure::Other(CallbackError::Failed(text)),
        }
    })?;
    match serde_json::to_value(result) {
        Ok(Value::String(text)) => Ok(text),
        Ok(value) => Ok(value.to_string()),
        Err(error) => Err(Failure::Other(CallbackError::Failed(format!(
            "the result has no JSON form: {error}"
        )))),
    }
}
