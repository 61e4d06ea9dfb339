//! Chips: pasted text, images, files and skills, each one element for the cursor and for deletion.
//!
//! In the buffer a chip is one character of the last private plane of Unicode. Such a character in the
//! user's own text becomes a chip itself, so that no text is lost or mistaken.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The characters that stand for chips.
const FIRST: u32 = 0x10_0000;
const COUNT: u32 = 0xfffe;

/// The kind of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ChipKind {
    /// Long text that was pasted; it is sent in full.
    Pasted,
    /// An image file.
    Image {
        /// Where the file is.
        path: String,
    },
    /// A file or another resource that was chosen with `@`.
    Mention {
        /// Its name.
        name: String,
        /// Where it is.
        path: String,
    },
    /// A skill that was chosen with `$`.
    Skill {
        /// Its name.
        name: String,
        /// Its definition file.
        path: String,
    },
    /// A character of the user's that stands for chips otherwise.
    Character,
}

/// A chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chip {
    pub(super) kind: ChipKind,
    /// The displayed text.
    pub(super) label: String,
    /// The text to send.
    pub(super) text: String,
}

impl Chip {
    /// Pasted text, the `number`th of the draft.
    pub(super) fn pasted(number: usize, text: String) -> Self {
        let lines = text.lines().count();
        let size = match lines {
            0 | 1 => format!("{} characters", text.chars().count()),
            _ => format!("{lines} lines"),
        };
        Self { kind: ChipKind::Pasted, label: format!("[Pasted text #{number}, {size}]"), text }
    }

    /// An image, the `number`th of the draft, with its width and height where they are known.
    pub(super) fn image(number: usize, path: String, size: Option<(u32, u32)>) -> Self {
        let name = Path::new(&path).file_name().map_or(path.clone(), |it| {
            // The path is text, so its last part is, too.
            it.to_string_lossy().into_owned()
        });
        let size = size.map(|(width, height)| format!(" {width}×{height}")).unwrap_or_default();
        let label = format!("[Image #{number}{size} {name}]");
        Self { kind: ChipKind::Image { path }, text: label.clone(), label }
    }

    /// A file.
    pub(super) fn mention(name: String, path: String) -> Self {
        let label = format!("@{name}");
        Self { kind: ChipKind::Mention { name, path }, text: label.clone(), label }
    }

    /// A skill.
    pub(super) fn skill(name: String, path: String) -> Self {
        let label = format!("${name}");
        Self { kind: ChipKind::Skill { name, path }, text: label.clone(), label }
    }

    fn character(c: char) -> Self {
        Self { kind: ChipKind::Character, label: c.escape_unicode().to_string(), text: c.into() }
    }
}

/// Returns whether the character stands for a chip.
pub(super) fn is_chip(c: char) -> bool {
    (FIRST..FIRST + COUNT).contains(&u32::from(c))
}

/// The chips by the characters that stand for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Chips {
    chips: BTreeMap<char, Chip>,
    next: u32,
}

impl Chips {
    /// Adds a chip; returns the character that stands for it. Of 65,534 chips at a time, the next one is
    /// given back as the plain text that it would send.
    pub(super) fn add(&mut self, chip: Chip) -> Result<char, Chip> {
        for _ in 0..COUNT {
            let c = char::from_u32(FIRST + self.next % COUNT);
            self.next = (self.next + 1) % COUNT;
            if let Some(c) = c.filter(|c| !self.chips.contains_key(c)) {
                self.chips.insert(c, chip);
                return Ok(c);
            }
        }
        Err(chip)
    }

    /// The chip that the character stands for.
    pub(super) fn get(&self, c: char) -> Option<&Chip> {
        self.chips.get(&c)
    }

    /// Returns the number of chips for which `is` holds.
    pub(super) fn count(&self, is: impl Fn(&ChipKind) -> bool) -> usize {
        self.chips.values().filter(|chip| is(&chip.kind)).count()
    }

    /// The text as the buffer holds it: characters that would stand for chips become chips.
    pub(super) fn admit(&mut self, text: &str) -> String {
        if !text.chars().any(is_chip) {
            return text.to_owned();
        }
        let admit = |c: char| match is_chip(c) {
            true => self.add(Chip::character(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
            false => c,
        };
        text.chars().map(admit).collect()
    }

    /// The text as it is sent.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        for c in text.chars() {
            match self.get(c) {
                Some(chip) => expanded.push_str(&chip.text),
                None => expanded.push(c),
            }
        }
        expanded
    }

    /// Forgets the chips that occur in none of the texts.
    pub(super) fn retain<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        let used: std::collections::BTreeSet<char> =
            texts.flat_map(str::chars).filter(|c| is_chip(*c)).collect();
        self.chips.retain(|c, _| used.contains(c));
    }
}
