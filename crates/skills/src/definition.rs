//! `SKILL.json`, the optional file next to `SKILL.md`: how clients show the skill (`interface`), and what
//! it needs (`dependencies`). A member that cannot be used is left out with a warning.

mod address;
mod members;

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::problem::{Fault, Problem, unreadable};
use crate::variables::steers_programs;

/// The file's name.
pub(crate) const DEFINITION_FILE: &str = "SKILL.json";
const MAX_BYTES: u64 = 256 << 10;
const MAX_TOOLS: usize = 64;
/// Longest text for display, in characters.
const MAX_TEXT: usize = 1_024;
const MEMBERS: [&str; 2] = ["interface", "dependencies"];
const INTERFACE_MEMBERS: [&str; 6] =
    ["displayName", "shortDescription", "defaultPrompt", "brandColor", "iconLarge", "iconSmall"];
const DEPENDENCY_MEMBERS: [&str; 6] =
    ["type", "value", "description", "transport", "url", "command"];

/// A skill's presentation in clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub display_name: Option<String>,
    pub short_description: Option<String>,
    /// `#rrggbb`.
    pub brand_color: Option<String>,
    pub default_prompt: Option<String>,
    /// A file of the skill's folder. Absolute.
    pub icon_large: Option<PathBuf>,
    /// A file of the skill's folder. Absolute.
    pub icon_small: Option<PathBuf>,
}

/// The dependencies of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    pub tools: Vec<Dependency>,
}

/// An environment variable (`env_var`) or an MCP server (`mcp`) that a skill needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Dependency {
    #[serde(rename = "type")]
    pub kind: String,
    /// The variable's or the server's name.
    pub value: String,
    pub description: Option<String>,
    pub transport: Option<String>,
    pub url: Option<String>,
    pub command: Option<String>,
}

#[derive(Default)]
pub(crate) struct Definition {
    pub(crate) interface: Option<Interface>,
    pub(crate) dependencies: Option<Dependencies>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads the file of a skill's folder, if there is one.
pub(crate) fn read(folder: &Path) -> Definition {
    let path = folder.join(DEFINITION_FILE);
    let mut definition = Definition::default();
    let mut faults = Vec::new();
    // Not a link: it could lead to a file of another owner.
    let read = files::open_without_links(&path).and_then(|file| file.read_text(&path, MAX_BYTES));
    match read {
        Ok(text) => match hooks::read_json(text.as_bytes()) {
            Ok(value) => definition.take(&value, folder, &mut faults),
            Err(error) => {
                faults
                    .push(Fault::at(error.line(), format!("the file is not valid JSON: {error}")));
            }
        },
        Err(error) if error.is_not_found() => {}
        Err(error) => faults.push(unreadable(error)),
    }
    definition.problems = faults.into_iter().map(|fault| fault.within(&path)).collect();
    definition
}

impl Definition {
    fn take(&mut self, value: &Value, folder: &Path, faults: &mut Vec<Fault>) {
        let Value::Object(members) = value else {
            return faults.push(Fault::at(1, "the file must hold a JSON object"));
        };
        for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            match &**name {
                "interface" => self.interface = interface(value, folder, faults),
                "dependencies" => self.dependencies = dependencies(value, faults),
                other => faults.extend(misspelt("", other, &MEMBERS)),
            }
        }
    }
}

fn interface(value: &Value, folder: &Path, faults: &mut Vec<Fault>) -> Option<Interface> {
    let Value::Object(members) = value else {
        faults.push(Fault::new(None, "`interface` must be an object"));
        return None;
    };
    let mut interface = Interface::default();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        // Both spellings are in use.
        let member = name.replace('_', "").to_ascii_lowercase();
        let Some(place) = interface.place(&member) else {
            faults.extend(misspelt("interface.", name, &INTERFACE_MEMBERS));
            continue;
        };
        let mut fault =
            |why: &str| faults.push(Fault::new(None, format!("`interface.{name}` {why}")));
        match value.as_str().map(str::trim).filter(|text| !text.is_empty()) {
            None => fault("must be a text that is not empty"),
            Some(text) if text.chars().count() > MAX_TEXT => fault("is too long"),
            Some(text) => match place {
                Place::Text(place) => *place = Some(text.to_owned()),
                Place::Color(place) if is_color(text) => *place = Some(text.to_owned()),
                Place::Color(_) => fault("must be a colour such as `#1a2b3c`"),
                Place::File(place) if is_inside(text) => *place = Some(folder.join(text)),
                Place::File(_) => fault("must be a relative path in the skill's folder"),
            },
        }
    }
    (interface != Interface::default()).then_some(interface)
}

/// Where a member of an interface is kept.
enum Place<'i> {
    Text(&'i mut Option<String>),
    Color(&'i mut Option<String>),
    File(&'i mut Option<PathBuf>),
}

impl Interface {
    /// `None` for members of later versions and of other clients.
    fn place(&mut self, member: &str) -> Option<Place<'_>> {
        Some(match member {
            "displayname" => Place::Text(&mut self.display_name),
            "shortdescription" => Place::Text(&mut self.short_description),
            "defaultprompt" => Place::Text(&mut self.default_prompt),
            "brandcolor" => Place::Color(&mut self.brand_color),
            "iconlarge" => Place::File(&mut self.icon_large),
            "iconsmall" => Place::File(&mut self.icon_small),
            _ => return None,
        })
    }
}

fn is_color(text: &str) -> bool {
    text.strip_prefix('#')
        .is_some_and(|hex| hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_inside(text: &str) -> bool {
    let mut components = Path::new(text).components();
    components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn dependencies(value: &Value, faults: &mut Vec<Fault>) -> Option<Dependencies> {
    let Some(tools) = value.get("tools").and_then(Value::as_array) else {
        faults.push(Fault::new(None, "`dependencies` must be an object with a list `tools`"));
        return None;
    };
    if tools.len() > MAX_TOOLS {
        let message = format!("`dependencies.tools` has more than {MAX_TOOLS} entries");
        faults.push(Fault::new(None, message));
    }
    for name in value.as_object().into_iter().flat_map(|members| members.keys()) {
        if name != "tools" {
            faults.extend(misspelt("dependencies.", name, &["tools"]));
        }
    }
    let mut found = Vec::new();
    for (at, tool) in tools.iter().enumerate().take(MAX_TOOLS) {
        let place = format!("dependencies.tools[{at}]");
        for name in tool.as_object().into_iter().flat_map(|members| members.keys()) {
            if !DEPENDENCY_MEMBERS.contains(&&**name) {
                faults.push(unknown(&format!("{place}."), name, &DEPENDENCY_MEMBERS));
            }
        }
        match dependency(tool) {
            Ok(dependency) => found.push(dependency),
            Err((member, why)) => {
                let place = if member.is_empty() { place } else { format!("{place}.{member}") };
                faults.push(Fault::new(None, format!("`{place}`: {why}")));
            }
        }
    }
    (!found.is_empty()).then_some(Dependencies { tools: found })
}

/// The fault of a member that resembles a known one. Others are those of later versions and of other clients.
fn misspelt(within: &str, name: &str, known: &[&str]) -> Option<Fault> {
    members::meant(name, known).map(|_| unknown(within, name, known))
}

fn unknown(within: &str, name: &str, known: &[&str]) -> Fault {
    let name = visible::exact(name);
    let hint = match members::meant(&name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    Fault::new(None, format!("`{within}{name}` is not known and has no effect; {hint}"))
}

/// # Errors
/// The member that cannot be used, empty for the whole, and why.
fn dependency(tool: &Value) -> Result<Dependency, (&'static str, String)> {
    let read: Dependency =
        Dependency::deserialize(tool).map_err(|error| ("", error.to_string()))?;
    let texts = [
        ("type", Some(&read.kind)),
        ("value", Some(&read.value)),
        ("description", read.description.as_ref()),
        ("transport", read.transport.as_ref()),
        ("command", read.command.as_ref()),
        ("url", read.url.as_ref()),
    ];
    for (member, text) in texts {
        let Some(text) = text else { continue };
        if text.chars().count() > MAX_TEXT {
            return Err((member, "the text is too long".to_owned()));
        }
        // The user decides by what the text shows. An address has rules of its own.
        let is_hidden = |c: &char| match member {
            "description" => visible::is_hidden(*c) && !c.is_whitespace(),
            "url" => false,
            _ => visible::is_hidden(*c),
        };
        if let Some(c) = text.chars().find(is_hidden) {
            let c = c.escape_unicode();
            return Err((member, format!("it has the character `{c}`, which is not visible")));
        }
    }
    check_kind(&read)?;
    Ok(read)
}

fn check_kind(read: &Dependency) -> Result<(), (&'static str, String)> {
    let value = visible::exact(&read.value);
    match &*read.kind {
        "env_var" if !is_variable(&read.value) => {
            Err(("value", format!("`{value}` is not the name of an environment variable")))
        }
        "env_var" if steers_programs(&read.value) => Err((
            "value",
            format!(
                "a skill cannot ask for `{value}`: it changes which programs or code run, or where programs \
                 connect; give the value a name of its own"
            ),
        )),
        "mcp" if read.value.is_empty() => Err(("value", "it must name the server".to_owned())),
        "mcp" if read.url.is_none() == read.command.is_none() => {
            Err(("", "an MCP server has either `url` or `command`".to_owned()))
        }
        "mcp" => {
            let url = read.url.as_deref();
            url.map_or(Ok(()), address::check).map_err(|why| ("url", format!("it {why}")))
        }
        "env_var" => Ok(()),
        "skill" => Err((
            "",
            format!(
                "a skill cannot depend on a skill, here on `{value}`, be it another one or itself; name it in the \
                 instructions instead"
            ),
        )),
        other => {
            let other = visible::exact(other);
            Err(("type", format!("it is `{other}`, not `env_var` or `mcp`")))
        }
    }
}

fn is_variable(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests;
