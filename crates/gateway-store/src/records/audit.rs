//! The audit log, as it is written: each change by an administrator commits together with the one
//! row that says who did what, from where, and the values before and after. A change takes an
//! [`Act`] and uses it up, so that none can be made without a row, and none makes two. The
//! [`Conditions`] of an act are checked in the same transaction.

use ratelimit::Micros;
use serde_json::{Map, Value as Json};

use super::changes::{Change, announce};
use super::conditions::{self, Conditions, Version};
use super::ids;
use crate::database::{Database, Statement, StatementResult, Value};
use crate::{Error, ErrorKind};
use gateway_policy::dates::seconds;
use gateway_policy::environment::Random;
use gateway_policy::tenants::Tier;

/// Longest user agent that is kept, in characters.
const MAX_USER_AGENT: usize = 256;

/// The id of the configured admin token as an actor.
pub const ADMIN_TOKEN: &str = "admin_token";

/// The one who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A credential in the header of a request: [`ADMIN_TOKEN`] or the id of an admin key.
    Key(Box<str>),
    /// The same, by a session of the dashboard.
    Session(Box<str>),
    /// The gateway itself, at its first start.
    Gateway,
    /// A client without a valid credential.
    Unknown,
}

impl Actor {
    /// The stored name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => "api_key",
            Self::Session(_) => "session",
            Self::Gateway => "gateway",
            Self::Unknown => "unknown",
        }
    }

    /// Its id: what `actor_ids` of a list names.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Key(id) | Self::Session(id) => id,
            Self::Gateway | Self::Unknown => self.kind(),
        }
    }

    pub(super) fn read(kind: &str, id: Box<str>) -> Self {
        match kind {
            "api_key" => Self::Key(id),
            "session" => Self::Session(id),
            "gateway" => Self::Gateway,
            _ => Self::Unknown,
        }
    }
}

/// One act: the actor, the moment, and the place from which the request came.
#[derive(Debug)]
pub struct Act {
    id: Box<str>,
    at: Micros,
    actor: Actor,
    address: Option<Box<str>>,
    user_agent: Option<Box<str>>,
    conditions: Conditions,
}

impl Act {
    /// An act of this moment.
    #[must_use]
    pub fn new(actor: Actor, now: Micros, random: &dyn Random) -> Self {
        let id = ids::new("audit_log-", now, random);
        let conditions = Conditions::default();
        Self { id, at: now, actor, address: None, user_agent: None, conditions }
    }

    /// An act of the gateway itself.
    #[must_use]
    pub fn of_gateway(now: Micros, random: &dyn Random) -> Self {
        Self::new(Actor::Gateway, now, random)
    }

    /// Adds where the request came from. Of the user agent, control characters and whatever looks
    /// like a key are masked, and only the beginning is kept.
    #[must_use]
    pub fn from(self, address: Option<String>, user_agent: Option<&str>) -> Self {
        let user_agent = user_agent.map(masked).filter(|text| !text.is_empty());
        Self { address: address.map(Into::into), user_agent, ..self }
    }

    /// Sets its conditions.
    #[must_use]
    pub fn provided(self, conditions: Conditions) -> Self {
        Self { conditions, ..self }
    }

    /// When it happens.
    #[must_use]
    pub fn at(&self) -> Micros {
        self.at
    }

    /// The same in Unix seconds.
    #[must_use]
    pub fn seconds(&self) -> i64 {
        seconds(self.at)
    }
}

fn masked(user_agent: &str) -> Box<str> {
    let words = user_agent.split_whitespace().map(|word| match word.contains("sk-") {
        true => "***".to_owned(),
        false => word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect(),
    });
    let words: Vec<String> = words.collect();
    words.join(" ").chars().take(MAX_USER_AGENT).collect::<String>().into()
}

/// The change that an act makes.
#[derive(Debug)]
pub(super) struct Event<'a> {
    /// Its type on the wire, such as `project.created`.
    pub(super) kind: &'static str,
    /// The organization; `None`: that of the project.
    pub(super) organization: Option<&'a str>,
    /// The project that it is scoped to.
    pub(super) project: Option<&'a str>,
    /// The id of the object.
    pub(super) object: &'a str,
    /// The row before; `None` if the act creates it.
    pub(super) before: Option<Image>,
    /// The row after; `None` if the act deletes it.
    pub(super) after: Option<Image>,
}

/// A query of one row whose values an event shows, by the names of its columns on the wire.
#[derive(Clone, Debug)]
pub(super) struct Image {
    sql: &'static str,
    values: Vec<Value>,
    columns: &'static [(&'static str, Form)],
    /// The row that is locked first, so that rows which do not exist yet are not added at once.
    parent: Option<Statement>,
}

/// The form in which a column is stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// As it is shown.
    Plain,
    /// Microseconds, shown as seconds.
    Moment,
    /// The number of a tier, shown by its name.
    Tier,
    /// A text of JSON.
    Json,
}

impl Image {
    pub(super) fn new(
        sql: &'static str,
        values: impl Into<Vec<Value>>,
        columns: &'static [(&'static str, Form)],
    ) -> Self {
        Self { sql, values: values.into(), columns, parent: None }
    }

    /// Adds the query of the row that the image's row belongs to.
    pub(super) fn of_parent(self, parent: Statement) -> Self {
        Self { parent: Some(parent), ..self }
    }

    fn query(&self) -> Statement {
        Statement::new(self.sql, self.values.clone())
    }

    /// The row as a JSON object; `None` without a row.
    fn read(&self, result: Option<&StatementResult>) -> Option<String> {
        let row = result?.rows.first()?;
        let members = self.columns.iter().zip(row.values());
        let members: Map<String, Json> =
            members.map(|((name, form), value)| ((*name).to_owned(), form.show(value))).collect();
        Some(Json::Object(members).to_string())
    }
}

impl Form {
    fn show(self, value: &Value) -> Json {
        match (self, value) {
            (Self::Moment, Value::Integer(at)) => (at / 1_000_000).into(),
            (Self::Tier, Value::Integer(number)) => {
                let tier = usize::try_from(*number).ok().and_then(|number| Tier::ALL.get(number));
                tier.map(|tier| tier.name()).into()
            }
            (Self::Json, Value::Text(text)) => serde_json::from_str(text).unwrap_or_default(),
            (_, Value::Integer(number)) => (*number).into(),
            (_, Value::Text(text)) => text.to_string().into(),
            (_, Value::Null | Value::Bytes(_)) => Json::Null,
        }
    }
}

/// Commits changes together with their row of the audit log, and announces them to caches. The
/// first image is read under a lock, so that it is what the changes replace. Returns `None`, and
/// changes nothing, if a statement does not find the rows that it expects.
///
/// # Errors
/// A condition of the act is not met, [`ErrorKind::Repeated`] or [`ErrorKind::Changed`]; otherwise
/// see [`Error`].
pub(super) async fn commit(
    database: &Database,
    act: Act,
    event: Event<'_>,
    changes: Vec<Statement>,
    announced: &[Change],
) -> Result<Option<()>, Error> {
    let at = act.seconds();
    let Conditions { once, expected } = act.conditions.clone();
    let mut statements: Vec<Statement> = Vec::with_capacity(changes.len() + 7);
    if let Some(image) = &event.before {
        statements.extend(image.parent.clone().map(Statement::locking));
        statements.push(image.query().locking());
    }
    // Without an image it is not read.
    let before = statements.len().saturating_sub(1);
    let is_repeated = once.map(|text| push(&mut statements, conditions::once(&text, at)));
    let is_changed = event.before.clone().zip(expected).map(|(image, expected)| {
        let read = move |results: &[StatementResult]| {
            Version::of_values(image.read(results.get(before)).as_deref())
        };
        push(&mut statements, conditions::is_expected(expected, read))
    });
    statements.extend(changes);
    let after = statements.len();
    statements.extend(event.after.as_ref().map(Image::query));
    statements.push(insert(act, event, (before, after)));
    statements.extend(announced.iter().flat_map(|change| announce(change, at)));
    let Err(error) = database.transact(statements).await else { return Ok(Some(())) };
    match error.kind() {
        ErrorKind::Unmet { statement } if is_repeated == Some(statement) => Err(Error::repeated()),
        ErrorKind::Unmet { statement } if is_changed == Some(statement) => Err(Error::changed()),
        ErrorKind::Unmet { .. } => Ok(None),
        _ => Err(error),
    }
}

/// Adds a statement and returns its index.
fn push(statements: &mut Vec<Statement>, statement: Statement) -> usize {
    statements.push(statement);
    statements.len() - 1
}

/// The row of an image as a JSON object; `None` without a row.
///
/// # Errors
/// See [`Error`].
pub(super) async fn read_image(
    database: &Database,
    image: &Image,
) -> Result<Option<String>, Error> {
    let rows = database.query(image.query()).await?;
    Ok(image.read(Some(&StatementResult { affected: 0, rows })))
}

/// Records an act that changes no row of its own: its details are the value after it.
///
/// # Errors
/// See [`Error`].
pub async fn note(
    database: &Database,
    act: Act,
    kind: &'static str,
    organization: &str,
    details: &Json,
) -> Result<(), Error> {
    let statement = Statement::new(
        INSERT,
        row(&act, kind, Some(organization), None, "", [Value::Null, details.to_string().into()]),
    );
    database.transact(vec![statement]).await.map(drop)
}

const INSERT: &str = "INSERT INTO audit_logs (id, at, organization, project, kind, object, actor_kind, actor, address, \
     user_agent, value_before, value_after) VALUES ($1, $2, \
     COALESCE($3, (SELECT organization FROM projects WHERE id = $4), ''), $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// The statement that adds the row. The images are the results at `before` and `after`.
fn insert(act: Act, event: Event<'_>, (before, after): (usize, usize)) -> Statement {
    let Event { kind, organization, project, object, before: old, after: new } = event;
    let organization: Option<Box<str>> = organization.map(Into::into);
    let (project, object): (Option<Box<str>>, Box<str>) = (project.map(Into::into), object.into());
    Statement::computed(INSERT, move |results| {
        let images = [
            old.as_ref().and_then(|image| image.read(results.get(before))).into(),
            new.as_ref().and_then(|image| image.read(results.get(after))).into(),
        ];
        row(&act, kind, organization.as_deref(), project.as_deref(), &object, images)
    })
    .expecting(1)
}

fn row(
    act: &Act,
    kind: &'static str,
    organization: Option<&str>,
    project: Option<&str>,
    object: &str,
    [before, after]: [Value; 2],
) -> Vec<Value> {
    vec![
        (&act.id).into(),
        act.at.into(),
        organization.into(),
        project.into(),
        kind.into(),
        object.into(),
        act.actor.kind().into(),
        act.actor.id().into(),
        act.address.clone().into(),
        act.user_agent.clone().into(),
        before,
        after,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_agents_are_bounded_and_without_keys() {
        let check = |given: &str, kept: &str| assert_eq!(&*masked(given), kept, "{given}");
        check("curl/8.1", "curl/8.1");
        check("  a\tb  c ", "a b c");
        check("a\u{1b}[31m", "a\u{fffd}[31m");
        check("mine sk-admin-abcdef/1 key=sk-proj-x", "mine *** ***");
        assert_eq!(masked(&"\u{e9}".repeat(1000)).chars().count(), MAX_USER_AGENT);
    }

    #[test]
    fn stored_values_are_shown_as_on_the_wire() {
        let check = |form: Form, value: Value, shown: Json| assert_eq!(form.show(&value), shown);
        check(Form::Plain, 7_i64.into(), 7.into());
        check(Form::Plain, Value::Null, Json::Null);
        check(Form::Plain, "a".into(), "a".into());
        check(Form::Moment, 1_500_000_i64.into(), 1.into());
        check(Form::Moment, Value::Null, Json::Null);
        check(Form::Tier, 0_i64.into(), "free".into());
        check(Form::Tier, 9_i64.into(), Json::Null);
        check(Form::Json, r#"{"a":1}"#.into(), serde_json::json!({ "a": 1 }));
        check(Form::Json, "{".into(), Json::Null);
    }
}
