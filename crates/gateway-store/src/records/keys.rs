//! Keys of projects. The store has only their hashes; a revoked key is deleted, and the ledger
//! keeps its id.

use ratelimit::Micros;

use super::audit::{self, Act, Event, Form, Image};
use super::changes::Change;
use super::page::{self, Listed, Page, Source};
use super::{ids, key_search, key_text, model_permissions};
use crate::Error;
use crate::database::{Database, Row, Statement, Value};
use gateway_policy::dates::seconds;
use gateway_policy::environment::Random;
use gateway_policy::settings::Secret;
use gateway_policy::tenants::ModelPermissions;

const COLUMNS: &str = "id, project, service_account, name, redacted, created_at, expires_at, last_used_at, hash, \
     model_permissions";
/// Seconds. A last use that is further ahead was written by a clock that was wrong.
const AHEAD: i64 = 3600;
/// Keys per transaction when last uses are written.
const TOUCHED: usize = 500;

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// `key_…`.
    pub id: Box<str>,
    /// Id of its project.
    pub project: Box<str>,
    /// Its owner, if it belongs to a service account.
    pub service_account: Option<Box<str>>,
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
    /// The hash of its text.
    pub hash: Box<[u8]>,
    /// The models that it may use, of those of its project; `None`: all.
    pub models: Option<ModelPermissions>,
}

/// The properties of a new key.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    /// Id of its project.
    pub project: &'a str,
    /// Its owner, if it belongs to a service account.
    pub service_account: Option<&'a str>,
    /// Display name.
    pub name: &'a str,
    /// When it expires.
    pub expires_at: Option<Micros>,
    /// The models that it may use, of those of its project; `None`: all.
    pub models: Option<&'a ModelPermissions>,
}

/// Creates a key. Returns it with its text, which is not stored. Returns `None` if the project does
/// not exist or is archived.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    new: NewKey<'_>,
    act: Act,
    random: &dyn Random,
) -> Result<Option<(Key, Secret)>, Error> {
    let (key, text) = make(new, act.at(), random);
    let event = created(&key);
    let made = audit::commit(database, act, event, vec![insert(&key).expecting(1)], &[]).await?;
    Ok(made.map(|_| (key, text)))
}

/// Creates a key without storing it.
pub(super) fn make(new: NewKey<'_>, now: Micros, random: &dyn Random) -> (Key, Secret) {
    let kind = match new.service_account {
        Some(_) => key_text::Kind::ServiceAccount,
        None => key_text::Kind::Project,
    };
    let text = key_text::new(kind, random);
    let key = Key {
        id: ids::new("key_", now, random),
        project: new.project.into(),
        service_account: new.service_account.map(Into::into),
        name: new.name.into(),
        redacted: key_text::redacted(&text).into(),
        created_at: seconds(now),
        expires_at: new.expires_at,
        last_used_at: None,
        hash: key_text::hash(text.reveal()).into(),
        models: new.models.cloned(),
    };
    (key, text)
}

/// The statement that stores the key if its project is active.
pub(super) fn insert(key: &Key) -> Statement {
    Statement::new(
        "INSERT INTO keys (hash, id, project, service_account, name, redacted, created_at, \
         expires_at, model_permissions, organization, search_text) \
         SELECT $1, $2, id, $3, $4, $5, $6, $7, $8, organization, $10 FROM projects \
         WHERE id = $9 AND archived_at IS NULL",
        [
            (&*key.hash).into(),
            (&key.id).into(),
            key.service_account.clone().into(),
            (&key.name).into(),
            (&key.redacted).into(),
            key.created_at.into(),
            key.expires_at.into(),
            model_permissions::encode(key.models.as_ref()).into(),
            (&key.project).into(),
            key_search::text(&key.name, &key.id, &key.redacted).into(),
        ],
    )
}

/// The key with that hash. The directory calls it for keys that are not cached.
///
/// # Errors
/// See [`Error`].
pub async fn by_hash(database: &Database, hash: &[u8; 32]) -> Result<Option<Key>, Error> {
    let sql = "SELECT id, project, service_account, name, redacted, created_at, expires_at, \
               last_used_at, hash, model_permissions FROM keys WHERE hash = $1";
    let rows = database.query(Statement::new(sql, [hash.as_slice().into()])).await?;
    rows.first().map(read).transpose()
}

/// A project's key of that id.
///
/// # Errors
/// See [`Error`].
pub async fn get(database: &Database, project: &str, id: &str) -> Result<Option<Key>, Error> {
    let sql = "SELECT id, project, service_account, name, redacted, created_at, expires_at, \
               last_used_at, hash, model_permissions FROM keys WHERE id = $1 AND project = $2";
    let rows = database.query(Statement::new(sql, [id.into(), project.into()])).await?;
    rows.first().map(read).transpose()
}

/// A page of a project's keys.
///
/// # Errors
/// See [`Error`].
pub async fn list(database: &Database, project: &str, page: &Page) -> Result<Listed<Key>, Error> {
    let value = project.into();
    let condition = "project = $1";
    let source = Source { columns: COLUMNS, table: "keys", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// Revokes a key. Returns `None` if the project has no such key.
///
/// # Errors
/// See [`Error`].
pub async fn revoke(
    database: &Database,
    project: &str,
    id: &str,
    act: Act,
) -> Result<Option<Key>, Error> {
    let Some(key) = get(database, project, id).await? else { return Ok(None) };
    let delete = Statement::new("DELETE FROM keys WHERE hash = $1", [(&*key.hash).into()]);
    let event = Event { after: None, ..changed("api_key.deleted", &key) };
    let told = [forgets(&key)];
    let done = audit::commit(database, act, event, vec![delete.expecting(1)], &told).await?;
    Ok(done.map(|()| key))
}

/// Sets when a key expires. Returns `None` if the project has no such key, or it has expired.
///
/// # Errors
/// See [`Error`].
pub async fn expire(
    database: &Database,
    project: &str,
    id: &str,
    expires_at: Option<Micros>,
    act: Act,
) -> Result<Option<Key>, Error> {
    let Some(mut key) = get(database, project, id).await? else { return Ok(None) };
    let update = Statement::new(
        "UPDATE keys SET expires_at = $1 WHERE hash = $2 AND COALESCE(expires_at, $3) >= $3",
        [expires_at.into(), (&*key.hash).into(), act.at().into()],
    );
    let event = changed("api_key.updated", &key);
    let told = [forgets(&key)];
    let done = audit::commit(database, act, event, vec![update.expecting(1)], &told).await?;
    key.expires_at = expires_at;
    Ok(done.map(|()| key))
}

/// Sets the models that a key may use; `None`: all of its project. Returns `None` if the project has
/// no such key.
///
/// # Errors
/// See [`Error`].
pub async fn set_models(
    database: &Database,
    project: &str,
    id: &str,
    models: Option<&ModelPermissions>,
    act: Act,
) -> Result<Option<()>, Error> {
    let Some(key) = get(database, project, id).await? else { return Ok(None) };
    let update = Statement::new(
        "UPDATE keys SET model_permissions = $1 WHERE hash = $2",
        [model_permissions::encode(models).into(), (&*key.hash).into()],
    );
    let event = changed("api_key.model_permissions.updated", &key);
    audit::commit(database, act, event, vec![update.expecting(1)], &[forgets(&key)]).await
}

/// Replaces a key by a new one with the same name, owner, expiry and models. The old key stays valid for
/// `grace`, but not beyond its own expiry. Returns `None` if the project has no such key, the key
/// has expired, or the project is archived.
///
/// # Errors
/// See [`Error`].
pub async fn rotate(
    database: &Database,
    project: &str,
    id: &str,
    grace: Micros,
    act: Act,
    random: &dyn Random,
) -> Result<Option<(Key, Secret)>, Error> {
    let Some(old) = get(database, project, id).await? else { return Ok(None) };
    let new = NewKey {
        project,
        service_account: old.service_account.as_deref(),
        name: &old.name,
        expires_at: old.expires_at,
        models: old.models.as_ref(),
    };
    let now = act.at();
    let (key, text) = make(new, now, random);
    let retire = Statement::new(
        "UPDATE keys SET expires_at = CASE WHEN expires_at < $1 THEN expires_at ELSE $1 END \
         WHERE hash = $2 AND COALESCE(expires_at, $3) >= $3",
        [now.saturating_add(grace).into(), (&*old.hash).into(), now.into()],
    );
    let statements = vec![retire.expecting(1), insert(&key).expecting(1)];
    let event = Event { after: Some(image(&key.id)), ..changed("api_key.rotated", &old) };
    let done = audit::commit(database, act, event, statements, &[forgets(&old)]).await?;
    Ok(done.map(|()| (key, text)))
}

/// The change that makes caches forget a key.
fn forgets(key: &Key) -> Change {
    Change::Key(ids::hex(&key.hash).into())
}

/// The event of a change of a key.
fn changed<'a>(kind: &'static str, key: &'a Key) -> Event<'a> {
    let (before, after) = (Some(image(&key.id)), Some(image(&key.id)));
    let (project, object) = (Some(&*key.project), &*key.id);
    Event { kind, organization: None, project, object, before, after }
}

/// The event of a new key.
pub(super) fn created(key: &Key) -> Event<'_> {
    Event { before: None, ..changed("api_key.created", key) }
}

/// A key in the audit log.
pub(super) fn image(id: &str) -> Image {
    let sql = "SELECT id, name, redacted, service_account, expires_at, model_permissions \
               FROM keys WHERE id = $1";
    let columns = &[
        ("id", Form::Plain),
        ("name", Form::Plain),
        ("redacted_value", Form::Plain),
        ("service_account_id", Form::Plain),
        ("expires_at", Form::Moment),
        ("model_permissions", Form::Json),
    ];
    Image::new(sql, [id.into()], columns)
}

/// Records when keys were last used, in seconds. Skips deleted keys.
///
/// # Errors
/// See [`Error`]. Earlier transactions of the call stay committed.
pub async fn touch(database: &Database, used: &[(Box<str>, i64)]) -> Result<(), Error> {
    for part in used.chunks(TOUCHED) {
        let update = |(id, at): &(Box<str>, i64)| {
            Statement::new(
                "UPDATE keys SET last_used_at = $1 \
                 WHERE id = $2 AND (COALESCE(last_used_at, 0) < $1 OR last_used_at > $3)",
                [Value::from(*at), id.into(), (at + AHEAD).into()],
            )
        };
        database.transact(part.iter().map(update).collect()).await?;
    }
    Ok(())
}

/// Reads a key from the first columns of a row, [`COLUMNS`].
pub(super) fn read(row: &Row) -> Result<Key, Error> {
    Ok(Key {
        id: row.text(0)?,
        project: row.text(1)?,
        service_account: row.optional_text(2)?,
        name: row.text(3)?,
        redacted: row.text(4)?,
        created_at: row.integer(5)?,
        expires_at: row.optional_count(6)?,
        last_used_at: row.optional_integer(7)?,
        hash: row.bytes(8)?,
        models: model_permissions::read(row, 9)?,
    })
}
