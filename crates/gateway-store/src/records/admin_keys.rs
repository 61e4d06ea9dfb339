//! Admin keys: each grants the administration of one organization. Every request looks its key up
//! in the store, so that a revoked key is refused at once.

use ratelimit::Micros;

use super::audit::{self, Act, Event, Form, Image};
use super::page::{self, Listed, Page, Source};
use super::{ids, key_text};
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::dates::seconds;
use gateway_policy::environment::Random;
use gateway_policy::settings::Secret;

const COLUMNS: &str = "id, organization, name, redacted, created_at, expires_at, last_used_at";

/// A stored admin key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminKey {
    /// `key_…`.
    pub id: Box<str>,
    /// The organization that it administers.
    pub organization: Box<str>,
    /// Display name.
    pub name: Box<str>,
    /// Redacted text, safe to show.
    pub redacted: Box<str>,
    /// Unix seconds.
    pub created_at: i64,
    /// When it expires.
    pub expires_at: Option<Micros>,
    /// Unix seconds, up to a minute late.
    pub last_used_at: Option<i64>,
}

/// Creates an admin key. Returns it with its text, which is not stored. Returns `None` if the
/// organization does not exist.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    organization: &str,
    name: &str,
    expires_at: Option<Micros>,
    act: Act,
    random: &dyn Random,
) -> Result<Option<(AdminKey, Secret)>, Error> {
    let text = key_text::new(key_text::Kind::Admin, random);
    let key = AdminKey {
        id: ids::new("key_", act.at(), random),
        organization: organization.into(),
        name: name.into(),
        redacted: key_text::redacted(&text).into(),
        created_at: act.seconds(),
        expires_at,
        last_used_at: None,
    };
    let insert = Statement::new(
        "INSERT INTO admin_keys (hash, id, organization, name, redacted, created_at, expires_at) \
         SELECT $1, $2, id, $3, $4, $5, $6 FROM organizations \
         WHERE id = $7 AND deleted_at IS NULL",
        [
            key_text::hash(text.reveal()).as_slice().into(),
            (&key.id).into(),
            name.into(),
            (&key.redacted).into(),
            key.created_at.into(),
            expires_at.into(),
            organization.into(),
        ],
    );
    let event = Event { before: None, ..changed("admin_api_key.created", organization, &key.id) };
    let made = audit::commit(database, act, event, vec![insert.expecting(1)], &[]).await?;
    Ok(made.map(|()| (key, text)))
}

/// The admin key with that text, if it is valid now. Its use is recorded at most once a minute.
///
/// # Errors
/// See [`Error`].
pub async fn open(database: &Database, text: &str, now: Micros) -> Result<Option<AdminKey>, Error> {
    if key_text::kind(text) != Some(key_text::Kind::Admin) {
        return Ok(None);
    }
    let sql = "SELECT id, organization, name, redacted, created_at, expires_at, last_used_at \
               FROM admin_keys WHERE hash = $1 AND COALESCE(expires_at, $2) >= $2 \
               AND organization IN (SELECT id FROM organizations WHERE deleted_at IS NULL)";
    let hash = key_text::hash(text);
    let values = [hash.as_slice().into(), now.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    let Some(key) = rows.first().map(read).transpose()? else { return Ok(None) };
    let at = seconds(now);
    if key.last_used_at.is_none_or(|used| used + 60 <= at) {
        let sql = "UPDATE admin_keys SET last_used_at = $1 WHERE hash = $2";
        let update = Statement::new(sql, [at.into(), hash.as_slice().into()]);
        database.transact(vec![update]).await?;
    }
    Ok(Some(key))
}

/// An organization's admin key of that id.
///
/// # Errors
/// See [`Error`].
pub async fn get(
    database: &Database,
    organization: &str,
    id: &str,
) -> Result<Option<AdminKey>, Error> {
    let sql = "SELECT id, organization, name, redacted, created_at, expires_at, last_used_at \
               FROM admin_keys WHERE id = $1 AND organization = $2";
    let rows = database.query(Statement::new(sql, [id.into(), organization.into()])).await?;
    rows.first().map(read).transpose()
}

/// A page of an organization's admin keys.
///
/// # Errors
/// See [`Error`].
pub async fn list(
    database: &Database,
    organization: &str,
    page: &Page,
) -> Result<Listed<AdminKey>, Error> {
    let (value, condition) = (organization.into(), "organization = $1");
    let source = Source { columns: COLUMNS, table: "admin_keys", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// Revokes an admin key. Returns `None` if the organization has no such key.
///
/// # Errors
/// See [`Error`].
pub async fn revoke(
    database: &Database,
    organization: &str,
    id: &str,
    act: Act,
) -> Result<Option<()>, Error> {
    let sql = "DELETE FROM admin_keys WHERE id = $1 AND organization = $2";
    let delete = Statement::new(sql, [id.into(), organization.into()]).expecting(1);
    let event = Event { after: None, ..changed("admin_api_key.deleted", organization, id) };
    audit::commit(database, act, event, vec![delete], &[]).await
}

/// The event of a change of an admin key.
fn changed<'a>(kind: &'static str, organization: &'a str, id: &'a str) -> Event<'a> {
    let sql = "SELECT name, redacted, expires_at FROM admin_keys WHERE id = $1";
    let columns =
        &[("name", Form::Plain), ("redacted_value", Form::Plain), ("expires_at", Form::Moment)];
    let image = Image::new(sql, [id.into()], columns);
    let (before, after) = (Some(image.clone()), Some(image));
    Event { kind, organization: Some(organization), project: None, object: id, before, after }
}

fn read(row: &Row) -> Result<AdminKey, Error> {
    Ok(AdminKey {
        id: row.text(0)?,
        organization: row.text(1)?,
        name: row.text(2)?,
        redacted: row.text(3)?,
        created_at: row.integer(4)?,
        expires_at: row.optional_count(5)?,
        last_used_at: row.optional_integer(6)?,
    })
}
