//! Images in requests to the model: notes take the place of those that it cannot see, and of those
//! for which a request has no room. The history keeps all of them.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::said;
use crate::port::prompt::{Prompt, generated_image_bytes};

/// Stands for an image in the requests to a model that takes text only.
const UNSEEN: &str = "[an image, which this model cannot see]";
/// Stands for an image for which a request has no room.
const NO_ROOM: &str = "[an image, left out because the images of this conversation are larger than a \
                       request may be; look at it again if you need it]";
const IMAGE: &str = "input_image";

impl Prompt {
    /// Replaces images by a note, for a model that takes text only.
    pub fn leave_out_images(&mut self) {
        self.input.replace(|_, item| with_notes(item, UNSEEN, |_| true));
    }

    /// Replaces images by a note where those of the request have more than `limit` bytes: first the
    /// oldest of tools and of the provider, then the oldest of users.
    ///
    /// Which ones follows from the items up to the one that exceeds the bound, and brings the images
    /// down to half of it: a longer history leaves out the same ones until it exceeds the bound
    /// again. So the provider's prompt cache is lost once for many images.
    pub fn bound_images(&mut self, limit: usize) {
        let bytes: usize = self.input.iter().map(|item| item.len()).sum();
        if bytes <= limit {
            return;
        }
        let left_out = without_room(&self.input, limit);
        if !left_out.is_empty() {
            let is_left_out = |item, part| left_out.contains(&(item, part));
            self.input.replace(|at, item| {
                let is_concerned = left_out.range((at, 0)..=(at, usize::MAX)).next().is_some();
                is_concerned.then(|| with_notes(item, NO_ROOM, |part| is_left_out(at, part)))?
            });
        }
    }
}

/// Positions among the kinds of images.
const TOOLS: usize = 0;
const USERS: usize = 1;

/// An image of a request.
struct Image {
    item: usize,
    /// Its position among the parts of the item.
    part: usize,
    bytes: usize,
}

/// The images, as positions of item and part, that must go so that the others have at most `limit`
/// bytes.
fn without_room(items: &[Arc<str>], limit: usize) -> BTreeSet<(usize, usize)> {
    let mut left_out = BTreeSet::new();
    let mut queues: [VecDeque<Image>; 2] = Default::default();
    let mut total = 0;
    for (at, item) in items.iter().enumerate() {
        let Some((is_of_user, images)) = images(at, item) else { continue };
        total += images.iter().map(|image| image.bytes).sum::<usize>();
        queues[if is_of_user { USERS } else { TOOLS }].extend(images);
        // The images of this item are needed now: older ones go first, and make more room.
        for (kind, goal, before) in [
            (TOOLS, limit / 2, at),
            (TOOLS, limit, usize::MAX),
            (USERS, limit / 2, at),
            (USERS, limit, usize::MAX),
        ] {
            if total <= limit {
                break;
            }
            while total > goal
                && let Some(image) = queues[kind].pop_front_if(|image| image.item < before)
            {
                total -= image.bytes;
                left_out.insert((image.item, image.part));
            }
        }
    }
    left_out
}

/// The images of an item, if it has any, and whether they are of a user.
fn images(at: usize, item: &str) -> Option<(bool, Vec<Image>)> {
    #[derive(Deserialize)]
    struct Lists<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        output: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        image_url: Option<&'a RawValue>,
    }
    if let Some(bytes) = generated_image_bytes(item) {
        return Some((false, vec![Image { item: at, part: 0, bytes }]));
    }
    if !item.contains(IMAGE) {
        return None;
    }
    let lists: Lists<'_> = serde_json::from_str(item).ok()?;
    let list = lists.content.or(lists.output)?;
    // The content of a message may be a text.
    let parts: Vec<Part<'_>> = serde_json::from_str(list.get()).ok()?;
    let images = parts.iter().enumerate().filter(|(_, part)| part.kind == IMAGE);
    let images = images.map(|(part, image)| {
        let bytes = image.image_url.map_or(0, |url| url.get().len());
        Image { item: at, part, bytes }
    });
    let images: Vec<Image> = images.collect();
    (!images.is_empty()).then_some((lists.content.is_some(), images))
}

/// The item with notes in place of the images at the positions that `is_replaced` names; `None` when
/// it has none of them.
fn with_notes(item: &str, note: &str, is_replaced: impl Fn(usize) -> bool) -> Option<Arc<str>> {
    if generated_image_bytes(item).is_some() {
        return is_replaced(0).then(|| said(note));
    }
    if !item.contains(IMAGE) {
        return None;
    }
    let mut item: Value = serde_json::from_str(item).ok()?;
    let mut is_changed = false;
    for list in ["content", "output"] {
        let parts = item.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (at, part) in parts.enumerate() {
            if part.get("type").and_then(Value::as_str) == Some(IMAGE) && is_replaced(at) {
                *part = json!({ "type": "input_text", "text": note });
                is_changed = true;
            }
        }
    }
    is_changed.then(|| item.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{self, CallKind, CallOutput};
    use crate::port::item::UserContent;
    use crate::port::prompt::weight;

    fn url(bytes: usize) -> String {
        format!("data:image/png;base64,{}", "A".repeat(bytes - 24))
    }

    fn viewed(bytes: usize) -> Arc<str> {
        let output = CallOutput::Image { data_url: url(bytes) };
        history::call_output("c", &CallKind::Function, &output).text
    }

    fn sent(sizes: &[usize]) -> Arc<str> {
        let images = sizes.iter().map(|bytes| UserContent::Image { url: url(*bytes) });
        history::user_message(&images.collect::<Vec<_>>(), |_, _| String::new()).text
    }

    fn generated(bytes: usize) -> Arc<str> {
        let result = "A".repeat(bytes - 2);
        json!({ "type": "image_generation_call", "id": "i", "result": result }).to_string().into()
    }

    fn left_out(items: &[Arc<str>], limit: usize) -> Vec<(usize, usize)> {
        without_room(items, limit).into_iter().collect()
    }

    #[test]
    fn images_of_tools_go_before_those_of_users_and_the_oldest_first() {
        let check = |items: &[Arc<str>], expect: &[(usize, usize)]| {
            assert_eq!(left_out(items, 1000), expect, "{items:?}");
        };
        check(&[sent(&[500]), viewed(500)], &[]);
        check(&[sent(&[300]), viewed(300), viewed(300), viewed(300)], &[(1, 0), (2, 0)]);
        check(&[sent(&[300]), viewed(400), generated(400)], &[(1, 0)]);
        check(&[generated(600), sent(&[600])], &[(0, 0)]);
        // Older ones of users go when tools have none; those of the newest message stay.
        check(&[sent(&[300, 300]), sent(&[500, 500])], &[(0, 0), (0, 1)]);
        check(&[viewed(200), sent(&[500, 500])], &[(0, 0)]);
        // The users' leave no room for a new one of a tool.
        check(&[sent(&[450, 450]), viewed(200)], &[(1, 0)]);
        check(&[sent(&[1100])], &[(0, 0)]);
    }

    #[test]
    fn a_growing_history_changes_what_it_leaves_out_seldom() {
        let mut items = vec![sent(&[100])];
        let mut changes = 0;
        let mut before = Vec::new();
        for _ in 0..200 {
            items.push(viewed(100));
            let now = left_out(&items, 2000);
            assert!(now.starts_with(&before), "what was left out stays so");
            changes += usize::from(now != before);
            before = now;
        }
        assert_eq!(changes, 17, "once for each half of the bound");
        assert!(100 * (items.len() - before.len()) <= 2000);
    }

    #[test]
    fn notes_replace_exactly_the_images_that_are_left_out() {
        let text = r#"{"type":"message","role":"user","content":"an input_image, in words"}"#;
        let items = vec![sent(&[30_000]), viewed(40_000), text.into(), generated(40_000)];
        let input = crate::PromptInput::new(items.clone());
        let mut prompt = Prompt {
            provider: String::new(),
            model: String::new(),
            instructions: "".into(),
            input,
            tools: "[]".into(),
            effort: None,
            summary: None,
            verbosity: None,
            output_schema: None,
            service_tier: None,
            reasoning_member: false,
            left_out: Vec::new(),
        };
        let whole = prompt.weight();
        assert!(whole < 3 * 4500, "an image is an image, generated or not: {whole}");
        prompt.bound_images(80_000);
        assert_eq!(
            [&prompt.input[0], &prompt.input[2], &prompt.input[3]],
            [&items[0], &items[2], &items[3]]
        );
        assert!(prompt.input[1].contains("look at it again"), "{}", prompt.input[1]);
        let weights: usize = prompt.input.iter().map(|item| weight(item)).sum();
        assert_eq!(prompt.weight(), weights + 2);
        prompt.leave_out_images();
        assert_eq!(&*prompt.input[2], text);
        assert!(!prompt.input.iter().any(|item| item.contains("AAAA")));
        assert_eq!(*prompt.input[3], *said(UNSEEN));
    }
}
