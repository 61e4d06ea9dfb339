//! Recorders against a collector in the process that decodes what arrives, and misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_client::{Network, Secret, TlsFiles};
use telemetry::collector::{Behaviour, Collector, Data, Received, text};
use telemetry::{
    Attribute, Encoding, Exporter, ExporterSettings, Failed, Operation, Prompt, Recorder, Services,
    Settings, Signal, Span, TraceContext, names,
};
use tokio_rustls::TlsAcceptor;

const LIMIT: Duration = Duration::from_secs(20);
const ENCODINGS: [Encoding; 3] = [Encoding::Protobuf, Encoding::Json, Encoding::Grpc];

fn services() -> Arc<Services> {
    let (count, time) = (AtomicU64::new(1), AtomicU64::new(1_700_000_000_000_000_000));
    Arc::new(Services {
        network: Network::default(),
        clock: Arc::new(move || time.fetch_add(1, Ordering::Relaxed)),
        random: Arc::new(move |bytes| {
            let number = count.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            bytes.iter_mut().rev().zip(number.iter().rev()).for_each(|(byte, one)| *byte = *one);
        }),
        jitter: Arc::new(|| 0.0),
        figures: Arc::default(),
        user_agent: "agentd/test".to_owned(),
    })
}

fn exporter(signal: Signal, encoding: Encoding, url: &str, tls: TlsFiles) -> Exporter {
    let headers = vec![("x-tenant".to_owned(), Secret::new("blue"))];
    let endpoint = Some(url.to_owned());
    let configured = ExporterSettings { signal, encoding, endpoint, headers, tls };
    // A short time limit, so that what hangs is given up soon.
    let limit = |name: &str| (name == "OTEL_EXPORTER_OTLP_TIMEOUT").then(|| "2000".to_owned());
    Exporter::new(configured, &limit).unwrap()
}

fn settings(encoding: Encoding, url: &str) -> Settings {
    let exporter = |signal| Some(exporter(signal, encoding, url, TlsFiles::default()));
    Settings {
        resource: telemetry::resource("1.0", "test", &|_| None),
        logs: exporter(Signal::Logs),
        traces: exporter(Signal::Traces),
        metrics: exporter(Signal::Metrics),
    }
}

fn traces_only(encoding: Encoding, url: &str) -> Settings {
    Settings { logs: None, metrics: None, ..settings(encoding, url) }
}

fn span(recorder: &Recorder, number: i64) -> Span {
    Span {
        context: recorder.new_trace(),
        parent: 7,
        operation: Operation::Chat,
        subject: "m".to_owned(),
        began: 1_000_000_000,
        ended: 1_500_000_000,
        attributes: vec![
            Attribute::new(names::REQUEST_MODEL, "m"),
            Attribute::new(names::INPUT_TOKENS, number),
            Attribute::new(names::COST, 0.5),
        ],
        failed: None,
    }
}

fn all<T>(received: &[Received], of: impl Fn(&Received) -> Vec<T>) -> Vec<T> {
    received.iter().flat_map(of).collect()
}

/// The value of a counter in the last message with metrics.
fn counted(received: &[Received], metric: &str, signal: &str) -> Option<f64> {
    let last = received.iter().rfind(|one| !one.metrics.is_empty())?;
    let metric = last.metrics.iter().find(|one| one.name == metric)?;
    let Some(Data::Sum(sum)) = &metric.data else { return None };
    let is_signal =
        |attributes: &[_]| text(attributes, "agentd.telemetry.signal").as_deref() == Some(signal);
    let point = sum.data_points.iter().find(|point| is_signal(&point.attributes))?;
    match point.value? {
        opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsDouble(value) => {
            Some(value)
        }
        opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsInt(_) => None,
    }
}

// Effect of `otel.exporter.<id>.headers`, `otel.exporter.<id>.protocol`.
// Effect of `otel.metrics_exporter.<id>.headers`, `otel.metrics_exporter.<id>.protocol`.
#[tokio::test]
async fn all_signals_arrive_in_every_encoding() {
    for encoding in ENCODINGS {
        let collector = Collector::start([]).await;
        let recorder = Recorder::start(settings(encoding, &collector.url()), services());
        let failed =
            Some(Failed { kind: "timeout".to_owned(), message: Some("too slow".to_owned()) });
        recorder.record(Span { failed, ..span(&recorder, 5) });
        let context = TraceContext::root([9; 24]);
        let attributes = vec![Attribute::new(names::PROMPT, "hello")];
        recorder.record_prompt(Prompt { context, at: 3, attributes });
        recorder.close(LIMIT).await;
        let received = collector.received(3).await;
        for one in &received {
            assert_eq!(one.headers["x-tenant"], "blue", "{encoding:?}");
            assert_eq!(one.headers["user-agent"], "agentd/test");
            assert_eq!(one.schema_url, names::SCHEMA_URL);
            let of = |key| text(&one.resource, key);
            assert_eq!(of("service.name").as_deref(), Some("agentd"));
            assert_eq!(of("deployment.environment.name").as_deref(), Some("test"));
        }
        let spans = all(&received, |one| one.spans.clone());
        let [span] = &spans[..] else { panic!("{encoding:?}: {spans:?}") };
        assert_eq!(
            (span.name.as_str(), span.trace_id.len(), span.span_id.len()),
            ("chat m", 16, 8)
        );
        assert_eq!(span.parent_span_id, 7u64.to_be_bytes());
        assert_eq!(text(&span.attributes, "gen_ai.usage.input_tokens").as_deref(), Some("5"));
        assert_eq!(text(&span.attributes, "error.type").as_deref(), Some("timeout"));
        assert_eq!(span.status.as_ref().map(|status| status.message.as_str()), Some("too slow"));
        let logs = all(&received, |one| one.logs.clone());
        let events: Vec<_> = logs.iter().map(|log| log.event_name.as_str()).collect();
        assert_eq!(events, ["agentd.model_request", "agentd.user_prompt"]);
        assert_eq!(logs[0].span_id, span.span_id);
        assert_eq!(text(&logs[1].attributes, "gen_ai.input.messages").as_deref(), Some("hello"));
        let metrics = all(&received, |one| one.metrics.clone());
        let names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(
            names,
            ["gen_ai.client.operation.duration", "gen_ai.client.token.usage", "agentd.cost"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_there_is_something_to_send() {
    let collector = Collector::start([]).await;
    let recorder = Recorder::start(settings(Encoding::Json, &collector.url()), services());
    // tidy: sleep the clock is paused
    tokio::time::sleep(Duration::from_hours(10)).await;
    recorder.close(LIMIT).await;
    assert!(collector.received(0).await.is_empty());
}

#[tokio::test]
async fn a_collector_that_fails_for_a_while_gets_the_message_again() {
    let busy = [Behaviour::Status(503, None), Behaviour::Status(429, Some("0")), Behaviour::Close];
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let collector = Collector::start(busy.clone()).await;
        let recorder = Recorder::start(traces_only(encoding, &collector.url()), services());
        recorder.record(span(&recorder, 1));
        let received = collector.received(4).await;
        assert!(received.iter().all(|one| one.body == received[0].body));
        recorder.close(LIMIT).await;
    }
    let busy = [Behaviour::GrpcStatus("14"), Behaviour::GrpcStatus("8"), Behaviour::Close];
    let collector = Collector::start(busy).await;
    let recorder = Recorder::start(traces_only(Encoding::Grpc, &collector.url()), services());
    recorder.record(span(&recorder, 1));
    assert_eq!(collector.received(4).await.len(), 4);
}

#[tokio::test]
async fn what_is_refused_is_not_sent_again_but_counted() {
    for (encoding, refusal) in [
        (Encoding::Protobuf, Behaviour::Status(400, None)),
        (Encoding::Json, Behaviour::Status(500, None)),
        (Encoding::Json, Behaviour::Status(307, None)),
        (Encoding::Grpc, Behaviour::GrpcStatus("3")),
        (Encoding::Grpc, Behaviour::Status(404, None)),
        (Encoding::Protobuf, Behaviour::Partial(1)),
        (Encoding::Json, Behaviour::Partial(1)),
        (Encoding::Grpc, Behaviour::Partial(1)),
    ] {
        let collector = Collector::start([refusal.clone()]).await;
        let url = collector.url();
        let settings = Settings { logs: None, ..settings(encoding, &url) };
        let recorder = Recorder::start(settings, services());
        recorder.record(span(&recorder, 1));
        recorder.close(LIMIT).await;
        let received = collector.received(2).await;
        assert_eq!(received.len(), 2, "{refusal:?}");
        let dropped = counted(&received, "agentd.telemetry.dropped", "traces");
        assert_eq!(dropped, Some(1.0), "{encoding:?} {refusal:?}");
    }
}

#[tokio::test]
async fn a_collector_that_hangs_or_talks_without_end_holds_nothing_up() {
    for encoding in ENCODINGS {
        let collector = Collector::start([Behaviour::Hang]).await;
        let recorder = Recorder::start(traces_only(encoding, &collector.url()), services());
        recorder.record(span(&recorder, 1));
        collector.received(1).await;
        let began = Instant::now();
        recorder.record(span(&recorder, 2));
        assert!(began.elapsed() < Duration::from_millis(100));
        recorder.close(Duration::from_millis(200)).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{encoding:?}: {:?}", began.elapsed());
        let collector = Collector::start([Behaviour::Endless]).await;
        let recorder = Recorder::start(traces_only(encoding, &collector.url()), services());
        recorder.record(span(&recorder, 1));
        recorder.close(LIMIT).await;
        assert!(!collector.received(1).await.is_empty());
    }
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_collector_that_is_down_is_reported_once() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let free = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://localhost:{}", free.local_addr().unwrap().port());
    drop(free);
    let recorder = Recorder::start(traces_only(Encoding::Protobuf, &url), services());
    for number in 0..2000 {
        recorder.record(span(&recorder, number));
    }
    recorder.close(LIMIT).await;
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("does not take traces").count(), 1, "{log}");
    assert!(log.contains(&url) && log.contains("otel.trace_exporter"), "{log}");
}

// Effect of `otel.exporter.<id>.tls.ca-certificate`, `otel.exporter.<id>.tls.client-certificate`.
// Effect of `otel.exporter.<id>.tls.client-private-key`, `otel.trace_exporter.<id>.tls.ca-certificate`.
// Effect of `otel.trace_exporter.<id>.tls.client-certificate`.
// Effect of `otel.trace_exporter.<id>.tls.client-private-key`.
// Effect of `otel.metrics_exporter.<id>.tls.ca-certificate`.
// Effect of `otel.metrics_exporter.<id>.tls.client-certificate`.
// Effect of `otel.metrics_exporter.<id>.tls.client-private-key`.
#[tokio::test]
async fn tls_takes_the_configured_authority_and_shows_the_configured_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (server_key, client_key) =
        (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
    let of = |name: &str, key| {
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.self_signed(key).unwrap()
    };
    let (server, client) = (of("localhost", &server_key), of("client", &client_key));
    let mut clients = rustls::RootCertStore::empty();
    clients.add(client.der().clone()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(clients.into(), ring.clone());
    let key = rustls::pki_types::PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![server.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let collector = Collector::start_tls(TlsAcceptor::from(Arc::new(config))).await;
    let ca = write("ca.pem", &server.pem());
    let certificate = write("client.pem", &client.pem());
    let private_key = write("client.key", &client_key.serialize_pem());
    let whole = TlsFiles {
        ca_certificate: Some(ca.clone()),
        client_certificate: Some(certificate.clone()),
        client_private_key: Some(private_key),
    };
    let send = async |encoding, tls: &TlsFiles| {
        let traces = exporter(Signal::Traces, encoding, &collector.url(), tls.clone());
        let settings = Settings { traces: Some(traces), ..traces_only(encoding, &collector.url()) };
        let recorder = Recorder::start(settings, services());
        recorder.record(span(&recorder, 1));
        recorder.close(LIMIT).await;
    };
    // Without the authority, without a certificate, and with half of one: nothing arrives.
    let no_ca = TlsFiles { ca_certificate: None, ..whole.clone() };
    let anonymous = TlsFiles { ca_certificate: Some(ca.clone()), ..TlsFiles::default() };
    let half = TlsFiles { client_private_key: None, ..whole.clone() };
    let gone = TlsFiles { ca_certificate: Some(folder.path().join("gone.pem")), ..whole.clone() };
    for tls in [&no_ca, &anonymous, &half, &gone] {
        send(Encoding::Protobuf, tls).await;
    }
    assert!(collector.received(0).await.is_empty());
    for (count, encoding) in ENCODINGS.into_iter().enumerate() {
        send(encoding, &whole).await;
        assert_eq!(collector.received(count + 1).await.len(), count + 1);
    }
}
