//! Whole connections in memory: what one end writes as bytes, the other sees as messages.

use jsonrpc::{
    CloseReason, Connection, Incoming, Limits, Message, RequestId, code, encode_error,
    encode_notification, encode_request, encode_response,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A connection and the bytes of its peer.
fn raw_peer(limits: Limits, pipe: usize) -> (Connection, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(pipe);
    let (reader, writer) = tokio::io::split(ours);
    (Connection::over(reader, writer, limits), theirs)
}

/// Answers every request with its method, every malformed line with its error, until the end.
async fn serve(mut connection: Connection) -> usize {
    let mut answered = 0;
    while let Some(incoming) = connection.incoming.recv().await {
        let answer = match incoming {
            Incoming::Message(Message::Request { id, method, .. }) => {
                encode_response(&id, &json!(method))
            }
            Incoming::Malformed(malformed) => encode_error(malformed.id.as_ref(), &malformed.error),
            Incoming::Message(_) => continue,
        };
        connection.outbox.push(answer).unwrap();
        answered += 1;
    }
    connection.outbox.close(CloseReason::Finished);
    connection.outbox.flushed().await.unwrap();
    answered
}

/// What comes back for `input`, which is sent in pieces as the pipe has room.
async fn transcript(limits: Limits, pipe: usize, input: &[u8]) -> Vec<serde_json::Value> {
    let (connection, peer) = raw_peer(limits, pipe);
    let serving = tokio::spawn(serve(connection));
    let (mut reader, mut writer) = tokio::io::split(peer);
    let mut output = String::new();
    let write = async {
        writer.write_all(input).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let ((), read) = tokio::join!(write, reader.read_to_string(&mut output));
    read.unwrap();
    serving.await.unwrap();
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_connection_survives_malformed_lines() {
    let input = [
        &b"{\"id\":0,\"method\":\"first\"}\n"[..],
        b"nonsense\n\r\n\n",
        b"[{\"id\":1,\"method\":\"m\"}]\n",
        b"{\"id\":\"x\",\"method\":7}\n",
        b"{\"id\":2,\"method\":\"\xff\"}\n",
        b"{\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}\n",
        "{\"id\":-3,\"method\":\"größe\"}\r\n".as_bytes(),
        b"{\"id\":\"9223372036854775808\",\"method\":\"last\"}",
    ]
    .concat();
    for pipe in [1, 2, 3, 64, 1 << 16] {
        let answers = transcript(Limits::default(), pipe, &input).await;
        let seen: Vec<_> = answers
            .iter()
            .map(|a| (a["id"].clone(), a["result"].as_str(), a["error"]["code"].as_i64()))
            .collect();
        let expect = [
            (json!(0), Some("first"), None),
            (json!(null), None, Some(code::PARSE_ERROR)),
            (json!(null), None, Some(code::INVALID_REQUEST)),
            (json!("x"), None, Some(code::INVALID_REQUEST)),
            (json!(null), None, Some(code::PARSE_ERROR)),
            (json!(-3), Some("größe"), None),
            (json!("9223372036854775808"), Some("last"), None),
        ];
        assert_eq!(seen, expect, "through a pipe of {pipe}");
    }
}

#[tokio::test]
async fn a_line_beyond_the_bound_is_refused_and_the_next_one_served() {
    let mut input = vec![b'x'; (16 << 20) + 1];
    input.extend(b"\n{\"id\":1,\"method\":\"m\"}\n");
    let answers = transcript(Limits::default(), 1 << 16, &input).await;
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["error"]["code"], code::INVALID_REQUEST);
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("16777216 bytes"));
    assert_eq!(answers[1], json!({"id": 1, "result": "m"}));
}

#[tokio::test]
async fn fifty_thousand_requests_at_once_are_all_answered() {
    let (client, server) = Connection::pair(Limits::default());
    let serving = tokio::spawn(serve(server));
    let mut incoming = client.incoming;
    for id in 0..50_000 {
        client.outbox.push(encode_request(&RequestId::Integer(id), "m", &()).unwrap()).unwrap();
    }
    client.outbox.close(CloseReason::Finished);
    for id in 0..50_000 {
        let Some(Incoming::Message(Message::Response { id: Some(read), .. })) =
            incoming.recv().await
        else {
            panic!("no response to {id}");
        };
        assert_eq!(read, RequestId::Integer(id));
    }
    assert_eq!(incoming.recv().await, None);
    assert_eq!(serving.await.unwrap(), 50_000);
}

#[tokio::test]
async fn both_directions_work_at_the_same_time() {
    let (left, right) = Connection::pair(Limits::default());
    let talk = |connection: Connection| async move {
        let Connection { mut incoming, outbox } = connection;
        let (mut sent, mut received) = (0, 0);
        while received < 2000 {
            if sent < 2000 {
                outbox.push(encode_notification("n", &json!({"x": sent})).unwrap()).unwrap();
                sent += 1;
            }
            // Both ends have work of both kinds: neither waits for the other to be done.
            while incoming.try_recv().is_some() {
                received += 1;
            }
            if sent == 2000 && received < 2000 && incoming.recv().await.is_some() {
                received += 1;
            }
            tokio::task::yield_now().await;
        }
        outbox.flushed().await.unwrap();
        received
    };
    assert_eq!(tokio::join!(talk(left), talk(right)), (2000, 2000));
}

#[tokio::test]
async fn the_reader_pauses_at_its_bounds_and_continues() {
    let by_count = Limits { incoming_messages: 4, ..Limits::default() };
    let by_bytes = Limits { incoming_bytes: 100, ..Limits::default() };
    for limits in [by_count, by_bytes] {
        let (mut connection, mut peer) = raw_peer(limits, 64);
        let line = b"{\"method\":\"some/thing\",\"params\":{}}\n";
        let input = line.repeat(10_000);
        let writing = tokio::spawn(async move {
            peer.write_all(&input).await.unwrap();
            peer
        });
        // The reader has had every chance to read all of it.
        for _ in 0..20_000 {
            tokio::task::yield_now().await;
        }
        assert!(!writing.is_finished(), "the peer's writes wait");
        for _ in 0..10_000 {
            assert!(matches!(connection.incoming.recv().await, Some(Incoming::Message(_))));
        }
        drop(writing.await.unwrap());
        assert_eq!(connection.incoming.recv().await, None);
    }
}

#[tokio::test]
async fn a_line_larger_than_the_byte_bound_is_delivered() {
    let limits = Limits { incoming_bytes: 10, ..Limits::default() };
    let answers = transcript(limits, 64, b"{\"id\":1,\"method\":\"abcdefghijkl\"}\n").await;
    assert_eq!(answers, [json!({"id": 1, "result": "abcdefghijkl"})]);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let limits = Limits { outgoing_bytes: 10_000, ..Limits::default() };
    let (mut connection, mut peer) = raw_peer(limits, 64);
    let message = encode_notification("n", &json!({"text": "x".repeat(1000)})).unwrap();
    let reason = loop {
        if let Err(reason) = connection.outbox.push(message.clone()) {
            break reason;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(reason, CloseReason::SlowClient);
    assert_eq!(connection.incoming.recv().await, None, "reading ends, too");
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < 20_000, "the peer sees the end");
}

#[tokio::test]
async fn dropping_the_incoming_end_stops_the_reading() {
    let (connection, mut peer) = raw_peer(Limits::default(), 64);
    drop(connection.incoming);
    drop(connection.outbox);
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).await.unwrap();
    let error = peer.write_all(&[b'\n'; 1000]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_failed_read_is_reported_as_the_reason() {
    struct FailingReader;
    impl tokio::io::AsyncRead for FailingReader {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
        }
    }
    let mut connection = Connection::over(FailingReader, tokio::io::sink(), Limits::default());
    assert_eq!(connection.incoming.recv().await, None);
    let reason = CloseReason::ReadFailed(std::io::ErrorKind::ConnectionReset);
    assert_eq!(connection.outbox.closed().await, reason);
}

#[tokio::test]
async fn a_connection_that_keeps_text_yields_each_message_as_it_arrived() {
    let limits = Limits { keep_text: true, ..Limits::default() };
    let (mut connection, mut peer) = raw_peer(limits, 1024);
    let lines = [
        r#"{"jsonrpc":"2.0", "method":"m","params":null,"later":{"deep":[1.0,"\u0041"]}}"#,
        r#"{"id":1,"error":{"code":-1,"message":"","hint":"x"},"later":1}"#,
    ];
    for line in lines {
        peer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let received = connection.incoming.recv_line().await.unwrap();
        assert_eq!(received.text, line);
        assert_eq!(received.incoming, Incoming::Message(jsonrpc::decode(line.as_bytes()).unwrap()));
    }
    peer.write_all(b"nonsense\n").await.unwrap();
    assert_eq!(connection.incoming.recv_line().await.unwrap().text, "");
    drop(peer);
    assert_eq!(connection.incoming.recv_line().await, None);
}
