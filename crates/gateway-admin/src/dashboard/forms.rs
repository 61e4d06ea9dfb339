//! Forms that change records. Each is a page of its own that works without scripts: `GET` shows it
//! with the record's values, `POST` passes it on to the administration API and redirects. A refused
//! form is shown again with what was entered and the reason next to its field; one whose record
//! somebody else has changed meanwhile shows both values. A form is done at most once.

mod edit;
mod entered;
mod expiry;
mod form;
mod keys;
mod limits;
mod model_list;
mod models;
mod organizations;
mod projects;
mod secret;
mod spend;
mod visit;

use std::sync::Arc;

use super::context::Context;
use crate::routes::Routes;
use edit::{Edit, send, show};

type PageRoutes = Routes<Arc<Context>>;

/// The routes of all forms.
pub(super) fn routes(routes: PageRoutes) -> PageRoutes {
    let routes = add::<organizations::Create>(routes);
    let routes = add::<organizations::Update>(routes);
    let routes = add::<organizations::Pay>(routes);
    let routes = add::<projects::Create>(routes);
    let routes = add::<projects::Update>(routes);
    let routes = add::<projects::Archive>(routes);
    let routes = add::<models::OfProject>(routes);
    let routes = add::<models::OfKey>(routes);
    let routes = add::<limits::Update>(routes);
    let routes = add::<keys::Create>(routes);
    let routes = add::<keys::Expire>(routes);
    let routes = add::<keys::Rotate>(routes);
    let routes = add::<keys::Revoke>(routes);
    let routes = add::<spend::Limit<spend::OfOrganization>>(routes);
    let routes = add::<spend::Limit<spend::OfProject>>(routes);
    let routes = add::<spend::AddAlert<spend::OfOrganization>>(routes);
    let routes = add::<spend::AddAlert<spend::OfProject>>(routes);
    let routes = add::<spend::SetAlert<spend::OfOrganization>>(routes);
    let routes = add::<spend::SetAlert<spend::OfProject>>(routes);
    let routes = add::<spend::DeleteAlert<spend::OfOrganization>>(routes);
    add::<spend::DeleteAlert<spend::OfProject>>(routes)
}

fn add<E: Edit>(routes: PageRoutes) -> PageRoutes {
    routes.get(E::PATH, show::<E>).post(E::PATH, send::<E>)
}
