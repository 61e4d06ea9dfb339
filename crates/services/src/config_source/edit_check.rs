//! Which mistakes an edit of the user's file makes. Those that the file has already do not prevent it, so
//! that they can be corrected one by one.

use std::sync::Arc;

use config::edit::{Edit, Strategy};
use config::{
    Environment, Error, FileCache, Layer, LayerName, Overrides, Stack, Strictness, Warning,
    WarningKind,
};
use serde_json::Value;

/// Checks that the user's file could have this text after `edits`: they set no key that does not exist and
/// no value that its key does not accept, and cause no mistake. Returns the mistakes that stay.
///
/// # Errors
/// The mistakes that the edits make.
pub(super) fn check(
    text: &str,
    edits: &[Edit],
    flags: &Arc<Layer>,
    environment: &Environment<'_>,
) -> Result<Vec<Error>, Error> {
    let name = LayerName::User { file: environment.home.join(config::CONFIG_FILE) };
    let (layer, of_file) = Layer::parse_usable(name.clone(), text);
    let files = FileCache::of_usable_parts();
    let given = Overrides { flags: Some(flags), projects: false, ..Overrides::default() };
    let (stack, unloaded) = Stack::load_usable(&files, given, environment)?;
    let broken: Vec<Error> = files.broken().into_iter().flat_map(Error::each).collect();
    let of_others = |error: &&Error| error.origin().is_none_or(|origin| origin.layer() != name);
    let others: Vec<Error> = broken.iter().filter(of_others).cloned().collect();
    let before = Mistakes::of(broken.into_iter().chain(unloaded), &stack, environment);
    let of_file = of_file.into_iter().flat_map(Error::each).chain(others);
    let after = Mistakes::of(of_file, &stack.with_layer(layer), environment);
    let written = Written::new(edits);
    let wrong = after.warnings.iter().filter(|warning| {
        written.has(&warning.key)
            || written.touches(&warning.key)
                && warning.kind == WarningKind::LeftOut
                && !before.has_warned(warning)
    });
    let wrong = wrong.cloned().map(|warning| refused(warning, Strictness::Edit));
    let caused = after.errors.iter().filter(|error| match error.gist().0 {
        Some(key) if written.has(key) => true,
        _ => !before.has(error),
    });
    if let Some(error) = Error::of_all(wrong.chain(caused.cloned())) {
        return Err(error);
    }
    let left_out = |warning: &Warning| warning.kind == WarningKind::LeftOut;
    let left_out = after.warnings.into_iter().filter(left_out);
    let left_out = left_out.map(|warning| refused(warning, Strictness::Edit));
    let remaining = Error::of_all(after.errors.into_iter().chain(left_out));
    Ok(remaining.map(Error::each).unwrap_or_default())
}

/// The warning as an error.
fn refused(warning: Warning, strictness: Strictness) -> Error {
    match warning.kind {
        WarningKind::LeftOut | WarningKind::Converted => {
            let Warning { origin, key, message, .. } = warning;
            Error::Refused { origin, key, message }
        }
        _ => Error::UnknownKey { warning: Box::new(warning), strictness },
    }
}

/// The mistakes in a configuration.
struct Mistakes {
    errors: Vec<Error>,
    /// Those that are warnings: unknown keys, and values that are left out or understood as others.
    warnings: Vec<Warning>,
    /// True if the text could not be read in whole, so that there may be more.
    are_some_hidden: bool,
}

impl Mistakes {
    /// The mistakes in the files, and those in a stack.
    fn of(
        in_files: impl Iterator<Item = Error>,
        stack: &Stack,
        environment: &Environment<'_>,
    ) -> Self {
        let (warnings, found) = match config::resolve_usable(stack, environment) {
            Ok((resolved, errors)) => (resolved.warnings, errors),
            Err(error) => (stack.warnings.clone(), error.each()),
        };
        let errors: Vec<Error> = in_files.chain(found).flat_map(Error::each).collect();
        let is_mistake = |warning: &Warning| {
            use WarningKind::{Converted, LeftOut, Unknown};
            matches!(warning.kind, Unknown | LeftOut | Converted)
        };
        let are_some_hidden = errors.iter().any(|error| matches!(error, Error::Syntax { .. }));
        let warnings = warnings.into_iter().filter(is_mistake).collect();
        Self { errors, warnings, are_some_hidden }
    }

    /// Returns whether an error is known, or was possibly hidden by another one.
    fn has(&self, error: &Error) -> bool {
        let (key, why) = error.gist();
        let (key, part) = (key.map(without_indexes), key.map(part_of));
        self.are_some_hidden
            || self.errors.iter().any(|known| {
                let (known, known_why) = known.gist();
                let is_same = known.map(without_indexes) == key && known_why == why;
                is_same || known.is_some() && known.map(part_of) == part
            })
    }

    /// Returns whether what a warning is about is known as a mistake.
    fn has_warned(&self, warning: &Warning) -> bool {
        let part = part_of(&warning.key);
        let mut warned = self.warnings.iter().map(|known| known.key.as_str());
        let mut errors = self.errors.iter().filter_map(|known| known.gist().0);
        self.are_some_hidden
            || warned.any(|key| part_of(key) == part)
            || errors.any(|key| part_of(key) == part)
    }
}

/// The keys that edits write.
struct Written {
    /// Those that have a new value.
    set: Vec<String>,
    /// All of them, removed ones included.
    all: Vec<String>,
}

impl Written {
    fn new(edits: &[Edit]) -> Self {
        let mut set = Vec::new();
        for edit in edits {
            let key = config::canonical_key(&edit.key_path);
            values(&key, &edit.value, edit.strategy, &mut set);
        }
        let all = edits.iter().map(|edit| config::canonical_key(&edit.key_path)).collect();
        Self { set, all }
    }

    /// Returns whether an edit wrote the value of a key, or one above it.
    fn has(&self, key: &str) -> bool {
        self.set.iter().any(|written| is_within(key, written))
    }

    /// Returns whether a key is above or below one of an edit.
    fn touches(&self, key: &str) -> bool {
        self.all.iter().any(|written| is_within(key, written) || is_within(written, key))
    }
}

/// The keys of the values that an edit writes: of a table that is merged, those of its members.
fn values(key: &str, value: &Value, strategy: Strategy, found: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(members) if strategy == Strategy::Upsert && !members.is_empty() => {
            for (name, value) in members {
                let key = format!("{key}.{}", config::dotted_key(&[name]));
                values(&key, value, strategy, found);
            }
        }
        _ => found.push(key.to_owned()),
    }
}

fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The key without the places in lists, which an edit can move.
fn without_indexes(key: &str) -> String {
    let is_index = |part: &&str| part.parse::<usize>().is_ok();
    key.split('.').filter(|part| !is_index(part)).collect::<Vec<_>>().join(".")
}

/// The entry of a table, or the key, that a mistake is about. One mistake in it can hide another.
fn part_of(key: &str) -> String {
    let mut parts = config::key_parts(key);
    parts.truncate(2);
    config::dotted_key(&parts)
}
