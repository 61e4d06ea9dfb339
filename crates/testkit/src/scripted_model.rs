//! The scripted model on a loopback port, which records its requests.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model_server::script::Script;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A scripted model, served over HTTP until it is dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    log: Log,
    _stop: oneshot::Sender<()>,
}

impl ScriptedModel {
    /// Serves `script` (docs/model-server.md).
    ///
    /// # Panics
    /// If the script is invalid, or no port is free.
    pub async fn serve(script: &Value) -> Self {
        let script = Script::parse("the test", &script.to_string()).expect("a script");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let log = Log::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let written = Box::new(log.clone());
        tokio::spawn(async move {
            let stopped = async {
                // Resolves when the model is dropped.
                let _ = stopped.await;
            };
            model_server::serve(listener, script, Some(written), stopped).await
        });
        Self { address, log, _stop: stop }
    }

    /// The `base_url` of a provider.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bodies of all requests so far, in order.
    ///
    /// # Panics
    /// If a request was not JSON.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let read = |body: &String| serde_json::from_str(body).expect("requests are JSON");
        self.raw_requests().iter().map(read).collect()
    }

    /// The bodies of all requests so far, in order and unchanged.
    ///
    /// # Panics
    /// If a request was not JSON.
    #[must_use]
    pub fn raw_requests(&self) -> Vec<String> {
        // A request without a body is not a request for a response.
        let bodies = self.logged("body").into_iter().flatten();
        bodies.filter(|body| body != "null").collect()
    }

    /// The header `traceparent` of every request so far, `None` where there was none.
    ///
    /// # Panics
    /// If the log is damaged.
    #[must_use]
    pub fn traceparents(&self) -> Vec<Option<String>> {
        let read =
            |json: String| serde_json::from_str(&json).expect("a header is logged as a string");
        self.logged("traceparent").into_iter().map(|json| json.map(read)).collect()
    }

    /// A member of every line of the log, as JSON.
    fn logged(&self, member: &str) -> Vec<Option<String>> {
        let log = self.log.lock();
        let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let line: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_slice(line).expect("the log is lines of JSON objects");
                line.get(member).map(|value| value.get().to_owned())
            })
            .collect()
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
