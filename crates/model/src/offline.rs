//! The offline transport: scripts played inside this process. What is played goes through the same
//! decoder as an answer from the network, so both behave alike; no socket is involved.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use files::Pool;
use hyper::{HeaderMap, StatusCode};
use tokio::{sync::mpsc, time};

use crate::{
    Decoder, Event, Failure, FailureKind, Provider,
    script::{
        Script,
        engine::{Answer, Engine, Refusal},
        player::{Action, Player},
        request::RequestBody,
    },
};

/// Scripts kept loaded; beyond it all of them are loaded again when used.
const MAX_SCRIPTS: usize = 64;

/// The scripts in use, by model name.
#[derive(Debug, Default)]
pub(crate) struct Offline {
    loaded: Mutex<HashMap<String, Loaded>>,
    /// Reads script files: a client names them.
    files: Pool,
}

#[derive(Debug, Clone)]
struct Loaded {
    engine: Arc<Engine>,
    /// Another one is loaded anew, and its conversations start over.
    version: Version,
}

impl Offline {
    /// Plays the answer to the request in `body`, whose model names the script.
    pub(crate) async fn respond(
        &self,
        provider: &Provider,
        body: &Bytes,
        sender: &mpsc::Sender<Vec<Event>>,
    ) {
        let request = RequestBody::parse(body);
        let model = request.as_ref().map_or("", |request| &request.model);
        let engine = match self.engine(model).await {
            Ok(engine) => engine,
            Err(message) => {
                let failure = Failure::new(FailureKind::BadRequest, message);
                // A reader that went away needs no answer.
                let _ = sender.send(vec![Event::Failed(failure)]).await;
                return;
            }
        };
        match engine.answer(body, &HeaderMap::new()) {
            Answer::Stream(player) => play(*player, provider.stream_idle_timeout, sender).await,
            Answer::Refusal(refusal) => refuse(provider, refusal, sender).await,
        }
    }

    /// The error is for people.
    async fn engine(&self, model: &str) -> Result<Arc<Engine>, String> {
        let path = Path::new(model);
        if !path.is_absolute() {
            let load = || Script::built_in(model).map_err(|error| error.to_string());
            return match self.kept(model, None) {
                Some(engine) => Ok(engine),
                None => Ok(self.keep(model, None, load()?)),
            };
        }
        let file = path.to_owned();
        let version = self.files.run(path, move || version(&file)).await;
        let version = version.map_err(|error| error.to_string())?;
        if let Some(engine) = self.kept(model, version) {
            return Ok(engine);
        }
        let file = path.to_owned();
        let script = self.files.run(path, move || Script::load(&file)).await;
        let script = script.map_err(|error| error.to_string())?;
        Ok(self.keep(model, version, script.map_err(|error| error.to_string())?))
    }

    fn kept(&self, model: &str, version: Version) -> Option<Arc<Engine>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let found = loaded.get(model).filter(|found| found.version == version)?;
        Some(Arc::clone(&found.engine))
    }

    /// Another request may have loaded the same version meanwhile: then that one is used, because
    /// conversations are under way in it.
    fn keep(&self, model: &str, version: Version, script: Script) -> Arc<Engine> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = loaded.get(model).filter(|found| found.version == version) {
            return Arc::clone(&found.engine);
        }
        if loaded.len() >= MAX_SCRIPTS {
            loaded.clear();
        }
        let engine = Arc::new(Engine::new(script));
        loaded.insert(model.to_owned(), Loaded { engine: Arc::clone(&engine), version });
        engine
    }
}

/// Time and size of a script file; `None` for a script that is built in.
type Version = Option<(SystemTime, u64)>;

fn version(path: &Path) -> Version {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

async fn play(player: Player, idle: Duration, sender: &mpsc::Sender<Vec<Event>>) {
    let mut decoder = Decoder::new();
    for action in player {
        let mut batch = Vec::new();
        match action {
            Action::Bytes(bytes) => decoder.feed(&bytes, &mut batch),
            Action::Pause(pause) => time::sleep(pause).await,
            Action::Cut => decoder.finish(&mut batch),
            Action::Idle => {
                time::sleep(idle).await;
                let message = format!("the script sent nothing for {} s", idle.as_secs_f64());
                decoder.fail(Failure::disconnected(message), &mut batch);
            }
        }
        if !batch.is_empty() && sender.send(batch).await.is_err() {
            return;
        }
    }
    let mut rest = Vec::new();
    decoder.finish(&mut rest);
    if !rest.is_empty() {
        // A reader that went away needs no end.
        let _ = sender.send(rest).await;
    }
}

/// A scripted refusal fails at once: there is nobody to try again with.
async fn refuse(provider: &Provider, refusal: Refusal, sender: &mpsc::Sender<Vec<Event>>) {
    time::sleep(refusal.delay).await;
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let target = "the scripted model";
    let headers = HeaderMap::new();
    let failure = Failure::from_status(provider, target, status, &headers, &refusal.body);
    let _ = sender.send(vec![Event::Failed(failure)]).await;
}
