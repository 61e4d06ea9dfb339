//! Service accounts: owners of keys that are not persons. Deleting an account deletes its keys.

use ratelimit::Micros;

use super::audit::{self, Act, Event, Form, Image};
use super::changes::Change;
use super::ids;
use super::keys::{self, Key, NewKey};
use super::page::{self, Listed, Page, Source};
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::environment::Random;
use gateway_policy::settings::Secret;
use gateway_policy::tenants::ModelPermissions;

const COLUMNS: &str = "id, name, role, created_at";
/// Most keys per account, so that it can be deleted in one transaction.
pub const MAX_KEYS: u32 = 1000;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// `svc_…`.
    pub id: Box<str>,
    /// Display name.
    pub name: Box<str>,
    /// `owner`, `member` or `none`.
    pub role: Box<str>,
    /// Unix seconds.
    pub created_at: i64,
}

/// The terms of an account's first key.
#[derive(Clone, Copy, Debug)]
pub struct FirstKey<'a> {
    /// When it expires.
    pub expires_at: Option<Micros>,
    /// The models that it may use, of those of its project; `None`: all.
    pub models: Option<&'a ModelPermissions>,
}

/// Creates an account, with a first key on these terms, if requested. Returns `None` if the
/// project does not exist or is archived.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    project: &str,
    name: &str,
    key: Option<FirstKey<'_>>,
    act: Act,
    random: &dyn Random,
) -> Result<Option<(ServiceAccount, Option<(Key, Secret)>)>, Error> {
    let account = ServiceAccount {
        id: ids::new("svc_", act.at(), random),
        name: name.into(),
        role: if key.is_some() { "member" } else { "none" }.into(),
        created_at: act.seconds(),
    };
    let key = key.map(|FirstKey { expires_at, models }| {
        let service_account = Some(&*account.id);
        let new = NewKey { project, service_account, name, expires_at, models };
        keys::make(new, act.at(), random)
    });
    let insert = Statement::new(
        "INSERT INTO service_accounts (id, project, name, role, created_at) \
         SELECT $1, id, $2, $3, $4 FROM projects WHERE id = $5 AND archived_at IS NULL",
        [
            (&account.id).into(),
            name.into(),
            (&account.role).into(),
            account.created_at.into(),
            project.into(),
        ],
    );
    let mut statements = vec![insert.expecting(1)];
    statements.extend(key.iter().map(|(key, _)| keys::insert(key).expecting(1)));
    let event = Event { before: None, ..changed("service_account.created", project, &account.id) };
    let made = audit::commit(database, act, event, statements, &[]).await?;
    Ok(made.map(|()| (account, key)))
}

/// Creates another key for the account that `new` names. Returns `None` if there is no such account
/// in an active project, or it has [`MAX_KEYS`].
///
/// # Errors
/// See [`Error`].
pub async fn create_key(
    database: &Database,
    new: NewKey<'_>,
    act: Act,
    random: &dyn Random,
) -> Result<Option<(Key, Secret)>, Error> {
    let Some(id) = new.service_account else { return Ok(None) };
    if get(database, new.project, id).await?.is_none() {
        return Ok(None);
    }
    let (key, text) = keys::make(new, act.at(), random);
    // Locks the account's row, so that it cannot be deleted in the meantime.
    let check = Statement::new(
        "UPDATE service_accounts SET name = name WHERE id = $1 \
         AND (SELECT COUNT(*) FROM keys WHERE service_account = $1) < $2",
        [id.into(), MAX_KEYS.into()],
    );
    let statements = vec![check.expecting(1), keys::insert(&key).expecting(1)];
    let event = keys::created(&key);
    let made = audit::commit(database, act, event, statements, &[]).await?;
    Ok(made.map(|()| (key, text)))
}

/// A project's account of that id.
///
/// # Errors
/// See [`Error`].
pub async fn get(
    database: &Database,
    project: &str,
    id: &str,
) -> Result<Option<ServiceAccount>, Error> {
    let sql = "SELECT id, name, role, created_at FROM service_accounts \
               WHERE id = $1 AND project = $2";
    let rows = database.query(Statement::new(sql, [id.into(), project.into()])).await?;
    rows.first().map(read).transpose()
}

/// A page of a project's accounts.
///
/// # Errors
/// See [`Error`].
pub async fn list(
    database: &Database,
    project: &str,
    page: &Page,
) -> Result<Listed<ServiceAccount>, Error> {
    let (value, condition) = (project.into(), "project = $1");
    let source =
        Source { columns: COLUMNS, table: "service_accounts", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// A page of a project's keys, each with the account that owns it, in one query.
///
/// # Errors
/// See [`Error`].
pub async fn list_keys(
    database: &Database,
    project: &str,
    page: &Page,
) -> Result<Listed<(Key, Option<ServiceAccount>)>, Error> {
    let source = Source {
        columns: "k.id, k.project, k.service_account, k.name, k.redacted, k.created_at, \
                  k.expires_at, k.last_used_at, k.hash, k.model_permissions, a.id, a.name, a.role, a.created_at",
        table: "keys k LEFT JOIN service_accounts a \
                ON a.id = k.service_account AND a.project = k.project",
        condition: "k.project = $1",
        key: "k.id",
        value: project.into(),
    };
    page::list(database, source, page, |row| {
        let owner = row.optional_text(10)?.map(|_| read_at(row, 10)).transpose()?;
        Ok((keys::read(row)?, owner))
    })
    .await
}

/// Changes the given values of name and role. Returns `None` if the project has no such account.
///
/// # Errors
/// See [`Error`].
pub async fn update(
    database: &Database,
    project: &str,
    id: &str,
    name: Option<&str>,
    role: Option<&str>,
    act: Act,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE service_accounts SET name = COALESCE($1, name), role = COALESCE($2, role) \
         WHERE id = $3 AND project = $4",
        [name.into(), role.into(), id.into(), project.into()],
    );
    let event = changed("service_account.updated", project, id);
    audit::commit(database, act, event, vec![update.expecting(1)], &[]).await
}

/// Deletes an account and revokes its keys. Returns `None` if the project has no such account, or a
/// key was added to it concurrently.
///
/// # Errors
/// See [`Error`].
pub async fn delete(
    database: &Database,
    project: &str,
    id: &str,
    act: Act,
) -> Result<Option<()>, Error> {
    let sql = "SELECT hash FROM keys WHERE service_account = $1";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    let delete = Statement::new(
        "DELETE FROM service_accounts WHERE id = $1 AND project = $2",
        [id.into(), project.into()],
    );
    let sql = "DELETE FROM keys WHERE service_account = $1";
    let revoke = Statement::new(sql, [id.into()]).expecting(rows.len() as u64);
    let key = |row: &Row| Ok(Change::Key(ids::hex(&row.bytes(0)?).into()));
    let told = rows.iter().map(key).collect::<Result<Vec<_>, Error>>()?;
    let event = Event { after: None, ..changed("service_account.deleted", project, id) };
    audit::commit(database, act, event, vec![delete.expecting(1), revoke], &told).await
}

/// The event of a change of an account, with the number of its keys.
fn changed<'a>(kind: &'static str, project: &'a str, id: &'a str) -> Event<'a> {
    let sql = "SELECT name, role, \
               (SELECT COUNT(*) FROM keys WHERE service_account = service_accounts.id) \
               FROM service_accounts WHERE id = $1 AND project = $2";
    let columns = &[("name", Form::Plain), ("role", Form::Plain), ("api_keys", Form::Plain)];
    let image = Image::new(sql, [id.into(), project.into()], columns);
    let (before, after) = (Some(image.clone()), Some(image));
    Event { kind, organization: None, project: Some(project), object: id, before, after }
}

fn read(row: &Row) -> Result<ServiceAccount, Error> {
    read_at(row, 0)
}

/// Reads an account whose columns begin at `first`.
fn read_at(row: &Row, first: usize) -> Result<ServiceAccount, Error> {
    Ok(ServiceAccount {
        id: row.text(first)?,
        name: row.text(first + 1)?,
        role: row.text(first + 2)?,
        created_at: row.integer(first + 3)?,
    })
}
