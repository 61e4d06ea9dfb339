//! The database of threads that `[store]` names. Opens no connection: it checks what can be known
//! without one.

use std::path::PathBuf;

use crate::environment::Environment;
use crate::error::Error;
use crate::key_path::join;
use crate::kind::Setting;
use crate::provider::{Secret, variable};
use crate::table::StoreTable;
use crate::value::{Node, Table, Value};

/// Longest name of a schema in bytes. PostgreSQL cuts longer ones off.
const MAX_SCHEMA: usize = 63;
/// Schemes of the URL.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Values of `sslmode` in the URL.
const TLS_MODES: [&str; 3] = ["disable", "prefer", "require"];

/// A PostgreSQL database for threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadDatabase {
    /// Address, without a password.
    pub url: String,
    /// The environment variable that holds the password.
    pub env_key: Option<String>,
    /// Its value, if it is set and not empty.
    pub password: Option<Secret>,
    /// Schema of the tables.
    pub schema: String,
    /// Authorities to trust in place of those of the operating system, as an absolute path.
    pub ca_file: Option<PathBuf>,
    /// True if the connection must be encrypted and the server's certificate verified.
    pub requires_tls: bool,
    /// Most connections of a server.
    pub max_connections: usize,
}

impl ThreadDatabase {
    /// The database at an address that is written elsewhere than in `[store]`, with the default of each key.
    ///
    /// # Errors
    /// The mistake in the address.
    pub fn at(url: &str) -> Result<Self, String> {
        if let Some(mistake) = mistake_in_url(url) {
            return Err(mistake);
        }
        let defaults =
            StoreTable::absent().expect("each key of the table has a natural empty value");
        Ok(Self::of(url, &defaults, None))
    }

    /// The database with the authorities of a file.
    ///
    /// # Errors
    /// Its address excludes TLS.
    pub fn with_ca_file(self, file: PathBuf) -> Result<Self, String> {
        if let Some(mistake) = mistake_about_tls(&self.url) {
            return Err(mistake);
        }
        Ok(Self { url: with_tls(&self.url), requires_tls: true, ca_file: Some(file), ..self })
    }

    fn of(url: &str, table: &StoreTable, password: Option<Secret>) -> Self {
        let url = if table.ca_file.is_some() { with_tls(url) } else { url.to_owned() };
        Self {
            requires_tls: tls_mode(&url) == Some("require"),
            url,
            env_key: table.env_key.clone(),
            password,
            schema: table.schema.clone(),
            ca_file: table.ca_file.clone(),
            max_connections: usize::try_from(*table.max_connections).unwrap_or(usize::MAX),
        }
    }
}

/// Checks `[store]`. Adds its mistakes to `errors`.
pub(crate) fn thread_database(
    root: &Table,
    table: &StoreTable,
    environment: &Environment<'_>,
    errors: &mut Vec<Error>,
) -> Option<ThreadDatabase> {
    let (origin, written) = match root.get("store") {
        Some(Node { value: Value::Table(written), origin }) if !written.is_empty() => {
            (origin, written)
        }
        _ => return None,
    };
    let mut refuse = |key: &str, message: String| {
        let origin = written.get(key).map_or(origin, |node| &node.origin);
        errors.push(Error::refused(origin, join(&["store", key]), message));
    };
    let Some(url) = &table.url else {
        let message = "is missing, and the other keys of `[store]` have no effect without it: write \
                       `url = \"postgres://USER@HOST/DATABASE\"`, or remove the table";
        refuse("url", message.to_owned());
        return None;
    };
    if let Some(mistake) = mistake_in_url(url) {
        refuse("url", mistake);
    } else if let Some(mistake) = mistake_about_tls(url).filter(|_| table.ca_file.is_some()) {
        refuse("ca_file", mistake);
    }
    if let Some(mistake) = mistake_in_schema(&table.schema) {
        refuse("schema", mistake);
    }
    let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0', ' ', '$']);
    if table.env_key.as_ref().is_some_and(|name| !is_name(name)) {
        let message = "must be the name of an environment variable, which holds the password; not \
                       the password";
        refuse("env_key", message.to_owned());
    }
    let password = table.env_key.as_deref().and_then(|name| variable(environment, name));
    Some(ThreadDatabase::of(url, table, password))
}

/// Why a text cannot be the address of a database of threads. Never quotes it: it can have a password.
fn mistake_in_url(url: &str) -> Option<String> {
    const FORM: &str = "write `postgres://USER@HOST/DATABASE`";
    let Some(rest) = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return Some(format!(
            "must be the address of a PostgreSQL database: {FORM}; for threads in SQLite, remove \
             `[store]` and set `sqlite_home`"
        ));
    };
    if url.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return Some(
            "must have no spaces or control characters; write `%20` for a space".to_owned(),
        );
    }
    // The first `@` ends the name and the password, wherever it is.
    let (credentials, rest) = match rest.split_once('@') {
        Some((credentials, rest)) => (credentials, rest),
        None => ("", rest),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if credentials.contains(':') || parameter(query, "password").is_some() {
        return Some(
            "must not contain a password: remove it, and name the environment variable that holds \
             it with `env_key`"
                .to_owned(),
        );
    }
    let (host, database) = place.split_once('/').unwrap_or((place, ""));
    if host.is_empty() && parameter(query, "host").is_none() {
        return Some(format!("names no host: {FORM}"));
    }
    if database.is_empty() && parameter(query, "dbname").is_none() {
        return Some(format!("names no database: {FORM}"));
    }
    mistake_in_parameters(query)
}

fn mistake_in_parameters(query: &str) -> Option<String> {
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if name.contains('%') {
            return Some("must have the names of its parameters without `%`".to_owned());
        }
        if name == "sslmode" && !TLS_MODES.contains(&value) {
            return Some(format!(
                "has a value of `sslmode` that does not exist here; write one of `{}`: `require` \
                 verifies the certificate and the host name",
                TLS_MODES.join("`, `")
            ));
        }
    }
    None
}

/// Why a connection to this address cannot be verified.
fn mistake_about_tls(url: &str) -> Option<String> {
    let mode = tls_mode(url).filter(|mode| *mode != "require")?;
    Some(format!(
        "has no effect with `sslmode={mode}` in the address; write `sslmode=require`, or remove the file"
    ))
}

fn mistake_in_schema(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > MAX_SCHEMA || name.chars().any(char::is_control) {
        return Some(format!("must have 1 to {MAX_SCHEMA} bytes, and no control characters"));
    }
    name.starts_with("pg_")
        .then(|| "must not begin with `pg_`, which PostgreSQL reserves".to_owned())
}

fn tls_mode(url: &str) -> Option<&str> {
    parameter(url.split_once('?')?.1, "sslmode")
}

fn with_tls(url: &str) -> String {
    match (tls_mode(url), url.contains('?')) {
        (Some(_), _) => url.to_owned(),
        (None, true) => format!("{url}&sslmode=require"),
        (None, false) => format!("{url}?sslmode=require"),
    }
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut all = query.split('&').filter_map(|part| part.split_once('='));
    all.find_map(|(found, value)| (found == name).then_some(value))
}
