//! Cached state of keys, projects and organizations. A project has one slot for all its keys, and
//! an organization one for all its projects: a change updates one slot, and each caller is rebuilt
//! at its next request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use ratelimit::Micros;

use crate::records::keys::Key;
use gateway_policy::tenants::{Caller, ModelPermissions, Organization, Project};

/// Slots in use, by id. Unreferenced slots are removed when the number of slots has doubled.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Grows with each applied change: state that was read before a change must not be cached after
    /// it.
    pub(super) epoch: u64,
    pub(super) organizations: HashMap<Box<str>, Weak<OrganizationSlot>>,
    pub(super) projects: HashMap<Box<str>, Weak<ProjectSlot>>,
    swept: usize,
}

#[derive(Debug)]
pub(super) struct OrganizationSlot {
    pub(super) id: Box<str>,
    /// `None`: the organization has ended.
    pub(super) current: ArcSwapOption<Organization>,
}

#[derive(Debug)]
pub(super) struct ProjectSlot {
    pub(super) id: Box<str>,
    pub(super) organization: Arc<OrganizationSlot>,
    pub(super) current: ArcSwap<Project>,
}

#[derive(Debug)]
pub(super) struct KeySlot {
    pub(super) hash: [u8; 32],
    pub(super) id: Box<str>,
    project: Arc<ProjectSlot>,
    expires_at: Option<Micros>,
    models: Option<ModelPermissions>,
    caller: ArcSwap<Caller>,
    /// Unix seconds.
    used: AtomicI64,
    written: AtomicI64,
}

impl Slots {
    /// Removes unreferenced slots when there are many.
    pub(super) fn sweep(&mut self) {
        if self.organizations.len() + self.projects.len() < self.swept * 2 + 1024 {
            return;
        }
        self.organizations.retain(|_, slot| slot.strong_count() > 0);
        self.projects.retain(|_, slot| slot.strong_count() > 0);
        self.swept = self.organizations.len() + self.projects.len();
    }
}

impl ProjectSlot {
    /// The organization and the project, if both are active.
    pub(super) fn now(&self) -> Option<(Arc<Organization>, Arc<Project>)> {
        let project = self.current.load_full();
        let organization = self.organization.current.load_full()?;
        (!project.archived).then_some((organization, project))
    }
}

impl KeySlot {
    pub(super) fn new(hash: [u8; 32], key: Key, project: Arc<ProjectSlot>) -> Option<Self> {
        let (organization, of) = project.now()?;
        let Key { id, expires_at, models, .. } = key;
        let caller = Caller {
            key: id.clone(),
            organization,
            project: of,
            models: models.clone(),
            derived: <_>::default(),
        };
        let caller = ArcSwap::from_pointee(caller);
        let (used, written) = (AtomicI64::new(0), AtomicI64::new(0));
        Some(Self { hash, id, project, expires_at, models, caller, used, written })
    }

    /// The caller's current state; `None` when its key has ended.
    pub(super) fn caller(&self, now: Micros, second: i64) -> Option<Arc<Caller>> {
        if self.expires_at.is_some_and(|end| end <= now) {
            return None;
        }
        // Also back, after a clock that was wrong.
        if self.used.load(Ordering::Relaxed) != second {
            self.used.store(second, Ordering::Relaxed);
        }
        let project = self.project.current.load();
        let organization = self.project.organization.current.load();
        let organization = organization.as_ref()?;
        if project.archived {
            return None;
        }
        let known = self.caller.load();
        if Arc::ptr_eq(&known.project, &project) && Arc::ptr_eq(&known.organization, organization) {
            return Some(Arc::clone(&known));
        }
        let caller = Arc::new(Caller {
            key: self.id.clone(),
            organization: Arc::clone(organization),
            project: Arc::clone(&project),
            models: self.models.clone(),
            derived: <_>::default(),
        });
        self.caller.store(Arc::clone(&caller));
        Some(caller)
    }

    /// The last use, if it is not persisted yet.
    pub(super) fn unwritten(&self) -> Option<i64> {
        let used = self.used.load(Ordering::Relaxed);
        (used != self.written.load(Ordering::Relaxed)).then_some(used)
    }

    pub(super) fn wrote(&self, at: i64) {
        self.written.store(at, Ordering::Relaxed);
    }
}
