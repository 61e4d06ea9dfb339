//! A request for a form: its reader, and the records that its address names.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use hyper::http::request::Parts;
use serde_json::Value;

use super::super::access::Access;
use super::super::api::{Call, Refusal};
use super::super::context::Context;
use super::super::page::Failure;
use super::super::text::query_value;
use crate::Services;
use gateway_policy::dates::seconds;
use gateway_policy::tenants::Organization;
use gateway_store::records::conditions::{Conditions, Version};
use gateway_store::records::keys::{self, Key};
use gateway_store::records::organizations;
use gateway_store::records::projects::{self, Stored};
use gateway_store::records::versions::{Versioned, version};

/// A request for a form.
pub(super) struct Visit {
    pub(super) context: Arc<Context>,
    pub(super) access: Access,
    /// The address of the form.
    pub(super) path: String,
    /// Ids in the address.
    names: HashMap<String, String>,
}

impl FromRequestParts<Arc<Context>> for Visit {
    type Rejection = Failure;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Context>,
    ) -> Result<Self, Failure> {
        let access = Access::from_request_parts(parts, context).await?;
        let names = Path::from_request_parts(parts, context).await;
        let Path(names) = names.map_err(|_| Failure::NotFound("no such page".to_owned()))?;
        Ok(Self { context: Arc::clone(context), access, path: parts.uri.path().to_owned(), names })
    }
}

impl Visit {
    pub(super) fn services(&self) -> &Services {
        &self.context.services
    }

    /// The present moment in Unix seconds.
    pub(super) fn seconds(&self) -> i64 {
        seconds(self.services().clock.now())
    }

    /// An id in the address; empty without one.
    pub(super) fn name(&self, name: &str) -> &str {
        self.names.get(name).map_or("", String::as_str)
    }

    /// The address of the organization's page.
    pub(super) fn organization_page(&self) -> String {
        format!("/dashboard/organizations/{}", query_value(self.name("id")))
    }

    /// The address of the project's page.
    pub(super) fn project_page(&self) -> String {
        format!("{}/projects/{}", self.organization_page(), query_value(self.name("project")))
    }

    /// The address of the key's page.
    pub(super) fn key_page(&self) -> String {
        format!("{}/keys/{}", self.project_page(), query_value(self.name("key")))
    }

    /// The path of the project at the API.
    pub(super) fn project_path(&self) -> String {
        format!("/v1/organization/projects/{}", query_value(self.name("project")))
    }

    /// The path of the key at the API.
    pub(super) fn key_path(&self) -> String {
        format!("{}/api_keys/{}", self.project_path(), query_value(self.name("key")))
    }

    /// The organization that the address names.
    pub(super) async fn organization(&self) -> Result<Organization, Failure> {
        let id = self.name("id");
        self.access.check_organization(id)?;
        let found = organizations::get(&self.services().database, id).await?;
        found.ok_or_else(|| Failure::no_organization(id))
    }

    /// Its project that the address names.
    pub(super) async fn project(&self, organization: &Organization) -> Result<Stored, Failure> {
        let id = self.name("project");
        let found = projects::get(&self.services().database, id).await?;
        let found = found.filter(|found| found.organization == organization.id);
        found.ok_or_else(|| Failure::missing("project", id))
    }

    /// The key of that project that the address names.
    pub(super) async fn key(&self, project: &Stored) -> Result<Key, Failure> {
        let id = self.name("key");
        let found = keys::get(&self.services().database, &project.project.id, id).await?;
        found.ok_or_else(|| Failure::missing("key", id))
    }

    /// The version of a record.
    pub(super) async fn version(&self, record: Versioned<'_>) -> Result<Version, Failure> {
        Ok(version(&self.services().database, record).await?)
    }

    /// Links to the organization's page and the pages above it.
    pub(super) fn above_organization(&self, organization: &Organization) -> Vec<(String, String)> {
        let own = (self.organization_page(), organization.name.to_string());
        match self.access.only() {
            Some(_) => vec![own],
            None => vec![("/dashboard".to_owned(), "Organizations".to_owned()), own],
        }
    }

    /// Links to the project's page and the pages above it.
    pub(super) fn above_project(
        &self,
        organization: &Organization,
        project: &Stored,
    ) -> Vec<(String, String)> {
        let mut above = self.above_organization(organization);
        above.push((self.project_page(), project.project.name.to_string()));
        above
    }

    /// Sends a request to the administration API.
    pub(super) async fn call(&self, call: Call, conditions: Conditions) -> Result<Value, Refusal> {
        let authority = self.access.authority();
        self.context.api.call(authority, self.name("id"), call, conditions).await
    }
}
