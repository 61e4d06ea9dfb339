//! Ownership checks: the response for another project's id is the same as for an unknown one.

use std::sync::Arc;

use super::Exchange;
use crate::answer::OnObjectId;
use crate::object_owners::ObjectKind;
use gateway_body::FormIds;
use gateway_policy::dates;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Backend;
use gateway_store::records::responses::ObjectOwner;

impl Exchange {
    /// The callback for the id of a new object: records that this project owns it, and that a backend has it.
    pub(super) fn remembers(&self, kind: ObjectKind, backend: &Backend) -> OnObjectId {
        let backend = backend.name.clone();
        let gateway = Arc::clone(&self.gateway);
        let project = self.caller.project.id.clone();
        let upstream = self.model.as_ref().map(|model| model.upstream.name.clone());
        let at = dates::seconds(self.now);
        Box::new(move |id| {
            let Some(upstream) = upstream else { return };
            let owner = ObjectOwner { project, upstream, backend };
            gateway.object_owners.note(kind, id, Some(owner), at);
        })
    }

    /// The location of this project's object; `None` when its owner is unknown.
    ///
    /// # Errors
    /// 404 for another project's object, 503 when the store is unavailable.
    pub(super) async fn owner(
        &self,
        kind: ObjectKind,
        id: &str,
    ) -> Result<Option<ObjectOwner>, ApiError> {
        let owner = self.gateway.object_owners.find(kind, id, dates::seconds(self.now)).await;
        match owner.map_err(|_| ApiError::store_unavailable())? {
            Some(owner) if *owner.project != *self.caller.project.id => Err(not_found(id)),
            owner => Ok(owner),
        }
    }

    /// Checks that this project owns all of these objects. Returns the place of the first one.
    ///
    /// # Errors
    /// 404 for the first one that it does not own.
    pub(super) async fn owns_all(
        &self,
        ids: &[(ObjectKind, String)],
    ) -> Result<Option<ObjectOwner>, ApiError> {
        let mut first = None;
        for (kind, id) in ids {
            let owner = self.owner(*kind, id).await?.ok_or_else(|| not_found(id))?;
            first.get_or_insert(owner);
        }
        Ok(first)
    }

    /// Checks that no other project owns one of these objects. The upstream makes some of them itself, which have no
    /// known owner. Returns the place of the first one that is known.
    ///
    /// # Errors
    /// 404 for the first one of another project.
    pub(super) async fn may_use(&self, ids: Vec<String>) -> Result<Option<ObjectOwner>, ApiError> {
        let mut first = None;
        for id in ids {
            first = first.or(self.owner(ObjectKind::Object, &id).await?);
        }
        Ok(first)
    }

    /// Checks that the project may use what a form refers to. Returns the place of the first object that is known.
    ///
    /// # Errors
    /// As [`Exchange::owns_all`] and [`Exchange::may_use`].
    pub(super) async fn place_of(&self, ids: FormIds) -> Result<Option<ObjectOwner>, ApiError> {
        let files: Vec<_> = ids.files.into_iter().map(|id| (ObjectKind::Object, id)).collect();
        let place = self.owns_all(&files).await?;
        Ok(place.or(self.may_use(ids.others).await?))
    }

    /// Returns whether the object was created for this project a moment ago, and may be missing in
    /// the store.
    pub(super) fn made_lately(&self, id: &str) -> bool {
        let owner = self.gateway.object_owners.recent(id).flatten();
        owner.is_some_and(|owner| *owner.project == *self.caller.project.id)
    }

    /// Records that an object was deleted.
    pub(super) fn forget(&self, kind: ObjectKind, id: &str) {
        self.gateway.object_owners.note(kind, id, None, dates::seconds(self.now));
    }
}

/// 404 for an object that does not exist, or that another project owns.
pub(super) fn not_found(id: &str) -> ApiError {
    let id: String = id.chars().take(100).collect();
    ApiError::not_found("not_found", format!("There is nothing with the id `{id}`."))
}
