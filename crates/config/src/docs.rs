//! The page of the book that follows from the option table: the reference of every key.

use serde_json::{Value as Json, json};

use crate::expected::expected;
use crate::kind::{Effect, Kind, OptionEntry, Section, matches_pattern, scope};
use crate::schema::one_line;
use crate::suggest::closest;
use crate::table::{DEPRECATED, Keys, RENAMED, RequirementsFile};

/// A key with its full path.
#[derive(Debug)]
pub struct Row {
    /// Dotted, with `<…>` for any name.
    pub path: String,
    /// The entry in the table.
    pub entry: &'static OptionEntry,
}

/// Every key of `config.toml` that has a value of its own.
pub fn rows() -> Vec<Row> {
    rows_of(Keys::SECTION)
}

/// Every key of `requirements.toml` that has a value of its own.
pub fn requirement_rows() -> Vec<Row> {
    rows_of(RequirementsFile::SECTION)
}

/// The key that a dotted key resembles; `None` for a key that exists, or resembles none.
pub fn near_key(key: &str) -> Option<String> {
    let rows = rows();
    let matches = |row: &Row| {
        let mut parts = row.path.split('.');
        key.split('.').all(|name| parts.next().is_some_and(|part| matches_pattern(part, name)))
    };
    if rows.iter().any(matches) {
        return None;
    }
    closest(key, rows.iter().map(|row| row.path.as_str())).map(str::to_owned)
}

fn rows_of(section: &'static Section) -> Vec<Row> {
    let mut rows = Vec::new();
    collect(section, "", &mut rows);
    rows
}

fn collect(section: &'static Section, prefix: &str, rows: &mut Vec<Row>) {
    for entry in section.entries.iter().chain(section.rest) {
        let path = if prefix.is_empty() {
            entry.name.to_owned()
        } else {
            format!("{prefix}.{}", entry.name)
        };
        collect_entry(entry, &entry.kind, path, rows);
    }
}

fn collect_entry(
    entry: &'static OptionEntry,
    kind: &'static Kind,
    path: String,
    rows: &mut Vec<Row>,
) {
    match kind {
        Kind::Table(section) => collect(section, &path, rows),
        Kind::Map(part, of @ Kind::Table(_)) => {
            collect_entry(entry, of, format!("{path}.{part}"), rows);
        }
        Kind::List(of @ Kind::Table(_)) => {
            collect_entry(entry, of, format!("{path}.<index>"), rows);
        }
        Kind::Either(kinds) => {
            rows.push(Row { path: path.clone(), entry });
            for kind in *kinds {
                match kind {
                    Kind::Table(section) => collect(section, &path, rows),
                    Kind::Map(part, of @ Kind::Table(_)) => {
                        collect_entry(entry, of, format!("{path}.{part}"), rows);
                    }
                    _ => {}
                }
            }
        }
        Kind::Map(_, Kind::Profile) => {}
        _ => rows.push(Row { path, entry }),
    }
}

/// A valid value of this kind.
pub fn sample(kind: &Kind) -> Json {
    match kind {
        Kind::Boolean => true.into(),
        Kind::Whole { max, .. } | Kind::Time { max, .. } => (*max).into(),
        Kind::Text | Kind::Nickname => "a".into(),
        Kind::Url => "https://host.example/v1".into(),
        Kind::Uuid => "01234567-89ab-cdef-0123-456789abcdef".into(),
        Kind::Country => "NL".into(),
        Kind::TimeZone => "Europe/Amsterdam".into(),
        Kind::Host => "docs.example".into(),
        Kind::Path => "/a/b".into(),
        Kind::Choice(names, _) => (*names.first().unwrap_or(&"")).into(),
        Kind::List(of) => Json::Array(vec![sample(of)]),
        Kind::Map(_, of) => json!({ "x": sample(of) }),
        Kind::Table(section) => sample_section(section),
        Kind::Either(kinds) => kinds.last().map_or(Json::Null, sample),
        Kind::Profile => json!({ "model": "a" }),
    }
}

fn sample_section(section: &Section) -> Json {
    let fixed = section.entries.iter().map(|entry| (entry.name.to_owned(), sample(&entry.kind)));
    let rest = section.rest.map(|rest| (rest.name.replace(['<', '>'], "_"), sample(&rest.kind)));
    Json::Object(fixed.chain(rest).collect())
}

/// A valid document with every key, for tests and benchmarks. References name entries of the
/// document.
pub fn all_keys() -> Json {
    let mut document = sample_section(Keys::SECTION);
    for key in ["model_provider", "profile", "default_permissions"] {
        document[key] = "x".into();
    }
    document["permissions"]["x"]["filesystem"] = json!({ "/a": { "b": "read" } });
    for key in ["exporter", "trace_exporter", "metrics_exporter"] {
        let exporter = &mut document["otel"][key];
        *exporter = json!({ "otlp-http": exporter["x"].take() });
    }
    document
}

/// The reference of every key, as Markdown.
pub fn reference() -> String {
    let mut page = include_str!("reference.md").to_owned();
    page.push_str(
        "\n## Keys\n\nGenerated from the option table. In the column *where*, **anywhere** means every file, \
         profile,\nflag and thread, and **user** excludes a project's files. A change of a key marked \
         **restart** takes\neffect at the next start of the server; every other change in the next turn. \
         `requirements.toml` can\nconstrain a key marked **pinned**.\n\n",
    );
    page.push_str("| key | value | default | where | what it does |\n|---|---|---|---|---|\n");
    for row in rows() {
        let mut what = one_line(row.entry.doc);
        if let Effect::Pending(part) = row.entry.effect {
            what.push_str(&format!(" *No effect yet: requires {part}.*"));
        }
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            row.path,
            cell(&value(&row.entry.kind)),
            default(row.entry),
            places(row.entry.scope),
            cell(&what),
        ));
    }
    page.push_str("\n`profiles.<name>.<key>` accepts every key above except `profile`.\n");
    page.push_str("\n## Deprecated\n\nThese still work and give a `deprecationNotice`.\n\n| written | write instead |\n|---|---|\n");
    for renamed in RENAMED {
        page.push_str(&format!("| `{}` | `{}` |\n", renamed.old, renamed.new));
    }
    for one in DEPRECATED {
        let value = one.value.map(|value| format!(" = {value}")).unwrap_or_default();
        page.push_str(&format!("| `{}{value}` | {} |\n", one.key, cell(one.instead)));
    }
    page.push_str(
        "\n## Keys of `requirements.toml`\n\n| key | value | what it does |\n|---|---|---|\n",
    );
    for row in requirement_rows() {
        let (value, what) = (value(&row.entry.kind), one_line(row.entry.doc));
        page.push_str(&format!("| `{}` | {} | {} |\n", row.path, cell(&value), cell(&what)));
    }
    page
}

fn value(kind: &Kind) -> String {
    match kind {
        Kind::Choice(names, _) => {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Either(kinds) => kinds.iter().map(value).collect::<Vec<_>>().join(", or "),
        Kind::Map(part, of) if !matches!(of, Kind::Text) => {
            format!("a table from `{part}` to {}", value(of))
        }
        other => expected(other),
    }
}

fn default(entry: &OptionEntry) -> String {
    match (entry.default)() {
        None => String::new(),
        Some(Json::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    }
}

fn places(flags: u8) -> String {
    let mut places = vec![if flags & scope::USER == 0 { "anywhere" } else { "user" }];
    if flags & scope::RESTART != 0 {
        places.push("restart");
    }
    if flags & scope::PINNABLE != 0 {
        places.push("pinned");
    }
    places.join(", ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
