//! `request_user_input`: asks the user one to three short questions (specification: User input).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::port::question::{QuestionOption, UserQuestion};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

pub(super) const NAME: &str = "request_user_input";

/// Questions of one call (specification: Limits).
const MAX_QUESTIONS: usize = 3;
/// Options of a question.
const MAX_OPTIONS: usize = 20;
/// Characters of an id, a header or a label.
const MAX_NAME: usize = 200;
/// Characters of a question or a description.
const MAX_TEXT: usize = 4_000;

const QUESTION_MEMBERS: [&str; 8] =
    ["id", "header", "question", "options", "isOther", "is_other", "isSecret", "is_secret"];

pub(super) struct RequestUserInput;

#[derive(Debug)]
struct QuestionsCall {
    questions: Vec<UserQuestion>,
    arguments: Value,
}

impl Tool for RequestUserInput {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Asks the user one to three short questions and waits for the answers. \
             Use it when the task cannot continue well without a decision or a fact that only the \
             user has. The result says when no user answers.";
        let option = json!({
            "type": "object",
            "properties": {
                "label": { "type": "string", "description": "The answer, one to five words." },
                "description": { "type": "string", "description": "What choosing it means." },
            },
            "required": ["label", "description"],
            "additionalProperties": false,
        });
        let question = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "Names the answer, in snake_case." },
                "header": { "type": "string", "description": "A title of one to three words." },
                "question": { "type": "string", "description": "The question, one sentence." },
                "options": {
                    "type": "array",
                    "description": "Answers to choose from; without them the user types.",
                    "items": option,
                },
                "isOther": {
                    "type": "boolean",
                    "description": "Lets the user type an answer besides the options.",
                },
                "isSecret": {
                    "type": "boolean",
                    "description": "Hides what the user types, and keeps it out of the stored thread.",
                },
            },
            "required": ["id", "header", "question"],
            "additionalProperties": false,
        });
        let properties = json!({ "questions": { "type": "array", "items": question } });
        let definition = || function(NAME, description, &["questions"], &properties);
        self.is_callable(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.user_input
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut members = Arguments::read(NAME, arguments)?;
        members.check_names(&["questions"])?;
        let questions = members.objects("questions")?;
        if questions.is_empty() || questions.len() > MAX_QUESTIONS {
            let count = questions.len();
            return Err(wrong(&format!(
                "`questions` has {count}; ask one to {MAX_QUESTIONS} questions in a call"
            )));
        }
        let questions: Vec<UserQuestion> =
            questions.into_iter().map(question).collect::<Result<_, _>>()?;
        let ids: BTreeSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
        if ids.len() < questions.len() {
            return Err(wrong("two questions have the same `id`; give each its own"));
        }
        let arguments = json!({ "questions": shown(&questions) });
        Ok(Box::new(QuestionsCall { questions, arguments }))
    }
}

fn question(mut members: Arguments<'_>) -> Result<UserQuestion, ToolError> {
    members.check_names_in("questions", &QUESTION_MEMBERS)?;
    let id = bounded("id", members.needed_text("id", "a name for the answer")?, MAX_NAME)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !id.chars().all(plain) {
        return Err(wrong("`id` consists of letters, digits, `_`, `-` and `.`"));
    }
    let header = members.text("header")?.unwrap_or_default();
    let header = if header.trim().is_empty() { id.clone() } else { header };
    let text = members.needed_text("question", "the question")?;
    let mut options = Vec::new();
    for option in members.optional_objects("options")? {
        options.push(self::option(option)?);
    }
    if options.len() > MAX_OPTIONS {
        return Err(wrong(&format!("`options` has more than {MAX_OPTIONS} entries")));
    }
    let labels: BTreeSet<&str> = options.iter().map(|option| option.label.as_str()).collect();
    if labels.len() < options.len() {
        return Err(wrong("two options of a question have the same `label`"));
    }
    Ok(UserQuestion {
        id,
        header: bounded("header", header, MAX_NAME)?,
        question: bounded("question", text, MAX_TEXT)?,
        options,
        is_other: members.flag("isOther")? || members.flag("is_other")?,
        is_secret: members.flag("isSecret")? || members.flag("is_secret")?,
    })
}

fn option(mut members: Arguments<'_>) -> Result<QuestionOption, ToolError> {
    members.check_names_in("options", &["label", "description"])?;
    let label = members.needed_text("label", "the answer")?;
    let description = members.text("description")?.unwrap_or_default();
    if description.chars().count() > MAX_TEXT {
        return Err(too_long("description", MAX_TEXT));
    }
    Ok(QuestionOption { label: bounded("label", label, MAX_NAME)?, description })
}

/// A text with at least one visible character, within its bound.
fn bounded(member: &str, text: String, max: usize) -> Result<String, ToolError> {
    if text.trim().is_empty() {
        return Err(wrong(&format!("`{member}` is empty")));
    }
    if text.chars().count() > max {
        return Err(too_long(member, max));
    }
    Ok(text)
}

fn too_long(member: &str, max: usize) -> ToolError {
    wrong(&format!("`{member}` is longer than {max} characters; be brief"))
}

fn wrong(what: &str) -> ToolError {
    ToolError::new(format!("{NAME}: {what}"))
}

/// The questions as the item shows them.
fn shown(questions: &[UserQuestion]) -> Vec<Value> {
    let option = |option: &QuestionOption| json!({ "label": option.label, "description": option.description });
    let question = |question: &UserQuestion| {
        json!({
            "id": question.id,
            "header": question.header,
            "question": question.question,
            "options": question.options.iter().map(option).collect::<Vec<_>>(),
            "isOther": question.is_other,
            "isSecret": question.is_secret,
        })
    };
    questions.iter().map(question).collect()
}

impl ToolCall for QuestionsCall {
    /// Asks under every approval policy: a question is no approval. Where no client can answer, the driver
    /// answers at once.
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        let (questions, arguments) = (self.questions.clone().into(), self.arguments.to_string());
        Step::AskUser { tool: NAME, questions, arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &Value) -> Result<Box<dyn ToolCall>, ToolError> {
        RequestUserInput.read(&arguments.to_string())
    }

    fn error(arguments: &Value) -> String {
        read(arguments).unwrap_err().into_message()
    }

    fn one(changes: &Value) -> Value {
        let mut question = json!({ "id": "db", "header": "Database", "question": "Which one?" });
        for (member, value) in changes.as_object().unwrap() {
            question[member] = value.clone();
        }
        json!({ "questions": [question] })
    }

    #[test]
    fn questions_that_fit_are_read() {
        for arguments in [
            one(&json!({})),
            one(&json!({ "header": null, "options": null, "isOther": "true" })),
            one(&json!({ "options": [] })),
            one(&json!({ "options": [{ "label": "a", "description": "b" }, { "label": "b" }] })),
            json!({ "questions": one(&json!({}))["questions"].to_string() }),
        ] {
            assert!(read(&arguments).is_ok(), "{arguments}");
        }
        let call = read(&one(&json!({ "is_other": true, "isSecret": true }))).unwrap();
        let shown = format!("{call:?}");
        assert!(shown.contains("is_other: true") && shown.contains("is_secret: true"), "{shown}");
    }

    #[test]
    fn errors_name_the_correction() {
        let twin = one(&json!({}))["questions"][0].clone();
        let options = |labels: &[&str]| {
            let option = |label: &&str| json!({ "label": label, "description": "" });
            one(&json!({ "options": labels.iter().map(option).collect::<Vec<_>>() }))
        };
        for (arguments, expected) in [
            (json!({}), "`questions` is missing"),
            (json!({ "questions": [] }), "`questions` has 0; ask one to 3"),
            (json!({ "questions": vec![twin.clone(); 4] }), "`questions` has 4"),
            (json!({ "questions": [twin.clone(), twin] }), "the same `id`"),
            (json!({ "questions": ["x"] }), "a list of objects"),
            (one(&json!({ "id": " " })), "`id` is empty"),
            (one(&json!({ "id": "a b" })), "letters, digits"),
            (one(&json!({ "id": null })), "`id` is missing"),
            (one(&json!({ "question": "x".repeat(4_001) })), "longer than 4000"),
            (one(&json!({ "header": "x".repeat(201) })), "longer than 200"),
            (options(&["a", "a"]), "the same `label`"),
            (options(&[""]), "`label` is empty"),
            (one(&json!({ "options": 5 })), "a list of objects"),
            (one(&json!({ "isOther": "maybe" })), "true or false"),
            (json!({ "question": [], "questions": [] }), "there is no member `\"question\"`"),
            (
                one(&json!({ "zork": null })),
                "`questions` has no member `\"zork\"`; its members are id",
            ),
            (
                one(&json!({ "options": [{ "label": "a", "description": "b", "value": 1 }] })),
                "`options` has no member `\"value\"`; its members are label, description",
            ),
            (options(&(0..21).map(|_| "x").collect::<Vec<_>>()), "more than 20"),
        ] {
            let message = error(&arguments);
            assert!(message.starts_with("request_user_input: "), "{message}");
            assert!(message.contains(expected), "{expected} in {message}");
        }
    }
}
