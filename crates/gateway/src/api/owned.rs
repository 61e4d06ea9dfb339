//! Who owns what: responses, files, vector stores and whatever else model servers make under an id
//! belongs to the project that had it made. Another project's id is answered like one that does not
//! exist.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::Exchange;
use crate::serve::answer::Told;
use crate::state::Gateway;
use gateway_policy::dates;
use gateway_policy::environment::Log;
use gateway_policy::error::ApiError;
use gateway_store::database::{Database, DatabaseError};
use gateway_store::records::responses::Place;
use gateway_store::records::{owned_objects, responses};

/// Ids that were seen last are known before the store has them.
const RECENT: usize = 16_384;
/// Ids that wait to be written; what comes when it is full is lost, and logged.
const WAITING: usize = 65_536;
/// Most of them in one transaction.
const TOGETHER: usize = 256;

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Remembered for 30 days.
    Response,
    /// Remembered until it is deleted.
    Object,
}

/// Ids on their way into the store.
#[derive(Debug)]
pub(crate) struct Remembered {
    recent: Mutex<Recent>,
    sender: mpsc::Sender<Change>,
}

#[derive(Debug, Default)]
struct Recent {
    /// `None`: it was deleted.
    places: HashMap<Box<str>, Option<Place>>,
    order: VecDeque<Box<str>>,
}

#[derive(Debug)]
struct Change {
    what: What,
    id: Box<str>,
    /// Whose it is from now on; `None`: it was deleted.
    place: Option<Place>,
    at: i64,
}

impl Recent {
    fn note(&mut self, id: &str, place: Option<Place>) {
        if self.places.insert(id.into(), place).is_none() {
            self.order.push_back(id.into());
        }
        if self.order.len() > RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.places.remove(&oldest);
        }
    }
}

impl Remembered {
    /// Begins to write what is remembered.
    pub(crate) fn start(database: Arc<Database>, log: Log) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(write(database, receiver, log));
        Self { recent: Mutex::default(), sender }
    }

    /// Takes a change down. They are written in their order: what is deleted at once stays deleted.
    fn note(&self, change: Change, log: &Log) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = matches!(recent.places.get(&change.id), Some(Some(_)));
        if is_known && change.place.is_some() {
            return;
        }
        recent.note(&change.id, change.place.clone());
        drop(recent);
        if let Err(error) = self.sender.try_send(change) {
            let change = error.into_inner();
            log.line(format_args!("the owner of {} was lost: the store is too slow", change.id));
        }
    }

    /// Whose an id is, if it was seen lately; inside `None` where it was deleted.
    fn recent(&self, id: &str) -> Option<Option<Place>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.places.get(id).cloned()
    }

    /// Whether something of a project was seen lately. Looks at all that was: ask the store first.
    pub(super) fn has_any(&self, project: &str) -> bool {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.places.values().flatten().any(|place| *place.project == *project)
    }
}

async fn write(database: Arc<Database>, mut receiver: mpsc::Receiver<Change>, log: Log) {
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, TOGETHER).await > 0 {
        let statements: Vec<_> = batch.iter().map(Change::statement).collect();
        while let Err(error) = database.transact(statements.clone()).await {
            log.line(format_args!("owners of {} objects: {error}", batch.len()));
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
        match (self.what, &self.place) {
            (What::Response, Some(place)) => responses::remembering(&self.id, place, self.at),
            (What::Object, Some(place)) => owned_objects::remembering(&self.id, place, self.at),
            (What::Response, None) => responses::forgetting(&self.id),
            (What::Object, None) => owned_objects::forgetting(&self.id),
        }
    }
}

impl Exchange {
    /// What is to be done when the id of something that was made is known.
    pub(super) fn remembers(&self, what: What) -> Told {
        let gateway = Arc::clone(&self.gateway);
        let project = self.caller.project.id.clone();
        let upstream = self.model.as_ref().map(|model| model.upstream.name.clone());
        let at = dates::seconds(self.now);
        Box::new(move |id| {
            let Some(upstream) = upstream else { return };
            let place = Some(Place { project, upstream });
            gateway.remembered.note(Change { what, id: id.into(), place, at }, &gateway.log);
        })
    }

    /// Where something is that this project had made; `None` when nothing is known of it.
    ///
    /// # Errors
    /// 404 for another project's, 503 when the store is away.
    pub(super) async fn place(&self, what: What, id: &str) -> Result<Option<Place>, ApiError> {
        let place = match self.gateway.remembered.recent(id) {
            Some(place) => place,
            None => {
                let found = find(&self.gateway, what, id, dates::seconds(self.now)).await;
                found.map_err(|_| ApiError::store_unavailable())?
            }
        };
        match place {
            Some(place) if *place.project != *self.caller.project.id => Err(not_found(id)),
            place => Ok(place),
        }
    }

    /// That all of these ids are this project's, as far as they are known.
    ///
    /// # Errors
    /// 404 for the first that is not.
    pub(super) async fn owns_all(&self, ids: &[(What, String)]) -> Result<(), ApiError> {
        for (what, id) in ids {
            if self.place(*what, id).await?.is_none() {
                return Err(not_found(id));
            }
        }
        Ok(())
    }

    /// Whether something was made for this project a moment ago, and is perhaps not written yet.
    pub(super) fn made_lately(&self, id: &str) -> bool {
        let place = self.gateway.remembered.recent(id).flatten();
        place.is_some_and(|place| *place.project == *self.caller.project.id)
    }

    /// What was deleted belongs to nobody.
    pub(super) fn forget(&self, what: What, id: &str) {
        let at = dates::seconds(self.now);
        let gone = Change { what, id: id.into(), place: None, at };
        self.gateway.remembered.note(gone, &self.gateway.log);
    }
}

async fn find(
    gateway: &Gateway,
    what: What,
    id: &str,
    now: i64,
) -> Result<Option<Place>, DatabaseError> {
    match what {
        What::Response => responses::find(&gateway.database, id, now).await,
        What::Object => owned_objects::find(&gateway.database, id).await,
    }
}

/// 404 for an id that is not there, or not for this project.
pub(super) fn not_found(id: &str) -> ApiError {
    let id: String = id.chars().take(100).collect();
    ApiError::not_found("not_found", format!("There is nothing with the id `{id}`."))
}
