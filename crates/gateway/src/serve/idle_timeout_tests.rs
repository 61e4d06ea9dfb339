//! Connections in memory, with a clock that skips idle time.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

const HEAD: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET /now HTTP/1.1\r\nhost: here\r\n\r\n";
const LONG: usize = 1 << 20;

/// A connection, and the result of its task. `/slow` responds after an hour, `/long` with a
/// megabyte.
fn connect() -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    connect_with(IdleLimit::default())
}

fn connect_with(idle: IdleLimit) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (ours, theirs) = duplex(4096);
    let open_requests = OpenRequests::default();
    let stream = IdleTimeout::new(theirs, open_requests.clone(), HEAD, idle);
    let answer = move |request: Request<Incoming>| {
        let open_request = open_requests.begin();
        async move {
            let body = match request.uri().path() {
                "/long" => Bytes::from(vec![b'x'; LONG]),
                "/slow" => {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    Bytes::from_static(b"late")
                }
                _ => request.into_body().collect().await?.to_bytes(),
            };
            let length = body.len();
            let body = Full::new(body).map_frame(move |frame| {
                let _held = &open_request;
                frame
            });
            let response = Response::builder().header("content-length", length).body(body);
            Ok::<_, hyper::Error>(response.unwrap())
        }
    };
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    (ours, tokio::spawn(connection))
}

async fn answered(stream: &mut DuplexStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    let head = String::from_utf8(head).unwrap();
    let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

async fn is_over(stream: &mut DuplexStream) -> bool {
    !matches!(stream.read(&mut [0; 1]).await, Ok(1))
}

#[tokio::test(start_paused = true)]
async fn a_missing_head_times_out() {
    for sent in [&b""[..], b"GET / HTT"] {
        let (mut stream, open_requests) = connect();
        let began = Instant::now();
        stream.write_all(sent).await.unwrap();
        assert!(is_over(&mut stream).await);
        assert_eq!(began.elapsed().as_secs(), HEAD.as_secs());
        drop(open_requests.await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_times_out() {
    let (mut stream, _serving) = connect();
    let began = Instant::now();
    for byte in REQUEST.iter().cycle() {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        seconds(1).await;
    }
    assert!(began.elapsed() < 2 * HEAD, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_second_head_times_out() {
    let (mut stream, _serving) = connect();
    stream.write_all(REQUEST).await.unwrap();
    answered(&mut stream).await;
    seconds(30).await;
    let began = Instant::now();
    stream.write_all(b"GET /no").await.unwrap();
    assert!(is_over(&mut stream).await);
    assert_eq!(began.elapsed().as_secs(), HEAD.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_be_idle_between_requests() {
    let (mut stream, open_requests) = connect();
    for pause in [0, 1, 30, 60, 74] {
        seconds(pause).await;
        stream.write_all(REQUEST).await.unwrap();
        answered(&mut stream).await;
    }
    let began = Instant::now();
    assert!(is_over(&mut stream).await);
    assert_eq!(began.elapsed(), IDLE);
    drop(open_requests.await);
}

#[tokio::test(start_paused = true)]
async fn a_slow_response_does_not_time_out() {
    let (mut stream, _serving) = connect();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    answered(&mut stream).await;
    seconds(60).await;
    stream.write_all(REQUEST).await.unwrap();
    answered(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_does_not_time_out() {
    let (mut stream, _serving) = connect();
    stream
        .write_all(b"POST /now HTTP/1.1\r\nhost: here\r\ncontent-length: 3\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..3 {
        seconds(100).await;
        stream.write_all(b"x").await.unwrap();
    }
    answered(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn an_unread_response_times_out() {
    let (mut stream, open_requests) = connect();
    let began = Instant::now();
    stream.write_all(b"GET /long HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    assert!(open_requests.await.unwrap().is_err());
    assert_eq!(began.elapsed(), STALLED);
}

#[tokio::test(start_paused = true)]
async fn a_slowly_read_response_arrives_whole() {
    let (mut stream, open_requests) = connect();
    stream.write_all(b"GET /long HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let (mut came, mut part) = (0, [0; 4096]);
    while came < LONG {
        seconds(50).await;
        let more = stream.read(&mut part).await.unwrap();
        assert!(more > 0, "cut after {came} bytes");
        came += more;
    }
    // From then on the connection is idle.
    let began = Instant::now();
    while !is_over(&mut stream).await {}
    drop(open_requests.await);
    assert!(began.elapsed() <= IDLE, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lower_limit_ends_new_and_idle_connections_sooner() {
    let idle = IdleLimit::default();
    idle.lower(Duration::from_secs(2));
    let (mut fresh, _task) = connect_with(idle.clone());
    let (mut used, _other) = connect_with(idle.clone());
    let (mut begun, _third) = connect_with(idle);
    seconds(1).await;
    used.write_all(REQUEST).await.unwrap();
    answered(&mut used).await;
    begun.write_all(b"GET /now HTTP/1.1\r\n").await.unwrap();
    let began = Instant::now();
    assert!(is_over(&mut fresh).await);
    assert_eq!(began.elapsed().as_secs(), 1, "two seconds after it was opened");
    assert!(is_over(&mut used).await);
    assert_eq!(began.elapsed().as_secs(), 2, "two seconds after its answer");
    seconds(3).await;
    begun.write_all(b"host: here\r\n\r\n").await.unwrap();
    answered(&mut begun).await;
}
