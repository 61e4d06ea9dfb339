//! Answers as values of a type: the schema that is sent, and answers that do not fit.

use std::collections::HashMap;

use agentd_embed::schemars::{self, JsonSchema};
use agentd_embed::{Error, Thread, TurnOptions};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fake::{Fake, begun, turn};

/// A plan.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Plan {
    title: String,
    /// In the order of the work.
    steps: Vec<Step>,
    /// Of the whole.
    first_step: Step,
    owner: Option<String>,
    #[serde(default = "one")]
    priority: u32,
    effort: Option<Effort>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Step {
    text: String,
    days: u8,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Effort {
    Low,
    /// More than a week.
    High,
    Other {
        name: String,
        #[serde(default)]
        days: i64,
    },
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Counts {
    of: HashMap<String, u32>,
}

/// Runs a turn for a value of a type, whose answer is this text, and returns the schema that was sent.
async fn answered<T: JsonSchema + DeserializeOwned>(answer: &str) -> (Value, Result<T, Error>) {
    let (thread, mut fake) = idle().await;
    let (result, sent) = tokio::join!(thread.run_as::<T>("Plan it"), serve(&mut fake, answer));
    (sent, result.map(|result| result.output))
}

async fn idle() -> (Thread, Fake) {
    let (agent, first, mut fake) = turn().await;
    let thread = first.thread().clone();
    fake.end("e.1", "completed").await;
    // The agent goes on as long as the test does.
    std::mem::forget(agent);
    (thread, fake)
}

async fn serve(fake: &mut Fake, answer: &str) -> Value {
    let request = fake.receive().await;
    fake.write(&json!({ "id": request["id"], "result": begun("u") }).to_string()).await;
    fake.delta("e.2", answer).await;
    fake.end("e.3", "completed").await;
    request["params"]["outputSchema"].clone()
}

#[tokio::test]
async fn the_schema_of_a_type_is_strict_with_its_members_in_order() {
    let answer = json!({
        "title": "Move", "steps": [{ "text": "Pack", "days": 2 }], "firstStep": { "text": "Pack", "days": 2 },
        "owner": null, "priority": null, "effort": { "other": { "name": "much", "days": null } },
    });
    let (schema, plan) = answered::<Plan>(&answer.to_string()).await;
    let names = ["title", "steps", "firstStep", "owner", "priority", "effort"];
    assert_eq!(schema["required"], json!(names));
    assert_eq!(schema["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), names);
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["$defs"]["Step"]["required"], json!(["text", "days"]));
    assert_eq!(schema["$defs"]["Step"]["additionalProperties"], false);
    assert_eq!(schema["properties"]["owner"]["type"], json!(["string", "null"]));
    assert_eq!(schema["properties"]["steps"]["description"], "In the order of the work.");
    assert_eq!(json_schema::strict::violation(&schema), None);
    let step = || Step { text: "Pack".to_owned(), days: 2 };
    let expected = Plan {
        title: "Move".to_owned(),
        steps: vec![step()],
        first_step: step(),
        owner: None,
        priority: 1,
        effort: Some(Effort::Other { name: "much".to_owned(), days: 0 }),
    };
    assert_eq!(plan.unwrap(), expected);
}

#[tokio::test]
async fn a_type_with_free_keys_is_sent_as_it_is() {
    let (schema, counts) = answered::<Counts>(r#"{"of":{"a":1}}"#).await;
    assert_eq!(schema["properties"]["of"]["additionalProperties"]["type"], "integer");
    assert_eq!(schema.get("additionalProperties"), None);
    assert_eq!(counts.unwrap().of["a"], 1);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_names_the_place() {
    let step = r#"{"text":"Pack","days":2}"#;
    let plan = |steps: &str| format!(r#"{{"title":"Move","steps":{steps},"firstStep":{step}}}"#);
    for (answer, path, why) in [
        (
            plan(&format!(r#"[{step},{{"text":"Go","days":"two"}}]"#)),
            Some("steps[1].days"),
            "`steps[1].days`: invalid type: string \"two\", expected a whole number",
        ),
        (
            plan(r#"[{"text":"Go","days":300}]"#),
            Some("steps[0].days"),
            "expected a whole number from 0 to 255",
        ),
        (plan(r#"[{"days":3}]"#), Some("steps[0]"), "missing field `text`"),
        (
            r#"{"title":null}"#.to_owned(),
            Some("title"),
            "`title`: invalid type: null, expected a string",
        ),
        ("[]".to_owned(), None, "it is not an object"),
        ("{}".to_owned(), None, "missing field `title`"),
        ("no JSON".to_owned(), None, "it is no JSON: "),
        (format!("{} and more", plan("[]")), None, "it is no JSON: trailing characters"),
        (String::new(), None, "it is no JSON: "),
    ] {
        match answered::<Plan>(&answer).await.1 {
            Err(error @ Error::InvalidOutput { .. }) => {
                let message = error.to_string();
                assert!(
                    message.starts_with("the answer does not have the wanted shape: "),
                    "{message}"
                );
                assert!(message.contains(why), "{answer}: {message}");
                assert_eq!(error.progress().unwrap().text, answer);
                let Error::InvalidOutput { path: found, text, .. } = error else { panic!() };
                assert_eq!((found.as_deref(), text), (path, answer));
            }
            other => panic!("{answer}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_schema_of_the_program_is_sent_as_it_is() {
    let (thread, mut fake) = idle().await;
    let schema = json!({ "type": "object", "properties": { "b": { "minLength": 1 } } });
    let options = TurnOptions::new("Plan it").output_schema(schema.clone());
    let (result, sent) =
        tokio::join!(thread.run_with(options), serve(&mut fake, r#"{"text":"Pack","days":2}"#));
    assert_eq!(sent, schema);
    assert_eq!(result.unwrap().output::<Step>().unwrap().days, 2);
}
