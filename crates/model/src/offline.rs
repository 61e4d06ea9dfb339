//! The offline transport: scripts played inside this process. What is played goes through the same
//! decoder as an answer from the network, so both behave alike; no socket is involved.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use tokio::{sync::mpsc, time};

use crate::{
    Decoder, Event, Failure, FailureKind, Provider,
    script::{
        Script, ScriptError,
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
}

#[derive(Debug, Clone)]
struct Loaded {
    engine: Arc<Engine>,
    /// Time and size of a script file: another one is loaded anew, its conversations start over.
    version: Option<(SystemTime, u64)>,
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
        let engine = match self.engine(model) {
            Ok(engine) => engine,
            Err(error) => {
                let failure = Failure::new(FailureKind::BadRequest, error.to_string());
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

    fn engine(&self, model: &str) -> Result<Arc<Engine>, ScriptError> {
        let path = Path::new(model);
        let version = path.is_absolute().then(|| version(path)).flatten();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = loaded.get(model).filter(|found| found.version == version) {
            return Ok(Arc::clone(&found.engine));
        }
        let script = match path.is_absolute() {
            true => Script::load(path)?,
            false => Script::built_in(model)?,
        };
        if loaded.len() >= MAX_SCRIPTS {
            loaded.clear();
        }
        let engine = Arc::new(Engine::new(script));
        loaded.insert(model.to_owned(), Loaded { engine: Arc::clone(&engine), version });
        Ok(engine)
    }
}

fn version(path: &Path) -> Option<(SystemTime, u64)> {
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
    let failure = Failure::from_status(provider, target, status, None, &refusal.body);
    let _ = sender.send(vec![Event::Failed(failure)]).await;
}
