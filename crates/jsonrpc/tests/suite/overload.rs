//! A WebSocket whose requests come faster than they are taken: what finds no room is refused at
//! once, and nothing else suffers (specification: Errors, "Request ingress queue full").

use std::sync::Arc;

use jsonrpc::websocket::{MessageReader, Received, Role};
use jsonrpc::{CloseReason, Connection, Incoming, Ingress, Limits, Message, encode_response};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

/// Requests that may wait.
const ROOM: usize = 4;

/// The client's end, frame by frame.
struct Client {
    reader: MessageReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Client {
    /// Sends a message, masked with zeros.
    async fn send(&mut self, message: &Value) {
        self.send_text(message.to_string().as_bytes()).await;
    }

    async fn send_text(&mut self, text: &[u8]) {
        let mut frame = vec![0x81, 0x80 | 127];
        frame.extend((text.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text);
        self.writer.write_all(&frame).await.unwrap();
    }

    async fn send_request(&mut self, id: usize) {
        self.send(&json!({"id": id, "method": "m"})).await;
    }

    async fn receive(&mut self) -> Value {
        match self.reader.next().await.unwrap() {
            Some(Received::Text(text)) => serde_json::from_slice(text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Hears that the request `id` is refused for now.
    async fn receive_refusal(&mut self, id: impl Into<Value>) {
        let message = "Server overloaded; retry later.";
        let expected = json!({"id": id.into(), "error": {"code": -32001, "message": message}});
        assert_eq!(self.receive().await, expected);
    }
}

fn limits() -> Limits {
    Limits { incoming_messages: ROOM, ..Limits::default() }
}

fn connect(limits: Limits, ingress: &Arc<Ingress>) -> (Connection, Client) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    let ingress = Some(ingress.clone());
    let connection = Connection::websocket(reader, writer, Role::Server, b"", limits, ingress);
    let (reader, writer) = tokio::io::split(theirs);
    let reader = MessageReader::new(reader, Role::Client, 1 << 20, b"");
    (connection, Client { reader, writer })
}

/// Takes a request that waits and answers it.
async fn serve(connection: &mut Connection, id: usize) {
    let came = connection.incoming.recv().await;
    let Some(Incoming::Message(Message::Request { id: found, .. })) = came else {
        panic!("{came:?}")
    };
    assert_eq!(json!(found), json!(id));
    connection.outbox.push(encode_response(&found, &json!("done"))).unwrap();
}

#[tokio::test]
async fn requests_beyond_the_bound_are_refused_and_the_others_are_answered() {
    let (mut connection, mut client) = connect(limits(), &Arc::default());
    for id in 0..ROOM + 3 {
        client.send_request(id).await;
    }
    for id in ROOM..ROOM + 3 {
        client.receive_refusal(id).await;
    }
    for id in 0..ROOM {
        serve(&mut connection, id).await;
        assert_eq!(client.receive().await, json!({"id": id, "result": "done"}));
    }
    client.send_request(100).await;
    serve(&mut connection, 100).await;
    assert_eq!(client.receive().await["result"], "done", "there is room again");
}

#[tokio::test]
async fn requests_are_refused_with_ids_of_any_kind_and_bytes_count_too() {
    let limits = Limits { incoming_bytes: 100, ..limits() };
    let (mut connection, mut client) = connect(limits, &Arc::default());
    // One message always has room, however long it is.
    client.send(&json!({"id": 0, "method": "m", "params": {"x": "y".repeat(1000)}})).await;
    for id in [json!(1), json!("one"), json!(-1)] {
        client.send(&json!({"id": id, "method": "m"})).await;
        client.receive_refusal(id).await;
    }
    serve(&mut connection, 0).await;
    assert_eq!(client.receive().await["id"], 0);
}

#[tokio::test]
async fn invalid_requests_get_their_own_error_even_under_overload() {
    let (_connection, mut client) = connect(limits(), &Arc::default());
    for id in 0..ROOM {
        client.send_request(id).await;
    }
    for (text, code, id) in [
        ("nonsense", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"{"id":7}"#, -32600, json!(7)),
    ] {
        client.send_text(text.as_bytes()).await;
        let answer = client.receive().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
    }
}

#[tokio::test]
async fn responses_are_received_while_requests_wait() {
    let (connection, mut client) = connect(limits(), &Arc::default());
    let Connection { incoming, outbox } = connection;
    let (mut requests, mut answers) = incoming.split();
    for id in 0..ROOM + 1 {
        client.send_request(id).await;
    }
    client.receive_refusal(ROOM).await;
    for id in 0..3 * ROOM {
        client.send(&json!({"id": id, "result": id})).await;
        let answer = answers.recv().await;
        let Some(Incoming::Message(Message::Response { outcome: Ok(result), .. })) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(result.get(), id.to_string());
    }
    let taken = requests.recv().await;
    assert!(matches!(taken, Some(Incoming::Message(Message::Request { .. }))));
    client.send_request(9).await;
    client.send(&json!({"id": 1, "error": {"code": 1, "message": "no"}})).await;
    assert!(answers.recv().await.is_some());
    outbox.close(CloseReason::Finished);
    assert!(answers.recv().await.is_none(), "the input has ended");
}

#[tokio::test]
async fn a_notification_waits_for_room_and_is_not_lost() {
    let (mut connection, mut client) = connect(limits(), &Arc::default());
    for id in 0..ROOM {
        client.send_request(id).await;
    }
    client.send(&json!({"method": "initialized"})).await;
    for id in 0..ROOM {
        serve(&mut connection, id).await;
        client.receive().await;
    }
    let came = connection.incoming.recv().await;
    assert!(matches!(came, Some(Incoming::Message(Message::Notification { .. }))), "{came:?}");
    client.send_request(ROOM).await;
    serve(&mut connection, ROOM).await;
}

#[tokio::test]
async fn the_sum_over_all_connections_is_bounded() {
    let ingress = Arc::new(Ingress::new(3, 1 << 20));
    let (mut first, mut one) = connect(limits(), &ingress);
    let (mut second, mut two) = connect(limits(), &ingress);
    let (_third, mut three) = connect(limits(), &ingress);
    for id in 0..2 {
        one.send_request(id).await;
    }
    // The third is refused, which shows that two wait.
    two.send_request(0).await;
    two.send_request(1).await;
    two.receive_refusal(1).await;
    three.send_request(5).await;
    three.receive_refusal(5).await;
    serve(&mut first, 0).await;
    three.send_request(6).await;
    three.send_request(7).await;
    three.receive_refusal(7).await;
    serve(&mut second, 0).await;
    serve(&mut first, 1).await;
    // Whoever goes away gives back what waited.
    drop((_third, three));
    let ids = 0..2;
    for id in ids.clone() {
        one.send_request(id).await;
    }
    for id in ids {
        serve(&mut first, id).await;
    }
}

#[tokio::test]
async fn incomplete_long_messages_count() {
    const KIB: usize = 1 << 10;
    let ingress = Arc::new(Ingress::new(100, 300 * KIB));
    let (connection, mut client) = connect(limits(), &ingress);
    let mut head = vec![0x81, 0x80 | 127];
    head.extend((1_000_000u64).to_be_bytes());
    head.extend([0; 4]);
    client.writer.write_all(&head).await.unwrap();
    client.writer.write_all(&vec![b' '; 500 * KIB]).await.unwrap();
    match client.reader.next().await.unwrap() {
        Some(Received::Close(Some((code, words)))) => {
            assert_eq!(
                (code, words),
                (1013, "the server has too much unfinished; try again later")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(connection.outbox.closed().await, CloseReason::Violation(_)));
    // The budget is free again though the client takes its time to go.
    let (mut connection, mut other) = connect(limits(), &ingress);
    other.send(&json!({"id": 1, "method": "m", "params": "x".repeat(100 * KIB)})).await;
    serve(&mut connection, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_ignores_refusals_is_paused_and_then_disconnected() {
    let limits = Limits { outgoing_bytes: 1 << 20, ..limits() };
    let (connection, mut client) = connect(limits, &Arc::default());
    let began = tokio::time::Instant::now();
    let asking = async {
        for id in 0..10_000_000 {
            client.send_request(id).await;
        }
    };
    tokio::select! {
        () = asking => panic!("there is no end to it"),
        reason = connection.outbox.closed() => assert_eq!(reason, CloseReason::Stalled),
    }
    assert_eq!(Some(began.elapsed()), limits.stall);
}

#[tokio::test]
async fn without_a_budget_reading_waits_instead() {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    let mut connection = Connection::websocket(reader, writer, Role::Server, b"", limits(), None);
    let (reader, writer) = tokio::io::split(theirs);
    let mut client =
        Client { reader: MessageReader::new(reader, Role::Client, 1 << 20, b""), writer };
    for id in 0..3 * ROOM {
        client.send_request(id).await;
    }
    for id in 0..3 * ROOM {
        serve(&mut connection, id).await;
        assert_eq!(client.receive().await["result"], "done");
    }
}
