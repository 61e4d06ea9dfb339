//! Model items that a client adds to a thread. They are checked for what the provider would refuse,
//! because a history that it refuses once fails every later turn.

use std::collections::BTreeSet;

use images::Bounds;
use protocol::response_item::{
    ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ResponseItem,
};
use serde::Deserialize;
use serde_json::Value;
use session::{Fragment, Mark};

use services::error::Error;
use services::image_reader::ImageReader;
use services::image_url;

/// Most items of one request.
const MAX_ITEMS: usize = 1000;

/// The items as parts of the history. Their images are prepared for the model.
///
/// # Errors
/// `-32602` naming the item and what is wrong with it.
pub(super) async fn fragments(
    member: &str,
    mut items: Vec<Value>,
    (images, bounds): (&ImageReader, Bounds),
) -> Result<Vec<Fragment>, Error> {
    let marks = check_all(member, &items)?;
    let mut fragments = Vec::with_capacity(items.len());
    for (at, (item, mark)) in items.iter_mut().zip(marks).enumerate() {
        let prepared = images.model_item(item, bounds).await;
        prepared.map_err(|error| error.within(&format!("`{member}[{at}]`")))?;
        fragments.push(Fragment {
            text: item.to_string().into(),
            mark,
            stored: None,
            is_waiting: false,
        });
    }
    Ok(fragments)
}

/// Returns the treatment of each of the items by a compaction.
///
/// # Errors
/// As [`fragments`].
fn check_all(member: &str, items: &[Value]) -> Result<Vec<Mark>, Error> {
    if items.is_empty() || items.len() > MAX_ITEMS {
        let message = format!("`{member}` must hold 1 to {MAX_ITEMS} items, not {}", items.len());
        return Err(Error::invalid_params(message));
    }
    let mut calls = BTreeSet::new();
    let mut marks = Vec::with_capacity(items.len());
    for (at, value) in items.iter().enumerate() {
        let bad = |error: Error| error.within(&format!("`{member}[{at}]`"));
        let item = ResponseItem::deserialize(value)
            .map_err(|error| bad(Error::invalid_params(error.to_string())))?;
        marks.push(check(&item, &mut calls).map_err(bad)?);
    }
    match calls.first() {
        Some(call) => Err(Error::invalid_params(format!(
            "`{member}`: the call `{call}` has no output among them"
        ))),
        None => Ok(marks),
    }
}

/// Returns the treatment of the item by a compaction.
///
/// # Errors
/// Why the provider would refuse it.
fn check(item: &ResponseItem, calls: &mut BTreeSet<String>) -> Result<Mark, Error> {
    match item {
        ResponseItem::Message { role, content, .. } => message(role, content),
        ResponseItem::Reasoning { encrypted_content, .. } => match encrypted_content {
            Some(_) => Ok(Mark::Summarized),
            None => Err(Error::invalid_params("`reasoning` needs its `encrypted_content`")),
        },
        ResponseItem::FunctionCall { call_id, .. }
        | ResponseItem::CustomToolCall { call_id, .. } => match calls.insert(call_id.clone()) {
            true => Ok(Mark::Summarized),
            false => Err(Error::invalid_params(format!("the call `{call_id}` is listed twice"))),
        },
        ResponseItem::FunctionCallOutput { call_id, output }
        | ResponseItem::CustomToolCallOutput { call_id, output, .. } => {
            if !calls.remove(call_id) {
                return Err(Error::invalid_params(format!(
                    "the output of `{call_id}` has no call before it"
                )));
            }
            output_images(output).try_for_each(image_url::check)?;
            Ok(Mark::Summarized)
        }
        _ => Err(Error::invalid_params("items of this type cannot be added")
            .next_step("add messages, reasoning, or calls with their outputs")),
    }
}

fn output_images(output: &FunctionCallOutputBody) -> impl Iterator<Item = &str> {
    let parts = match output {
        FunctionCallOutputBody::Text(_) => &[][..],
        FunctionCallOutputBody::Parts(parts) => parts,
    };
    parts.iter().filter_map(|part| match part {
        FunctionCallOutputContentItem::InputImage { image_url, .. } => Some(image_url.as_str()),
        FunctionCallOutputContentItem::InputText { .. } => None,
    })
}

fn message(role: &str, content: &[ContentItem]) -> Result<Mark, Error> {
    let said_by_model = role == "assistant";
    let mark = match role {
        "user" | "developer" | "system" => Mark::Pinned,
        "assistant" => Mark::Summarized,
        _ => {
            return Err(Error::invalid_params(format!(
                "the role is `{role}`, not `user`, `assistant`, `developer` or `system`"
            )));
        }
    };
    if content.is_empty() {
        return Err(Error::invalid_params("`content` must not be empty"));
    }
    for part in content {
        let is_output = matches!(part, ContentItem::OutputText { .. });
        if is_output != said_by_model {
            return Err(Error::invalid_params(format!(
                "a message of the role `{role}` has `{}` content",
                if said_by_model { "output_text" } else { "input_text` or `input_image" }
            )));
        }
        if let ContentItem::InputImage { image_url, .. } = part {
            image_url::check(image_url)?;
        }
    }
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_that_the_provider_would_refuse_are_refused() {
        let check = |items: Value, expected: &str| {
            let error = check_all("items", items.as_array().unwrap()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let said = |role: &str, kind: &str| json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": "x" }] });
        check(json!([]), "1 to 1000");
        check(json!([5]), "items[0]");
        check(json!([{ "type": "message", "role": "user" }]), "content");
        check(json!([said("user", "input_text"), said("wizard", "input_text")]), "items[1]");
        check(json!([said("user", "output_text")]), "input_text");
        check(json!([said("assistant", "input_text")]), "output_text");
        check(json!([{ "type": "message", "role": "user", "content": [] }]), "empty");
        check(json!([{ "type": "web_search_call" }]), "cannot be added");
        check(json!([{ "type": "from_the_future" }]), "cannot be added");
        let call = json!({ "type": "function_call", "name": "x", "arguments": "", "call_id": "a" });
        let output = json!({ "type": "function_call_output", "call_id": "a", "output": "" });
        check(json!([call]), "no output");
        check(json!([output]), "no call before it");
        let image = |url: &str| json!({ "type": "input_image", "image_url": url });
        let shown =
            json!({ "type": "message", "role": "user", "content": [image("file:///a.png")] });
        check(json!([shown]), "`file:`");
        let output =
            json!({ "type": "function_call_output", "call_id": "a", "output": [image("x")] });
        check(json!([call, output]), "items[1]");
        let output = json!({ "type": "function_call_output", "call_id": "a", "output": "" });
        check(json!([call, call]), "twice");
        let good = [call, output, said("user", "input_text"), said("assistant", "output_text")];
        let marks = check_all("items", &good).unwrap();
        assert_eq!(marks, [Mark::Summarized, Mark::Summarized, Mark::Pinned, Mark::Summarized]);
    }
}
