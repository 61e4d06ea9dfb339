//! Keys that an operator makes at the store, without the administration API: the first one of a gateway without a
//! configuration, and those of `agentd gateway create-key`.

use gateway_policy::environment::{Environment, Random};
use gateway_policy::settings::{Settings, StoreUrl};
use gateway_store::database::Database;
use gateway_store::records::audit::Act;
use gateway_store::records::{DEFAULT_ORGANIZATION, Page, keys, organizations, projects};

use crate::open::{OpenError, make_private};
use crate::state::Gateway;

impl Gateway {
    /// Creates a project and a key for the default organization if it has no project yet. Returns
    /// the key, to be shown once.
    ///
    /// # Errors
    /// The store's.
    pub async fn first_key(&self) -> Result<Option<String>, gateway_store::Error> {
        let (database, random) = (&self.database, &*self.random);
        let known = projects::list(database, DEFAULT_ORGANIZATION, true, &Page::first(1)).await?;
        if !known.items.is_empty() {
            return Ok(None);
        }
        let act = || Act::of_gateway(self.clock.now(), random);
        make(database, random, act, ("Default project", "First key")).await
    }
}

/// Creates a key for a project of the default organization, which is created if there is none of that name. Gateways
/// that serve the store know the key within a second. Returns the key, to be shown once; `None` if there is no
/// default organization any longer.
///
/// # Errors
/// The store cannot be opened or written.
pub async fn create_key(
    settings: &Settings,
    environment: &Environment,
    project: &str,
    name: &str,
) -> Result<Option<String>, OpenError> {
    if let StoreUrl::Sqlite(path) = &settings.store
        && let Some(folder) = path.parent()
    {
        make_private(folder)?;
    }
    let database = Database::open(&settings.store).await?;
    let random = &*environment.random;
    let act = || {
        let act = Act::of_gateway(environment.clock.now(), random);
        act.from(None, Some("agentd gateway create-key"))
    };
    organizations::ensure_default(&database, act()).await?;
    Ok(make(&database, random, act, (project, name)).await?)
}

async fn make(
    database: &Database,
    random: &dyn Random,
    act: impl Fn() -> Act,
    (project, name): (&str, &str),
) -> Result<Option<String>, gateway_store::Error> {
    let organization = DEFAULT_ORGANIZATION;
    let known = projects::named(database, organization, project).await?;
    let project = match known {
        Some(known) => Some(known),
        None => projects::create(database, organization, project, None, act(), random).await?,
    };
    let Some(project) = project else { return Ok(None) };
    let project = &*project.project.id;
    let new = keys::NewKey { project, service_account: None, name, expires_at: None, models: None };
    let made = keys::create(database, new, act(), random).await?;
    Ok(made.map(|(_, text)| text.reveal().to_owned()))
}
