//! The front matter of a skill: whatever the text, fields on lines of the file or an error; and what is
//! read of a text that the template made is what it was made from.

use skills::{Value, parse, template};

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(front) = parse(text) {
        assert!(text.get(front.body..).is_some());
        let lines = text.lines().count();
        let mut rest: Vec<_> = front.fields.iter().collect();
        while let Some(field) = rest.pop() {
            assert!((2..=lines).contains(&field.line), "{field:?}");
            if let Value::Map(fields) = &field.value {
                rest.extend(fields);
            }
        }
    }
    let front = parse(&template("a", text)).expect("a template");
    let words: Vec<&str> = text.split_whitespace().collect();
    let description = front.field("description").and_then(|field| field.value.text());
    assert_eq!(description, Some(&*words.join(" ")));
}
