//! The store of threads that a configuration names: the database of `[store]` as options of the store.

use std::path::Path;
use std::sync::Arc;

use config::{Config, Secret, ThreadDatabase};
use http_client::Roots;
use store::{PostgresConfig, SqliteConfig, Store};

use crate::error::Error;

/// Largest file of authorities in bytes: the bundle of an operating system has about 250 KiB.
const MAX_AUTHORITIES: u64 = 8 << 20;
/// The name of this machine, where the system has it in a file.
const MACHINE: &str = "/proc/sys/kernel/hostname";

/// Opens the store of threads as `owner`, for a command that works without a server. Salvages nothing.
///
/// # Errors
/// It cannot be opened.
pub async fn open_store(config: &Config, now_ms: i64, owner: String) -> Result<Store, Error> {
    Ok(match &config.thread_database {
        Some(database) => Store::open(postgres_config(database.clone(), owner).await?).await?,
        None => Store::open(SqliteConfig::new(&config.sqlite_home, now_ms, owner)).await?,
    })
}

/// The options of a store in `database` that is opened as `owner`. Reads the file of authorities.
///
/// # Errors
/// The variable with the password is not set, or the authorities cannot be used.
pub async fn postgres_config(
    database: ThreadDatabase,
    owner: String,
) -> Result<PostgresConfig, Error> {
    let reading = tokio::task::spawn_blocking(move || read(database, owner));
    reading.await.map_err(|error| Error::failed(error.to_string()))?
}

/// Checks what [`postgres_config`] needs.
pub(crate) fn check(database: &ThreadDatabase) -> Result<(), Error> {
    read(database.clone(), String::new()).map(drop)
}

fn read(database: ThreadDatabase, owner: String) -> Result<PostgresConfig, Error> {
    let ThreadDatabase { url, env_key, password, schema, ca_file, requires_tls, max_connections } =
        database;
    if let (Some(name), None) = (&env_key, &password) {
        return Err(Error::failed(format!(
            "the environment variable {name}, which `store.env_key` names, is not set"
        ))
        .next_step("set it to the password of the database's user, and start the program again"));
    }
    let tls = requires_tls.then(|| roots(ca_file.as_deref())).transpose()?;
    let tls = tls.map(|roots| http_client::client_config(&roots, None, None)).transpose();
    let tls = tls.map_err(|error| match ca_file {
        Some(path) => Error::failed(format!("{}: {error}", path.display())),
        None => Error::failed(error.to_string()),
    })?;
    Ok(PostgresConfig {
        password: password.as_ref().map(Secret::expose).map(str::to_owned),
        schema,
        tls: tls.map(Arc::new),
        holder: holder(),
        connections: max_connections,
        ..PostgresConfig::new(url, owner)
    })
}

fn roots(ca_file: Option<&Path>) -> Result<Roots, Error> {
    let Some(path) = ca_file else { return Ok(Roots::System) };
    let pem = files::read(path, MAX_AUTHORITIES);
    let unreadable = |error: files::Error| {
        Error::failed(error.to_string()).within("the authorities of `store.ca_file`")
    };
    pem.map(Roots::Pem).map_err(unreadable)
}

/// This process in the messages of other servers.
fn holder() -> String {
    let process = std::process::id();
    // tidy: open a file of the kernel, which other systems lack.
    let name = std::fs::read_to_string(MACHINE).unwrap_or_default();
    match name.trim() {
        "" => format!("process {process}"),
        name => format!("process {process} on {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn options(change: impl FnOnce(&mut ThreadDatabase)) -> Result<PostgresConfig, String> {
        let mut database = ThreadDatabase::at("postgres://me@db/threads").unwrap();
        change(&mut database);
        postgres_config(database, "one".to_owned()).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_store_gets_what_the_configuration_says() {
        let plain = options(|_| {}).await.unwrap();
        assert_eq!((plain.schema.as_str(), plain.connections), ("agentd", 8));
        assert!(plain.tls.is_none() && plain.password.is_none());
        assert!(plain.holder.starts_with(&format!("process {}", std::process::id())));
        let other = options(|database| {
            database.schema = "team".to_owned();
            database.max_connections = 3;
            database.env_key = Some("KEY".to_owned());
            database.password = Some(Secret::new("x"));
            database.requires_tls = true;
        });
        let other = other.await.unwrap();
        assert_eq!((other.schema.as_str(), other.connections), ("team", 3));
        assert_eq!((other.password.as_deref(), other.owner.as_str()), (Some("x"), "one"));
        assert!(other.tls.is_some());
    }

    #[tokio::test]
    async fn a_missing_password_and_unusable_authorities_are_named() {
        let said = options(|database| database.env_key = Some("KEY".to_owned())).await.unwrap_err();
        assert!(said.contains("KEY") && said.contains("is not set"), "{said}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let with = |file: std::path::PathBuf| {
            options(|database| {
                (database.ca_file, database.requires_tls) = (Some(file), true);
            })
        };
        let said = with(file.clone()).await.unwrap_err();
        assert!(said.contains("ca.pem") && said.contains("store.ca_file"), "{said}");
        std::fs::write(&file, "no pem").unwrap();
        let said = with(file).await.unwrap_err();
        assert!(said.contains("ca.pem") && said.contains("no certificate"), "{said}");
    }
}
