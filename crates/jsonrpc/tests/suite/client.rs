//! The client against a peer that speaks through the same framing.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use jsonrpc::{
    CallError, Client, CloseReason, Connection, ErrorObject, Event, Events, Incoming, Limits,
    Message, Method, Notification, RequestId, Taken, code, encode_error, encode_notification,
    encode_request, encode_response,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize)]
struct Add {
    left: i32,
    right: i32,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Sum {
    sum: i32,
}

impl Method for Add {
    const NAME: &'static str = "add";
    type Params = Self;
    type Result = Sum;
}

struct Reset;

impl Method for Reset {
    const NAME: &'static str = "reset";
    type Params = ();
    type Result = ();
}

struct Done;

impl Notification for Done {
    const NAME: &'static str = "done";
    type Params = ();
}

fn client() -> (Client, Events, Connection) {
    let limits = Limits::default();
    let (ours, theirs) = Connection::pair(limits);
    let (client, events) = Client::new(ours, &limits);
    (client, events, theirs)
}

async fn request(peer: &mut Connection) -> (RequestId, String, Option<String>) {
    match peer.incoming.recv().await {
        Some(Incoming::Message(Message::Request { id, method, params, .. })) => {
            (id, method, params.map(|raw| raw.get().to_owned()))
        }
        other => panic!("{other:?} is no request"),
    }
}

#[tokio::test]
async fn typed_calls_and_their_errors() {
    let (client, _events, mut peer) = client();
    let serving = tokio::spawn(async move {
        let (id, method, params) = request(&mut peer).await;
        assert_eq!((&id, method.as_str()), (&0.into(), "add"));
        assert_eq!(params.as_deref(), Some(r#"{"left":1,"right":2}"#));
        peer.outbox.push(encode_response(&id, &json!({"sum": 3}))).unwrap();
        let (id, method, params) = request(&mut peer).await;
        assert_eq!((&id, method.as_str(), params), (&1.into(), "reset", None));
        peer.outbox.push(encode_response(&id, &json!({}))).unwrap();
        let (id, ..) = request(&mut peer).await;
        peer.outbox.push(encode_error(Some(&id), &ErrorObject::overloaded())).unwrap();
        let (id, ..) = request(&mut peer).await;
        peer.outbox.push(encode_response(&id, &json!({"sum": "three"}))).unwrap();
        peer
    });
    let add = Add { left: 1, right: 2 };
    assert_eq!(client.request::<Add>(&add).await.unwrap(), Sum { sum: 3 });
    client.request::<Reset>(&()).await.unwrap();
    let error = client.request_raw("any", &json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Rpc(error) if error.code == code::OVERLOADED));
    let error = client.request::<Add>(&add).await.unwrap_err();
    let says = "the result of `add` cannot be decoded: `sum`: invalid type: string \"three\", expected a whole number";
    assert_eq!(error.to_string(), says);
    let mut peer = serving.await.unwrap();
    client.notify::<Done>(&()).unwrap();
    let expect = Message::Notification { method: "done".into(), params: None, cursor: None };
    assert_eq!(peer.incoming.recv().await, Some(Incoming::Message(expect)));
}

#[tokio::test]
async fn responses_in_any_order_reach_their_calls() {
    let (client, _events, mut peer) = client();
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { (n, client.request_raw("m", &json!({"n": n})).await) })
        })
        .collect();
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let (id, _, params) = request(&mut peer).await;
        let params: serde_json::Value = serde_json::from_str(&params.unwrap()).unwrap();
        waiting.push(encode_response(&id, &params["n"]));
    }
    for answer in waiting.into_iter().rev() {
        peer.outbox.push(answer).unwrap();
    }
    for call in calls {
        let (n, result) = call.await.unwrap();
        assert_eq!(result.unwrap(), json!(n));
    }
}

#[tokio::test]
async fn events_arrive_in_order_and_requests_are_answered() {
    let (client, mut events, mut peer) = client();
    peer.outbox.push(encode_notification("n", &json!({"x": 1})).unwrap()).unwrap();
    peer.outbox.push(encode_request(&"q".into(), "ask", &()).unwrap()).unwrap();
    peer.outbox.push(bytes::Bytes::from_static(b"nonsense")).unwrap();
    peer.outbox.push(encode_error(None, &ErrorObject::parse_error("x"))).unwrap();
    let Some(Event::Notification { method, params, .. }) = events.next().await else { panic!() };
    assert_eq!((method.as_str(), params.get()), ("n", r#"{"x":1}"#));
    let Some(Event::Request { id, method, params }) = events.next().await else { panic!() };
    assert_eq!((method.as_str(), params.get()), ("ask", "null"));
    client.respond(&id, &Ok(json!("yes"))).unwrap();
    for _ in 0..2 {
        assert!(
            matches!(events.next().await, Some(Event::Fault(e)) if e.code == code::PARSE_ERROR)
        );
    }
    let Some(Incoming::Message(Message::Response { id, outcome })) = peer.incoming.recv().await
    else {
        panic!("no response");
    };
    assert_eq!((id, outcome.unwrap().get()), (Some("q".into()), "\"yes\""));
}

#[tokio::test]
async fn the_end_of_the_connection_ends_calls_and_events() {
    let (client, mut events, mut peer) = client();
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.request_raw("m", &json!(null)).await })
    };
    request(&mut peer).await;
    peer.outbox.push(encode_notification("last", &()).unwrap()).unwrap();
    drop(peer);
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed)));
    assert!(matches!(events.next().await, Some(Event::Notification { .. })));
    assert!(events.next().await.is_none());
    let late = client.request_raw("m", &json!(null)).await;
    assert!(matches!(late, Err(CallError::Closed)));
}

#[tokio::test]
async fn an_abrupt_close_ends_calls_while_the_peer_lives() {
    let (client, _events, mut peer) = client();
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.request_raw("m", &json!(null)).await })
    };
    request(&mut peer).await;
    client.outbox().close(CloseReason::Aborted);
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed)));
    assert_eq!(peer.incoming.recv().await, None);
}

#[tokio::test]
async fn the_last_client_closes_the_connection_and_still_reads_events() {
    let (client, mut events, mut peer) = client();
    client.notify::<Done>(&()).unwrap();
    drop(client);
    assert!(peer.incoming.recv().await.is_some());
    assert_eq!(peer.incoming.recv().await, None);
    peer.outbox.push(encode_notification("bye", &()).unwrap()).unwrap();
    drop(peer);
    assert!(
        matches!(events.next().await, Some(Event::Notification { method, .. }) if method == "bye")
    );
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_leaves_no_state() {
    let (client, _events, mut peer) = client();
    let call = client.request_raw("m", &json!(null));
    tokio::time::timeout(Duration::from_secs(1), call).await.unwrap_err();
    let (id, ..) = request(&mut peer).await;
    peer.outbox.push(encode_response(&id, &json!("late"))).unwrap();
    let answering = tokio::spawn(async move {
        let (id, ..) = request(&mut peer).await;
        peer.outbox.push(encode_response(&id, &json!("own"))).unwrap();
        peer
    });
    assert_eq!(client.request_raw("m", &json!(null)).await.unwrap(), json!("own"));
    drop(answering.await.unwrap());
}

#[tokio::test]
async fn without_a_reader_of_events_calls_work_and_requests_are_declined() {
    let (client, events, mut peer) = client();
    drop(events);
    for _ in 0..10_000 {
        peer.outbox.push(encode_notification("n", &()).unwrap()).unwrap();
    }
    peer.outbox.push(encode_request(&7.into(), "ask", &()).unwrap()).unwrap();
    let Some(Incoming::Message(Message::Response { id, outcome: Err(error) })) =
        peer.incoming.recv().await
    else {
        panic!("no error response");
    };
    assert_eq!((id, error), (Some(7.into()), ErrorObject::method_not_found("ask")));
    drop(client);
}

#[tokio::test]
async fn reading_stops_at_the_bound_of_unread_events() {
    let limits = Limits { events: 2, incoming_messages: 2, ..Limits::default() };
    let (ours, theirs) = Connection::pair(limits);
    let (client, mut events) = Client::new(ours, &limits);
    let text = "x".repeat(1000);
    for _ in 0..1000 {
        theirs.outbox.push(encode_notification("n", &json!({"t": text})).unwrap()).unwrap();
    }
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert!(theirs.outbox.queued_bytes() > 500_000, "the peer's messages wait with the peer");
    for _ in 0..1000 {
        events.next().await.unwrap();
    }
    assert!(events.try_next().is_none());
    drop(client);
}

#[tokio::test]
async fn a_response_has_its_place_among_the_events() {
    let (client, mut events, mut peer) = client();
    let call = tokio::spawn(async move { client.request_with_position::<Reset>(&()).await });
    let (id, ..) = request(&mut peer).await;
    for message in [
        encode_notification("before", &()).unwrap(),
        encode_notification("before", &()).unwrap(),
        encode_response(&id, &json!(null)),
        encode_notification("after", &()).unwrap(),
    ] {
        peer.outbox.push(message).unwrap();
    }
    let (result, position) = call.await.unwrap();
    result.unwrap();
    for _ in 0..2 {
        let event = events.try_next_before(position);
        assert!(matches!(event, Some(Event::Notification { method, .. }) if method == "before"));
    }
    assert!(events.try_next_before(position).is_none());
    let event = events.next().await;
    assert!(matches!(event, Some(Event::Notification { method, .. }) if method == "after"));
}

/// Polls a future once.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
}

/// `taken` gets a result before any later event, even if the caller has gone. It gets no errors.
#[tokio::test]
async fn a_result_is_taken_before_later_messages_although_its_caller_is_gone() {
    for is_dropped in [false, true] {
        let (ours, mut peer) = Connection::pair(Limits::default());
        let (client, mut reader) = Client::over(ours);
        let order = Arc::new(Mutex::new(Vec::new()));
        let call = |name: &'static str| {
            let (client, order) = (client.clone(), order.clone());
            let taken: Taken = Box::new(move |result| {
                order.lock().unwrap().push(format!("{name} {result}"));
            });
            Box::pin(async move { client.request_taken(name, &json!({}), Some(taken)).await })
        };
        let (mut first, mut second) = (call("first"), call("second"));
        assert!(is_pending(&mut first).await);
        assert!(is_pending(&mut second).await);
        let (id, ..) = request(&mut peer).await;
        peer.outbox.push(encode_response(&id, &json!(1))).unwrap();
        peer.outbox.push(encode_notification("news", &json!({})).unwrap()).unwrap();
        let (id, ..) = request(&mut peer).await;
        peer.outbox.push(encode_error(Some(&id), &ErrorObject::overloaded())).unwrap();
        peer.outbox.push(encode_notification("news", &json!({})).unwrap()).unwrap();
        if is_dropped {
            drop(first);
        } else {
            // It is not read yet.
            assert!(is_pending(&mut first).await);
        }
        assert!(matches!(reader.next().await, Some(Event::Notification { .. })));
        assert_eq!(*order.lock().unwrap(), ["first 1"]);
        reader.next().await;
        assert!(matches!(second.await, Err(CallError::Rpc(_))));
        assert_eq!(*order.lock().unwrap(), ["first 1"]);
        let mut third = call("third");
        assert!(is_pending(&mut third).await);
        drop(peer);
        assert!(reader.next().await.is_none());
        assert!(matches!(third.await, Err(CallError::Closed)));
    }
}
