//! Marks of the prompt cache in a Messages request, in the order of its prefix: tools, system, messages.

use serde_json::Value;

use super::fault::Path;

/// Calls `visit` with each part of the prefix in order; parts of a tool's result belong to their block.
pub(crate) fn parts<'v>(body: &'v Value, visit: &mut dyn FnMut(&Path, &'v Value)) {
    let mut list = |values: &'v Value, at: &Path| match values {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| visit(&at.index(index), value));
        }
        Value::Null => {}
        text => visit(at, text),
    };
    list(&body["tools"], &Path::of("tools"));
    list(&body["system"], &Path::of("system"));
    for (index, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        list(&message["content"], &Path::of("messages").index(index).name("content"));
    }
}

/// Calls `visit` with each mark, and the place of the part that has it. A mark inside of a tool's result counts as the
/// result's.
pub(crate) fn each<'v>(body: &'v Value, visit: &mut dyn FnMut(&Path, &'v Value)) {
    parts(body, &mut |at, part| {
        for (index, inner) in part["content"].as_array().into_iter().flatten().enumerate() {
            if inner["cache_control"].is_object() {
                visit(&at.name("content").index(index), &inner["cache_control"]);
            }
        }
        if part["cache_control"].is_object() {
            visit(at, &part["cache_control"]);
        }
    });
    // That of the request is put on the last block.
    if body["cache_control"].is_object() {
        visit(&Path::default(), &body["cache_control"]);
    }
}
