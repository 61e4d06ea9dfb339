//! Examples of the protocol reference, in `schema/examples.json`: for each request with its response,
//! each notification and each kind of item, one that a test sent or received. Clients of the tests
//! record their messages (crate `testkit`), `cargo xtask examples` chooses among them, and each run of
//! all tests checks that the server still sends messages of their shape.

mod layout;
mod plain;
mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use protocol::generate::{shape, validator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use xtask::notes;

use crate::protocol_status;
use recorded::Recorded;

/// The file, from the folder `schema`.
pub(crate) const FILE: &str = "examples.json";
/// Most lines of an example on its page.
const MOST_LINES: usize = 40;
/// The command that makes the file again.
const REMEDY: &str = "record the examples again with `cargo xtask examples`";

/// The messages that this server never sends, so that no test can show them. The description of
/// each says why.
const NEVER_SENT: &[(Kind, &str)] = &[
    (Kind::ServerRequests, "applyPatchApproval"),
    (Kind::ServerRequests, "execCommandApproval"),
    (Kind::Notifications, "item/fileChange/outputDelta"),
    (Kind::Notifications, "remoteControl/status/changed"),
    (Kind::Notifications, "windows/worldWritableWarning"),
    (Kind::Notifications, "windowsSandbox/setupCompleted"),
];

/// The subject of an example; in the file, the name of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    ClientRequests,
    ServerRequests,
    /// Of either side.
    Notifications,
    /// By their `type`.
    Items,
}

/// Parts of messages, by their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Example {
    /// The test that sent or received it.
    pub(crate) test: String,
    /// `params`, and `result` or `error`; or `item`.
    #[serde(flatten)]
    parts: Map<String, Value>,
}

/// All examples, by kind and name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Examples(BTreeMap<Kind, BTreeMap<String, Example>>);

/// Writes the file from `notes`, or from a run of the tests of the server; the pages that show it are
/// generated after it.
pub(crate) fn write(root: &Path, notes: Option<PathBuf>) -> Result<()> {
    let notes = match notes {
        Some(notes) => notes,
        None => notes::run_tests(root)?.messages,
    };
    let examples = Recorded::read(&notes)?.choose(&Examples::read(root)?);
    let file = root.join("schema").join(FILE);
    std::fs::write(&file, examples.file()?).with_context(|| file.display().to_string())?;
    println!("wrote schema/{FILE}");
    examples.check()
}

/// Checks the committed examples against the messages of a run of all tests.
///
/// # Errors
/// With the examples whose test is gone, and those of which no test sent or received a message of the same
/// members and types.
pub(crate) fn check_recorded(root: &Path, notes: &Path) -> Result<()> {
    let recorded = Recorded::read(notes)?;
    let mut wrong = Vec::new();
    for (kind, name, example) in Examples::read(root)?.all() {
        if !recorded.has_test(&example.test) {
            wrong.push(format!("{kind:?} {name}: there is no test `{}`", example.test));
        } else if !recorded.has(kind, name, example) {
            wrong.push(format!(
                "{kind:?} {name}: no message of the tests has these members and types"
            ));
        }
    }
    ensure!(wrong.is_empty(), "schema/{FILE}:\n  {}\n{REMEDY}", wrong.join("\n  "));
    Ok(())
}

impl Examples {
    /// The committed examples; none where there is no file yet.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let file = root.join("schema").join(FILE);
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<&Example> {
        self.0.get(&kind)?.get(name)
    }

    fn insert(&mut self, kind: Kind, name: &str, example: Example) {
        self.0.entry(kind).or_default().insert(name.to_owned(), example);
    }

    fn all(&self) -> impl Iterator<Item = (Kind, &str, &Example)> {
        self.0.iter().flat_map(|(kind, examples)| {
            examples.iter().map(|(name, example)| (*kind, name.as_str(), example))
        })
    }

    /// The content of the file.
    pub(crate) fn file(&self) -> Result<String> {
        let lists = serde_json::to_value(self)?;
        let members: Vec<(&str, &Value)> =
            lists.as_object().into_iter().flatten().map(|(name, it)| (name.as_str(), it)).collect();
        Ok(layout::message(&members) + "\n")
    }

    /// Checks that there is one for everything that the protocol has, and that each is valid and short.
    ///
    /// # Errors
    /// With each that is missing, needless or wrong.
    pub(crate) fn check(&self) -> Result<()> {
        let expected = expected()?;
        let mut wrong = Vec::new();
        for (kind, name) in &expected {
            match (self.get(*kind, name), is_never_sent(*kind, name)) {
                (None, false) => wrong.push(format!("{kind:?} {name}: no example")),
                (Some(_), true) => {
                    wrong.push(format!("{kind:?} {name}: an example, and in `NEVER_SENT`"));
                }
                (Some(_), false) | (None, true) => {}
            }
        }
        for (kind, name, example) in self.all() {
            let checked = match expected.contains(&(kind, name.to_owned())) {
                true => example.check(kind, name),
                false => Err(anyhow::anyhow!("the protocol has no such thing")),
            };
            wrong.extend(checked.err().map(|error| format!("{kind:?} {name}: {error:#}")));
        }
        let gone =
            NEVER_SENT.iter().filter(|(kind, name)| !expected.contains(&(*kind, (*name).into())));
        wrong.extend(gone.map(|(kind, name)| format!("{kind:?} {name}: only in `NEVER_SENT`")));
        ensure!(
            wrong.is_empty(),
            "schema/{FILE}:\n  {}\n{REMEDY}, write a test over the wire that shows what is missing, or \
             add it to `NEVER_SENT` of tools/src/examples.rs",
            wrong.join("\n  ")
        );
        Ok(())
    }
}

impl Example {
    /// The messages as a page shows them.
    pub(crate) fn text(&self, kind: Kind, name: &str) -> String {
        let (method, id) = (json!(name), json!(1));
        let part = |name: &'static str| self.parts.get(name).map(|value| (name, value));
        let head = ("method", &method);
        let request = || {
            let members = [Some(head), Some(("id", &id)), part("params")];
            layout::message(&members.into_iter().flatten().collect::<Vec<_>>())
        };
        let response = || {
            let members = [Some(("id", &id)), part("result"), part("error")];
            layout::message(&members.into_iter().flatten().collect::<Vec<_>>())
        };
        match kind {
            Kind::ClientRequests | Kind::ServerRequests => format!("{}\n{}", request(), response()),
            Kind::Notifications => layout::message(
                &[Some(head), part("params")].into_iter().flatten().collect::<Vec<_>>(),
            ),
            Kind::Items => self.parts.get("item").map(layout::value).unwrap_or_default(),
        }
    }

    /// # Errors
    /// If it does not fit its schema, or is too long.
    fn check(&self, kind: Kind, name: &str) -> Result<()> {
        let schema = validator(true);
        let null = Value::Null;
        let names: BTreeSet<&str> = self.parts.keys().map(String::as_str).collect();
        let part = |name: &str| self.parts.get(name).unwrap_or(&null);
        if kind == Kind::Items {
            schema.check_definition("ThreadItem", part("item"))?;
            ensure!(part("item")["type"] == name, "it is of another type");
        } else {
            let params = if names.contains("params") { part("params").clone() } else { json!({}) };
            schema.check_params(name, &params)?;
        }
        match kind {
            Kind::ClientRequests if protocol_status::never_succeeds(name) => {
                ensure!(part("error")["code"].is_i64(), "it has no error");
            }
            Kind::ClientRequests | Kind::ServerRequests => {
                schema.check_result(name, part("result"))?;
            }
            Kind::Notifications | Kind::Items => {}
        }
        let lines = self.text(kind, name).lines().count();
        ensure!(lines <= MOST_LINES, "it has {lines} lines, more than {MOST_LINES}");
        Ok(())
    }

    fn shape(&self) -> BTreeSet<String> {
        shape(&Value::Object(self.parts.clone()))
    }

    /// The members as text: the shorter comes first.
    fn bytes(&self) -> (usize, String) {
        let text = Value::Object(self.parts.clone()).to_string();
        (text.len(), text)
    }
}

/// Everything that must have an example.
fn expected() -> Result<BTreeSet<(Kind, String)>> {
    let files = protocol::generate::json_schema(true);
    let read = |wanted: &str| -> Result<Value> {
        let file = files.iter().find(|(name, _)| *name == wanted).context(wanted.to_owned())?;
        Ok(serde_json::from_str(&file.1)?)
    };
    let (methods, schema) = (read("methods.json")?, read("agentd.schema.json")?);
    let lists = [
        ("clientRequests", Kind::ClientRequests),
        ("serverRequests", Kind::ServerRequests),
        ("clientNotifications", Kind::Notifications),
        ("serverNotifications", Kind::Notifications),
    ];
    let mut expected = BTreeSet::new();
    for (list, kind) in lists {
        let names = methods[list].as_array().context(list)?.iter();
        expected.extend(names.filter_map(|it| Some((kind, it["method"].as_str()?.to_owned()))));
    }
    let items = schema["$defs"]["ThreadItem"]["oneOf"].as_array().context("ThreadItem")?.iter();
    let types = items.filter_map(|it| it["properties"]["type"]["const"].as_str());
    expected.extend(types.map(|it| (Kind::Items, it.to_owned())));
    Ok(expected)
}

/// Returns whether this server sends no such message.
pub(crate) fn is_never_sent(kind: Kind, name: &str) -> bool {
    NEVER_SENT.contains(&(kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed() -> Examples {
        Examples::read(&xtask::workspace_root()).unwrap()
    }

    #[test]
    fn everything_has_an_example_that_fits_its_schema() {
        committed().check().unwrap();
    }

    #[test]
    fn what_is_missing_wrong_or_long_is_named() {
        let failure = |change: fn(&mut BTreeMap<String, Example>)| {
            let mut examples = committed();
            change(examples.0.get_mut(&Kind::ClientRequests).unwrap());
            examples.check().unwrap_err().to_string()
        };
        let missing = failure(|requests| drop(requests.remove("thread/start")));
        assert!(missing.contains("ClientRequests thread/start: no example"), "{missing}");
        let unknown = failure(|requests| {
            let example = requests["thread/start"].clone();
            requests.insert("thread/dance".to_owned(), example);
        });
        assert!(unknown.contains("thread/dance: the protocol has no such thing"), "{unknown}");
        let wrong = failure(|requests| {
            let start = requests.get_mut("thread/start").unwrap();
            start.parts.insert("params".to_owned(), json!({ "model": 1 }));
        });
        assert!(wrong.contains("thread/start: params.model"), "{wrong}");
        let long = failure(|requests| {
            let start = requests.get_mut("thread/start").unwrap();
            let lines = vec!["a long line of a list ".repeat(4); 50];
            start.parts.insert("params".to_owned(), json!({ "config": { "lines": lines } }));
        });
        assert!(long.contains("lines, more than 40"), "{long}");
    }

    #[test]
    fn examples_that_no_test_shows_any_more_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, root) = (folder.path().join("notes"), xtask::workspace_root());
        let examples = committed();
        let lines: Vec<String> = (examples.all())
            .map(|(kind, name, it)| {
                json!({ "kind": kind, "name": name, "test": it.test, "example": it.parts })
                    .to_string()
            })
            .collect();
        let check = |lines: &[String]| {
            std::fs::write(&notes, lines.join("\n")).unwrap();
            check_recorded(&root, &notes)
        };
        check(&lines).unwrap();
        let is_other = |line: &&String| !line.contains("\"name\":\"thread/goal/set\"");
        let without: Vec<String> = lines.iter().filter(is_other).cloned().collect();
        let failure = check(&without).unwrap_err().to_string();
        assert!(failure.contains("thread/goal/set: no message of the tests has"), "{failure}");
        let test = &examples.get(Kind::ClientRequests, "initialize").unwrap().test;
        let renamed: Vec<String> =
            lines.iter().map(|line| line.replace(test.as_str(), "some::test")).collect();
        let failure = check(&renamed).unwrap_err().to_string();
        assert!(failure.contains(&format!("initialize: there is no test `{test}`")), "{failure}");
    }
}
