//! Plays scripts inside this process, without a socket. Their bytes pass through the decoder of
//! network responses, so both behave alike.

use std::{
    collections::HashMap,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use files::Pool;
use hyper::{HeaderMap, StatusCode};
use model::{
    Client, Decoder, Event, Failure, FailureKind, Network, OfflineTransport, Options, Provider,
};
use tokio::{sync::mpsc, time};

use crate::script::{
    Script, ScriptError,
    engine::{Answer, Engine, Refusal},
    player::{Action, Player},
    request::RequestBody,
};

/// Most cached scripts; when exceeded, the cache is cleared and scripts are loaded again on use.
const MAX_SCRIPTS: usize = 64;

/// Plays the script that a request's model names: a built-in one, or a file by its absolute path.
#[derive(Debug, Default)]
pub struct ScriptedTransport {
    loaded: Mutex<HashMap<String, Loaded>>,
    /// Reads script files, whose paths come from clients.
    files: Pool,
}

#[derive(Debug, Clone)]
struct Loaded {
    engine: Arc<Engine>,
    /// When the file has another version, it is loaded again and its conversations start over.
    version: Version,
}

/// Why a request has no script.
#[derive(Debug, thiserror::Error)]
enum EngineError {
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    File(#[from] files::Error),
}

impl OfflineTransport for ScriptedTransport {
    fn respond(
        self: Arc<Self>,
        provider: Arc<Provider>,
        body: Bytes,
        events: mpsc::Sender<Vec<Event>>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.play_script(&provider, &body, &events).await })
    }
}

impl ScriptedTransport {
    /// A client that plays scripts for providers whose transport is offline, and reaches others over
    /// `network`.
    #[must_use]
    pub fn client(network: Network) -> Client {
        let offline: Arc<dyn OfflineTransport> = Arc::new(Self::default());
        Client::with_options(Options { network, offline: Some(offline) })
    }

    async fn play_script(
        &self,
        provider: &Provider,
        body: &Bytes,
        sender: &mpsc::Sender<Vec<Event>>,
    ) {
        let request = RequestBody::parse(body);
        let model = request.as_ref().map_or("", |request| &request.model);
        let engine = match self.engine(model).await {
            Ok(engine) => engine,
            Err(error) => {
                let failure = Failure::new(FailureKind::BadRequest, error.to_string());
                // Ignored: the reader is gone.
                let _ = sender.send(vec![Event::Failed(failure)]).await;
                return;
            }
        };
        match engine.answer(body, &HeaderMap::new()) {
            Answer::Stream(player) => play(*player, provider.stream_idle_timeout, sender).await,
            Answer::Refusal(refusal) => refuse(provider, refusal, sender).await,
        }
    }

    async fn engine(&self, model: &str) -> Result<Arc<Engine>, EngineError> {
        let path = Path::new(model);
        if !path.is_absolute() {
            return match self.kept(model, None) {
                Some(engine) => Ok(engine),
                None => Ok(self.keep(model, None, Script::built_in(model)?)),
            };
        }
        let file = path.to_owned();
        let version = self.files.run(path, move || version(&file)).await?;
        if let Some(engine) = self.kept(model, version) {
            return Ok(engine);
        }
        let file = path.to_owned();
        let script = self.files.run(path, move || Script::load(&file)).await??;
        Ok(self.keep(model, version, script))
    }

    fn kept(&self, model: &str, version: Version) -> Option<Arc<Engine>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let found = loaded.get(model).filter(|found| found.version == version)?;
        Some(Arc::clone(&found.engine))
    }

    /// Caches `script`, unless another request has loaded the same version meanwhile: that one
    /// holds the state of open conversations.
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

/// Modification time and size of a script file; `None` for a built-in script.
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
            Action::Bytes(bytes) | Action::Raw(bytes) => decoder.feed(&bytes, &mut batch),
            Action::Pause(pause) => time::sleep(pause).await,
            Action::Cut => decoder.cut_off(&mut batch),
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
        // Ignored: the reader is gone.
        let _ = sender.send(rest).await;
    }
}

/// Reports a scripted refusal as a failure that is not worth retrying.
async fn refuse(provider: &Provider, refusal: Refusal, sender: &mpsc::Sender<Vec<Event>>) {
    time::sleep(refusal.delay).await;
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let target = "the scripted model";
    let headers = HeaderMap::new();
    let failure = model::failure_from_status(provider, target, status, &headers, &refusal.body);
    let _ = sender.send(vec![Event::Failed(failure)]).await;
}
