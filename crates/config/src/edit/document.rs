//! Applies edits to the text of a file.

use serde_json::Value as Json;
use toml_edit::{
    Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value as Toml,
};

use crate::edit::{Edit, Strategy, mend};
use crate::error::Error;
use crate::key_path::{self, join};
use crate::syntax::recover;

/// Applies all edits to `text`, in order.
///
/// # Errors
/// The first edit that cannot be made. Then none is.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, Error> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let mut paths = Vec::new();
    for edit in edits {
        paths.push(key_path::parse(&edit.key_path).map_err(|why| Error::Edit {
            message: format!("`{}` is not a key: {why}", edit.key_path),
        })?);
    }
    let mut mended = body.to_owned();
    let mut document: Option<DocumentMut> = body.parse().ok();
    for (edit, path) in edits.iter().zip(&paths) {
        if document.is_some() {
            break;
        }
        let text = value_text(&edit.value);
        mended = mend::mended(&mended, path, &text).ok_or_else(|| not_toml(body))?;
        document = mended.parse().ok();
    }
    // Without a document, all edits are made, and the mistakes elsewhere stay.
    let Some(mut document) = document else { return Ok(format!("{mark}{mended}")) };
    let body = mended.as_str();
    for (edit, parts) in edits.iter().zip(&paths) {
        let pending = PendingEdit { edit, parts };
        pending.put(document.as_table_mut(), false, parts, &edit.value)?;
    }
    let written = with_head_of(body, document.to_string());
    Ok(format!("{mark}{}", with_line_ends_like(body, written, edits)))
}

/// The error about an edit of a text that is not TOML, with all mistakes.
fn not_toml(text: &str) -> Error {
    let (_, mistakes) = recover(text, |_| ());
    let each = mistakes.iter().map(|(span, message)| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: {message}")
    });
    let all: Vec<String> = each.collect();
    Error::Edit { message: format!("the file is not valid TOML: {}", all.join("; ")) }
}

/// An edit and its parsed key.
struct PendingEdit<'e> {
    edit: &'e Edit,
    parts: &'e [String],
}

impl PendingEdit<'_> {
    /// Sets `value` at `path` below `table`. New tables in an inline table are inline.
    fn put(
        &self,
        table: &mut dyn TableLike,
        inline: bool,
        path: &[String],
        value: &Json,
    ) -> Result<(), Error> {
        let Some((name, rest)) = path.split_first() else { return Ok(()) };
        if !rest.is_empty() {
            if !table.contains_key(name) {
                if value.is_null() {
                    return Ok(());
                }
                let fresh = if inline {
                    Item::Value(Toml::InlineTable(InlineTable::new()))
                } else {
                    Item::Table(implicit())
                };
                table.insert(name, fresh);
            }
            let depth = self.parts.len() - rest.len();
            let item = table.get_mut(name).unwrap_or_else(|| unreachable!("inserted above"));
            let (found, inline) = (kind(item), item.is_inline_table());
            if let Some(inner) = item.as_table_like_mut() {
                return self.put(inner, inline, rest, value);
            }
            if let Some(index) = rest.first().and_then(|name| name.parse::<usize>().ok())
                && self.put_element(item, index, &rest[1..], value)?
            {
                return Ok(());
            }
            if value.is_null() {
                return Ok(());
            }
            let (key, parent) = (&self.edit.key_path, join(&self.parts[..depth]));
            let message = format!(
                "`{key}` cannot be set: `{parent}` is {found}, not a table; remove it first with `agentd \
                 config unset {parent}`"
            );
            return Err(Error::Edit { message });
        }
        if value.is_null() {
            table.remove(name);
            return Ok(());
        }
        if let (Strategy::Upsert, Json::Object(members)) = (self.edit.strategy, value)
            && let Some(item) = table.get_mut(name).filter(|item| item.is_table_like())
        {
            let inline = item.is_inline_table();
            let Some(inner) = item.as_table_like_mut() else { return Ok(()) };
            for (member, value) in members {
                self.put(inner, inline, std::slice::from_ref(member), value)?;
            }
            return Ok(());
        }
        self.replace(table, inline, name, value)
    }

    /// Sets `value` at `path` below an element of a list; false where there is no such element.
    fn put_element(
        &self,
        list: &mut Item,
        index: usize,
        path: &[String],
        value: &Json,
    ) -> Result<bool, Error> {
        match list {
            Item::ArrayOfTables(all) if index < all.len() => {
                match all.get_mut(index) {
                    Some(table) if !path.is_empty() => self.put(table, false, path, value)?,
                    _ if value.is_null() => drop(all.remove(index)),
                    place => match (place, self.item(value, false)?) {
                        (Some(place), Item::Table(table)) => *place = table,
                        _ => return Err(self.refused("this list has tables only; write a table")),
                    },
                }
                Ok(true)
            }
            Item::Value(Toml::Array(all)) if index < all.len() => {
                match all.get_mut(index).and_then(Toml::as_inline_table_mut) {
                    Some(table) if !path.is_empty() => self.put(table, true, path, value)?,
                    _ if !path.is_empty() => return Ok(false),
                    _ if value.is_null() => drop(all.remove(index)),
                    _ => drop(all.replace(index, self.value(value)?)),
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn replace(
        &self,
        table: &mut dyn TableLike,
        inline: bool,
        name: &str,
        value: &Json,
    ) -> Result<(), Error> {
        let Some(old) = table.get_mut(name) else {
            let item = self.item(value, inline)?;
            table.insert(name, item);
            return Ok(());
        };
        if to_json(old).as_ref() == Some(value) {
            return Ok(());
        }
        match (&mut *old, value) {
            // The table keeps its position, and the comments of the keys that stay.
            (Item::Table(_), Json::Object(members)) => {
                let Some(inner) = old.as_table_like_mut() else { return Ok(()) };
                let gone: Vec<String> = inner
                    .iter()
                    .map(|(name, _)| name.to_owned())
                    .filter(|name| members.get(name).is_none_or(Json::is_null))
                    .collect();
                for name in gone {
                    inner.remove(&name);
                }
                for (member, value) in members.iter().filter(|(_, value)| !value.is_null()) {
                    self.replace(inner, false, member, value)?;
                }
            }
            (Item::Value(value_there), _) => {
                let mut new = self.value(value)?;
                *new.decor_mut() = value_there.decor().clone();
                *value_there = new;
            }
            _ => {
                // TOML has values before tables, so a change of form can change the position.
                table.remove(name);
                let item = self.item(value, inline)?;
                table.insert(name, item);
            }
        }
        Ok(())
    }

    fn item(&self, value: &Json, inline: bool) -> Result<Item, Error> {
        match value {
            Json::Object(members) if !inline => {
                let mut table = Table::new();
                let only_tables = !members.is_empty() && members.values().all(Json::is_object);
                table.set_implicit(only_tables);
                for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
                    table.insert(name, self.item(value, false)?);
                }
                Ok(Item::Table(table))
            }
            Json::Array(all) if !inline && !all.is_empty() && all.iter().all(Json::is_object) => {
                let mut tables = ArrayOfTables::new();
                for one in all {
                    if let Item::Table(table) = self.item(one, false)? {
                        tables.push(table);
                    }
                }
                Ok(Item::ArrayOfTables(tables))
            }
            _ => self.value(value).map(Item::Value),
        }
    }

    fn value(&self, value: &Json) -> Result<Toml, Error> {
        Ok(match value {
            Json::Null => {
                return Err(self.refused("a list cannot contain `null`; remove the element"));
            }
            Json::Bool(b) => (*b).into(),
            Json::Number(n) => match (n.as_i64(), n.as_f64()) {
                (Some(n), _) => n.into(),
                (None, Some(n)) if n.is_finite() && n.abs() < 1e300 && !is_whole(value) => n.into(),
                _ => {
                    return Err(self
                        .refused("the number is not a signed 64-bit integer; use a smaller one"));
                }
            },
            Json::String(text) => text.as_str().into(),
            Json::Array(all) => {
                let mut array = Array::new();
                for one in all {
                    array.push(self.value(one)?);
                }
                Toml::Array(array)
            }
            Json::Object(members) => {
                let mut table = InlineTable::new();
                for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
                    table.insert(name, self.value(value)?);
                }
                Toml::InlineTable(table)
            }
        })
    }

    fn refused(&self, message: &str) -> Error {
        Error::Edit { message: format!("`{}`: {message}", self.edit.key_path) }
    }
}

/// A value in the syntax of TOML, on one line; `null` is the empty string.
pub fn value_text(value: &Json) -> String {
    let parts: Vec<String> = Vec::new();
    let edit = Edit { key_path: String::new(), value: Json::Null, strategy: Strategy::Replace };
    let written = PendingEdit { edit: &edit, parts: &parts }.value(value);
    written.map(|value| value.to_string().trim().to_owned()).unwrap_or_default()
}

fn is_whole(number: &Json) -> bool {
    number.is_u64() || number.is_i64()
}

fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::Table(_) | Item::Value(Toml::InlineTable(_)) => "a table",
        Item::ArrayOfTables(_) | Item::Value(Toml::Array(_)) => "an array",
        Item::Value(Toml::String(_)) => "a string",
        Item::Value(Toml::Integer(_) | Toml::Float(_)) => "a number",
        Item::Value(Toml::Boolean(_)) => "a boolean",
        Item::Value(Toml::Datetime(_)) => "a date",
        Item::None => "nothing",
    }
}

/// An item as JSON; `None` for a date, which JSON does not have.
fn to_json(item: &Item) -> Option<Json> {
    match item {
        Item::None => None,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => {
            let all = table.iter().map(|(name, item)| Some((name.to_owned(), to_json(item)?)));
            all.collect::<Option<_>>().map(Json::Object)
        }
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| {
                let all = table.iter().map(|(name, item)| Some((name.to_owned(), to_json(item)?)));
                all.collect::<Option<_>>().map(Json::Object)
            })
            .collect::<Option<_>>()
            .map(Json::Array),
    }
}

fn value_to_json(value: &Toml) -> Option<Json> {
    match value {
        Toml::String(text) => Some(text.value().as_str().into()),
        Toml::Integer(n) => Some((*n.value()).into()),
        Toml::Float(n) => serde_json::Number::from_f64(*n.value()).map(Json::Number),
        Toml::Boolean(b) => Some((*b.value()).into()),
        Toml::Datetime(_) => None,
        Toml::Array(all) => all.iter().map(value_to_json).collect::<Option<_>>().map(Json::Array),
        Toml::InlineTable(table) => {
            let all = table.iter().map(|(name, one)| Some((name.to_owned(), value_to_json(one)?)));
            all.collect::<Option<_>>().map(Json::Object)
        }
    }
}

/// `new` with the comments at the beginning of `old`, among them the line that names a schema: they
/// are about the file, and not about its first key, with which they would be removed.
fn with_head_of(old: &str, new: String) -> String {
    let is_head = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let head: String = old.split_inclusive('\n').take_while(is_head).collect();
    let head = head.replace("\r\n", "\n");
    if new.replace("\r\n", "\n").starts_with(&head) {
        return new;
    }
    // In a file without keys, the comments end up after the new ones.
    let has_keys = old.replace("\r\n", "\n") != head;
    let new = new.strip_suffix(&head).filter(|_| !has_keys).unwrap_or(&new);
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{gap}{new}")
}

/// `new` with the line ends of `old`, unless a new value contains line ends.
fn with_line_ends_like(old: &str, new: String, edits: &[Edit]) -> String {
    let lines = old.matches('\n').count();
    let all_crlf = lines > 0 && old.matches("\r\n").count() == lines;
    if !all_crlf || edits.iter().any(|edit| holds_line_end(&edit.value)) {
        return new;
    }
    new.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn holds_line_end(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('\n'),
        Json::Array(all) => all.iter().any(holds_line_end),
        Json::Object(all) => all.values().any(holds_line_end),
        _ => false,
    }
}
