//! Sends the messages of one signal to its collector, and again where that can help. A failure is logged
//! once, until a message arrives again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use http_client::retry::{Policy, requested_wait};
use http_client::{HttpClient, HttpVersions, PoolOptions, error_chain};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::endpoint::header;
use crate::grpc;
use crate::queue::Queue;
use crate::reply::Rejected;
use crate::services::Services;
use crate::settings::{Encoding, Exporter, Signal};

/// Attempts for one message.
const ATTEMPTS: u32 = 4;
/// Longest answer that is read.
const MAX_ANSWER: usize = 64 * 1024;
/// Meanwhile the queue fills and then drops, so a collector may ask for a long wait.
const WAITS: Policy = Policy {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(10),
    longest_asked: Duration::from_mins(5),
};

type Client = HttpClient;

/// The sender of one signal's messages.
pub(crate) struct Sender {
    signal: Signal,
    exporter: Exporter,
    client: Option<Client>,
    is_failing: bool,
}

/// Why an attempt failed.
struct Problem {
    message: String,
    is_transient: bool,
    /// The wait that the collector asks for.
    asked: Option<Duration>,
}

impl Problem {
    fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: false, asked: None }
    }

    fn passing(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: true, asked: None }
    }
}

impl Sender {
    pub(crate) fn new(signal: Signal, exporter: Exporter) -> Self {
        Self { signal, exporter, client: None, is_failing: false }
    }

    pub(crate) fn signal(&self) -> Signal {
        self.signal
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.exporter.encoding
    }

    /// Sends a message of `items`. Returns how many of them the collector does not have. Once the queue is
    /// closed, there is one attempt.
    pub(crate) async fn send(
        &mut self,
        body: Bytes,
        items: u64,
        services: &Services,
        queue: &Queue,
    ) -> u64 {
        let mut failures = 0;
        let problem = loop {
            let problem = match self.attempt(body.clone(), services).await {
                Ok(rejected) => return self.accepted(&rejected).min(items),
                Err(problem) => problem,
            };
            failures += 1;
            if !problem.is_transient || failures == ATTEMPTS {
                break problem;
            }
            self.report(&problem.message);
            let asked = problem.asked.map(|asked| asked.min(WAITS.longest_asked));
            let wait = WAITS.wait(failures, asked).unwrap_or_default();
            tokio::select! {
                () = queue.closed() => break problem,
                () = tokio::time::sleep(wait.drawn((services.jitter)())) => {}
            }
        };
        self.report(&problem.message);
        items
    }

    fn accepted(&mut self, rejected: &Rejected) -> u64 {
        if rejected.items > 0 {
            self.report(&format!("it refused {} of them: {}", rejected.items, rejected.why));
        } else if std::mem::take(&mut self.is_failing) {
            let (label, signal) = (self.exporter.endpoint.label(), self.signal.name());
            tracing::info!("{label} accepts {signal} again");
        }
        rejected.items
    }

    fn report(&mut self, problem: &str) {
        if std::mem::replace(&mut self.is_failing, true) {
            return;
        }
        let (label, signal, key) =
            (self.exporter.endpoint.label(), self.signal.name(), self.signal.key());
        tracing::warn!(
            "{label} does not take {signal}: {problem}; check `{key}`. What cannot be delivered is dropped, \
             and further failures are not logged"
        );
    }

    async fn attempt(&mut self, body: Bytes, services: &Services) -> Result<Rejected, Problem> {
        let client = self.client(services).await?;
        let request = self.request(body, services)?;
        let encoding = self.exporter.encoding;
        let exchange = async {
            let answer = client.request(request).await;
            let answer = answer.map_err(|error| Problem::passing(error_chain(&error)))?;
            match encoding {
                Encoding::Grpc => read_grpc(answer).await,
                Encoding::Protobuf | Encoding::Json => read(answer, encoding, services).await,
            }
        };
        let timeout = self.exporter.timeout;
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| {
            Err(Problem::passing(format!("no answer within {} s", timeout.as_secs_f64())))
        })
    }

    /// The client, which is built at the first attempt. Reads the files of TLS.
    async fn client(&mut self, services: &Services) -> Result<Client, Problem> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let (network, files) = (services.network.clone(), self.exporter.tls.clone());
        let options = PoolOptions {
            connect_timeout: self.exporter.timeout,
            idle_timeout: Duration::from_secs(90),
            max_idle_per_host: 1,
            versions: match self.exporter.encoding {
                Encoding::Grpc => HttpVersions::Http2,
                Encoding::Protobuf | Encoding::Json => HttpVersions::Any,
            },
        };
        let built = tokio::task::spawn_blocking(move || network.client(&files, &options)).await;
        let client = match built {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(Problem::lasting(error.to_string())),
            Err(_) => return Err(Problem::lasting("setting up TLS ended unexpectedly")),
        };
        Ok(self.client.insert(client).clone())
    }

    fn request(&self, body: Bytes, services: &Services) -> Result<Request<Full<Bytes>>, Problem> {
        let (content_type, body) = match self.exporter.encoding {
            Encoding::Protobuf => ("application/x-protobuf", body),
            Encoding::Json => ("application/json", body),
            Encoding::Grpc => {
                let framed = grpc::frame(&body);
                (
                    grpc::CONTENT_TYPE,
                    framed.ok_or_else(|| Problem::lasting("the message is too long"))?,
                )
            }
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.exporter.endpoint.uri().clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Ok(agent) = HeaderValue::from_str(&services.user_agent) {
            headers.insert(USER_AGENT, agent);
        }
        if self.exporter.encoding == Encoding::Grpc {
            headers.insert(HeaderName::from_static("te"), HeaderValue::from_static("trailers"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static(content_type));
        }
        let own = self.exporter.headers.iter().filter_map(|(name, value)| header(name, value));
        headers.extend(own);
        Ok(request)
    }
}

/// Reads the answer over HTTP.
async fn read(
    answer: Response<hyper::body::Incoming>,
    encoding: Encoding,
    services: &Services,
) -> Result<Rejected, Problem> {
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        return Err(refused(head.status, &head.headers, services));
    }
    // The message has arrived, whatever becomes of the rest of the answer.
    let Ok(body) = Limited::new(body, MAX_ANSWER).collect().await else {
        return Ok(Rejected::default());
    };
    Ok(match encoding {
        Encoding::Json => Rejected::in_json(&body.to_bytes()),
        _ => Rejected::in_protobuf(&body.to_bytes()),
    })
}

fn refused(status: StatusCode, headers: &HeaderMap, services: &Services) -> Problem {
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos((services.clock)());
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_transient = matches!(status.as_u16(), 429 | 502 | 503 | 504);
    let advice = match status.as_u16() {
        401 | 403 => "; it wants other credentials: set them in `headers`",
        404 | 405 => "; this address takes no such messages",
        300..=399 => "; redirects are not followed: configure the address that it leads to",
        _ => "",
    };
    Problem {
        message: format!("it answered {status}{advice}"),
        is_transient,
        asked: requested_wait(now, text).filter(|_| is_transient),
    }
}

/// Reads the answer of a gRPC call, whose status follows the body.
async fn read_grpc(answer: Response<hyper::body::Incoming>) -> Result<Rejected, Problem> {
    let (head, body) = answer.into_parts();
    if head.status != StatusCode::OK {
        let message = format!("it answered {}, which is not gRPC", head.status);
        let is_transient = matches!(head.status.as_u16(), 429 | 502 | 503 | 504);
        return Err(Problem { message, is_transient, asked: None });
    }
    let body = Limited::new(body, MAX_ANSWER).collect().await;
    let body = body.map_err(|error| Problem::passing(format!("its answer broke off: {error}")))?;
    let status = grpc::status(&head.headers, body.trailers());
    let status = status.ok_or_else(|| Problem::lasting("its answer has no status of gRPC"))?;
    if !status.is_ok() {
        let message =
            format!("it answered with the gRPC status {}: {}", status.code, status.message);
        return Err(Problem { message, is_transient: status.is_transient(), asked: None });
    }
    Ok(grpc::message(&body.to_bytes()).map_or_else(Rejected::default, Rejected::in_protobuf))
}
