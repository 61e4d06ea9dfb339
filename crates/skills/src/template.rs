//! The text of a new skill.

use std::fmt::Write;

/// A `SKILL.md` that the format accepts. `name` must be a valid name.
#[must_use]
pub fn template(name: &str, description: &str) -> String {
    let description: Vec<&str> = description.split_whitespace().collect();
    let description = escaped(&description.join(" "));
    let title = name.replace('-', " ");
    format!(
        "---\nname: \"{name}\"\ndescription: \"{description}\"\n---\n\n# {title}\n\n\
         Say here what to do, step by step. Put long details into files of this folder, and name them \
         here:\n\n\
         - `references/`: texts to read when they are needed\n\
         - `scripts/`: programs to run\n\
         - `assets/`: files to use in results\n"
    )
}

/// Text between double quotes of YAML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() || c == '\u{feff}' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}
