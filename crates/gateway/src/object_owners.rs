//! The owner of each object that upstreams created (responses, files, vector stores …): the project
//! whose request created it, and the upstream that has it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use gateway_store::database::Database;
use gateway_store::records::responses::ObjectOwner;
use gateway_store::records::{owned_objects, responses};

/// Most recently used objects, whose owners are known before the store has them.
const RECENT: usize = 16_384;
/// Most changes that wait to be written. When full, further ones are dropped and logged.
const WAITING: usize = 65_536;
/// Changes per transaction.
const TOGETHER: usize = 256;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// A response: recorded for 30 days.
    Response,
    /// Any other object: recorded until it is deleted.
    Object,
}

/// The owners of objects. Lookups see a change before the store has it.
pub(crate) struct ObjectOwners {
    database: Arc<Database>,
    recent: Mutex<Recent>,
    sender: mpsc::Sender<Change>,
}

#[derive(Debug, Default)]
struct Recent {
    /// `None`: the object was deleted.
    owners: HashMap<Box<str>, Option<ObjectOwner>>,
    order: VecDeque<Box<str>>,
}

#[derive(Debug)]
struct Change {
    kind: ObjectKind,
    id: Box<str>,
    /// `None`: the object was deleted.
    owner: Option<ObjectOwner>,
    at: i64,
}

impl Recent {
    fn note(&mut self, id: &str, owner: Option<ObjectOwner>) {
        if self.owners.insert(id.into(), owner).is_none() {
            self.order.push_back(id.into());
        }
        if self.order.len() > RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }
}

impl ObjectOwners {
    /// Starts the task that writes changes; it ends with this value.
    pub(crate) fn start(database: Arc<Database>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(write(Arc::clone(&database), receiver));
        Self { database, recent: Mutex::default(), sender }
    }

    /// Records the owner of an object, or its deletion when `owner` is `None`. Never waits. Changes
    /// are written in order, so that an object that is deleted immediately stays deleted.
    pub(crate) fn note(&self, kind: ObjectKind, id: &str, owner: Option<ObjectOwner>, at: i64) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = matches!(recent.owners.get(id), Some(Some(_)));
        if is_known && owner.is_some() {
            return;
        }
        recent.note(id, owner.clone());
        drop(recent);
        if self.sender.try_send(Change { kind, id: id.into(), owner, at }).is_err() {
            tracing::warn!("the owner of {id} was not stored: too many changes wait for the store");
        }
    }

    /// The owner of an object; `None` when none is known: it was deleted, or is a response older
    /// than 30 days.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(crate) async fn find(
        &self,
        kind: ObjectKind,
        id: &str,
        now: i64,
    ) -> Result<Option<ObjectOwner>, gateway_store::Error> {
        match (self.recent(id), kind) {
            (Some(known), _) => Ok(known),
            (None, ObjectKind::Response) => responses::find(&self.database, id, now).await,
            (None, ObjectKind::Object) => owned_objects::find(&self.database, id).await,
        }
    }

    /// The owner of a recently used object; `Some(None)` when the object was deleted.
    pub(crate) fn recent(&self, id: &str) -> Option<Option<ObjectOwner>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.owners.get(id).cloned()
    }

    /// Returns whether an object of the project was used recently. Scans all of them: query the
    /// store first.
    pub(crate) fn has_any(&self, project: &str) -> bool {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.owners.values().flatten().any(|owner| *owner.project == *project)
    }
}

async fn write(database: Arc<Database>, mut receiver: mpsc::Receiver<Change>) {
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, TOGETHER).await > 0 {
        let statements: Vec<_> = batch.iter().map(Change::statement).collect();
        while let Err(error) = database.transact(statements.clone()).await {
            tracing::warn!("the owners of {} objects were not stored: {error}", batch.len());
            if !error.is_unavailable() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        batch.clear();
    }
}

impl Change {
    fn statement(&self) -> gateway_store::database::Statement {
        match (self.kind, &self.owner) {
            (ObjectKind::Response, Some(owner)) => responses::remembering(&self.id, owner, self.at),
            (ObjectKind::Object, Some(owner)) => {
                owned_objects::remembering(&self.id, owner, self.at)
            }
            (ObjectKind::Response, None) => responses::forgetting(&self.id),
            (ObjectKind::Object, None) => owned_objects::forgetting(&self.id),
        }
    }
}
