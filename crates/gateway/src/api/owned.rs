//! Who owns what: responses, files, vector stores and whatever else model servers make under an id
//! belongs to the project that had it made. Another project's id is answered like one that does not
//! exist.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::Exchange;
use crate::database::{Database, DatabaseError};
use crate::error::ApiError;
use crate::records::responses::Place;
use crate::records::{owned_objects, responses};
use crate::serve::answer::Told;
use crate::state::{Gateway, Log};
use crate::world;

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
pub struct Remembered {
    recent: Mutex<Recent>,
    sender: mpsc::Sender<Made>,
}

#[derive(Debug, Default)]
struct Recent {
    places: HashMap<Box<str>, Place>,
    order: VecDeque<Box<str>>,
}

#[derive(Debug)]
struct Made {
    what: What,
    id: Box<str>,
    place: Place,
    at: i64,
}

impl Remembered {
    /// Begins to write what is remembered.
    pub fn start(database: Arc<Database>, log: Log) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(write(database, receiver, log));
        Self { recent: Mutex::default(), sender }
    }

    fn remember(&self, made: Made, log: &Log) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.places.contains_key(&made.id) {
            return;
        }
        recent.places.insert(made.id.clone(), made.place.clone());
        recent.order.push_back(made.id.clone());
        if recent.order.len() > RECENT
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.places.remove(&oldest);
        }
        drop(recent);
        if let Err(error) = self.sender.try_send(made) {
            let made = error.into_inner();
            log.line(format_args!("the owner of {} was lost: the store is too slow", made.id));
        }
    }

    /// Whose an id is, if it was seen lately.
    fn recent(&self, id: &str) -> Option<Place> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.places.get(id).cloned()
    }

    fn forget(&self, id: &str) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.places.remove(id);
        recent.order.retain(|known| **known != *id);
    }
}

async fn write(database: Arc<Database>, mut receiver: mpsc::Receiver<Made>, log: Log) {
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, TOGETHER).await > 0 {
        let statements: Vec<_> = batch.iter().map(Made::statement).collect();
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

impl Made {
    fn statement(&self) -> crate::database::Statement {
        match self.what {
            What::Response => responses::remembering(&self.id, &self.place, self.at),
            What::Object => owned_objects::remembering(&self.id, &self.place, self.at),
        }
    }
}

impl Exchange {
    /// What is to be done when the id of something that was made is known.
    pub(super) fn remembers(&self, what: What) -> Told {
        let gateway = Arc::clone(&self.gateway);
        let project = self.caller.project.id.clone();
        let upstream = self.model.as_ref().map(|model| model.upstream.name.clone());
        let at = world::seconds(self.now);
        Box::new(move |id| {
            let Some(upstream) = upstream else { return };
            let made = Made { what, id: id.into(), place: Place { project, upstream }, at };
            gateway.remembered.remember(made, &gateway.log);
        })
    }

    /// Where something is that this project had made; `None` when nothing is known of it.
    ///
    /// # Errors
    /// 404 for another project's, 503 when the store is away.
    pub(super) async fn place(&self, what: What, id: &str) -> Result<Option<Place>, ApiError> {
        let place = match self.gateway.remembered.recent(id) {
            Some(place) => Some(place),
            None => {
                let found = find(&self.gateway, what, id, world::seconds(self.now)).await;
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
    pub(super) async fn owns_all(&self, ids: &[String]) -> Result<(), ApiError> {
        for id in ids {
            let what = if id.starts_with("resp") { What::Response } else { What::Object };
            if self.place(what, id).await?.is_none() {
                return Err(not_found(id));
            }
        }
        Ok(())
    }

    /// Whether something was made for this project a moment ago, and is perhaps not written yet.
    pub(super) fn made_lately(&self, id: &str) -> bool {
        let place = self.gateway.remembered.recent(id);
        place.is_some_and(|place| *place.project == *self.caller.project.id)
    }

    /// What was deleted belongs to nobody.
    pub(super) async fn forget(&self, what: What, id: &str) {
        self.gateway.remembered.forget(id);
        let database = &self.gateway.database;
        let forgotten = match what {
            What::Response => responses::delete(database, id).await,
            What::Object => owned_objects::delete(database, id).await,
        };
        if let Err(error) = forgotten {
            self.gateway.log.line(format_args!("the owner of {id} stays: {error}"));
        }
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
