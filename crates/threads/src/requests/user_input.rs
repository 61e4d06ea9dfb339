//! Reads the user's answers to the model's questions: each must fit its question (specification:
//! User input).

use protocol::tool::{
    ToolRequestUserInputOption, ToolRequestUserInputParams, ToolRequestUserInputQuestion,
    ToolRequestUserInputResponse,
};
use session::{Id, UserAnswers, UserQuestion};

use services::error::Error;

/// Longest answer, in characters.
const MAX_ANSWER: usize = 65_536;
/// Questions that the error about an unknown id names are quoted up to this length.
const QUOTED_ID: usize = 80;

/// The request as clients get it, with invisible characters escaped.
pub(crate) fn params(
    thread: &Id,
    turn: &Id,
    item: &Id,
    questions: &[UserQuestion],
) -> ToolRequestUserInputParams {
    ToolRequestUserInputParams {
        thread_id: thread.to_string(),
        turn_id: turn.to_string(),
        item_id: item.to_string(),
        questions: questions.iter().map(wire_question).collect(),
    }
}

fn wire_question(question: &UserQuestion) -> ToolRequestUserInputQuestion {
    let option = |option: &session::QuestionOption| ToolRequestUserInputOption {
        label: shown(&option.label),
        description: shown(&option.description),
    };
    ToolRequestUserInputQuestion {
        id: question.id.clone(),
        header: shown(&question.header),
        question: shown(&question.question),
        is_other: question.is_other,
        is_secret: question.is_secret,
        options: (!question.options.is_empty())
            .then(|| question.options.iter().map(option).collect()),
    }
}

fn shown(text: &str) -> String {
    visible::text(text).into_owned()
}

/// The answers, checked. A question without an answer was skipped.
///
/// # Errors
/// `-32602` naming the question and what does not fit. Answers are not quoted: they may be secret.
pub(super) fn answers(
    response: ToolRequestUserInputResponse,
    questions: &[UserQuestion],
) -> Result<UserAnswers, Error> {
    let mut checked = UserAnswers::new();
    for (id, answer) in response.answers {
        let Some(question) = questions.iter().find(|question| question.id == id) else {
            let asked: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
            let id: String = id.chars().take(QUOTED_ID).collect();
            return Err(Error::invalid_params(format!(
                "there is no question `{}`; the questions are `{}`",
                shown(&id),
                asked.join("`, `")
            )));
        };
        checked.insert(id, fitting(question, answer.answers)?);
    }
    Ok(checked)
}

/// The answers to one question: options by their labels, each once, and at most one free text.
fn fitting(question: &UserQuestion, given: Vec<String>) -> Result<Vec<String>, Error> {
    let wrong = |what: &str| {
        Error::invalid_params(format!("the answer to question `{}` {what}", question.id))
    };
    let takes_text = question.is_other || question.options.is_empty();
    let (mut answers, mut texts) = (Vec::with_capacity(given.len().min(32)), 0);
    for answer in given {
        if answer.chars().count() > MAX_ANSWER {
            return Err(wrong(&format!("is longer than {MAX_ANSWER} characters")));
        }
        let option = question.options.iter().find(|option| shown(&option.label) == answer);
        let answer = match option {
            Some(option) if answers.contains(&option.label) => {
                return Err(wrong("names an option twice"));
            }
            Some(option) => option.label.clone(),
            None if !takes_text => {
                return Err(wrong(
                    "is not one of its options, and the question accepts no other answer (`isOther`)",
                ));
            }
            None if texts > 0 => return Err(wrong("has more than one text of the user's own")),
            None => {
                texts += 1;
                answer
            }
        };
        answers.push(answer);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::tool::ToolRequestUserInputAnswer;
    use session::QuestionOption;

    use super::*;

    fn question(id: &str, labels: &[&str], is_other: bool) -> UserQuestion {
        let option = |label: &&str| QuestionOption {
            label: (*label).to_owned(),
            description: String::new(),
        };
        UserQuestion {
            id: id.to_owned(),
            header: "h".to_owned(),
            question: "q".to_owned(),
            options: labels.iter().map(option).collect(),
            is_other,
            is_secret: false,
        }
    }

    fn check(given: &[(&str, &[&str])], expected: Result<(), &str>) {
        let questions = [
            question("choice", &["a", "b\u{202e}"], false),
            question("other", &["a", "b"], true),
            question("text", &[], false),
        ];
        let answer = |texts: &[&str]| ToolRequestUserInputAnswer {
            answers: texts.iter().map(|text| (*text).to_owned()).collect(),
        };
        let answers: BTreeMap<_, _> =
            given.iter().map(|(id, texts)| ((*id).to_owned(), answer(texts))).collect();
        let read = super::answers(ToolRequestUserInputResponse { answers }, &questions);
        match (read, expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) if error.to_string().contains(part) => {}
            (read, expected) => panic!("{given:?}: {read:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn answers_fit_their_questions() {
        check(&[], Ok(()));
        check(&[("choice", &[])], Ok(()));
        check(&[("choice", &["a"]), ("text", &["anything"])], Ok(()));
        check(&[("choice", &["a", "b\\u{202e}"])], Ok(()));
        check(&[("other", &["a", "b", "and more"])], Ok(()));
        check(&[("choice", &["b\u{202e}"])], Err("is not one of its options"));
        check(&[("choice", &["c"])], Err("`choice` is not one of its options"));
        check(&[("choice", &["a", "a"])], Err("names an option twice"));
        check(&[("other", &["x", "y"])], Err("more than one text"));
        check(&[("text", &["x", "y"])], Err("more than one text"));
        check(&[("nope", &["x"])], Err("no question `nope`; the questions are `choice`, `other`"));
        check(&[("text", &[&"x".repeat(MAX_ANSWER)])], Ok(()));
        check(&[("text", &[&"x".repeat(MAX_ANSWER + 1)])], Err("longer than 65536 characters"));
    }
}
