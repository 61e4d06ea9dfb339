//! Tests of the transport over standard input and output.

use super::*;

async fn received(input: &'static [u8]) -> (Vec<String>, String) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let mut transport = StdioTransport::new(input, theirs, CancellationToken::new());
    let mut methods = Vec::new();
    while let Some(message) = transport.receive().await {
        let message = serde_json::to_value(message).unwrap();
        methods.push(message["method"].as_str().unwrap_or("?").to_owned());
    }
    transport.close().await.unwrap();
    drop(transport);
    let mut written = String::new();
    let mut ours = BufReader::new(ours);
    while ours.read_line(&mut written).await.unwrap() > 0 {}
    (methods, written)
}

#[tokio::test]
async fn lines_that_are_no_messages_get_errors() {
    let input =
        b"hello\n\n[1]\n{\"id\":7}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\xff\n\
        {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    let (methods, written) = received(input).await;
    assert_eq!(methods, ["ping"]);
    let errors: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> =
        errors.iter().map(|error| error["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [-32700, -32600, -32600, -32700], "{written}");
    assert_eq!((&errors[0]["id"], &errors[2]["id"]), (&Value::Null, &Value::from(7)));
}

#[tokio::test]
async fn a_line_beyond_the_bound_is_skipped_and_the_last_line_needs_no_end() {
    let mut input = vec![b'x'; MAX_LINE + 1];
    input.extend_from_slice(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    let (methods, written) = received(input.leak()).await;
    assert_eq!(methods, ["ping"]);
    assert!(written.contains("longer than 8 MiB"), "{written}");
}

#[tokio::test]
async fn requests_with_unusable_ids_are_refused() {
    let input = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"ping\"}\n";
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let mut transport = StdioTransport::new(&input[..], theirs, CancellationToken::new());
    transport.has_begun = true;
    let mut ids = Vec::new();
    while let Some(message) = transport.receive().await {
        let message = serde_json::to_value(message).unwrap();
        ids.push(message["id"].clone());
    }
    // An answered id is free again.
    let empty = rmcp::model::ServerResult::EmptyResult(rmcp::model::EmptyResult {});
    let running = transport.running.clone();
    assert!(running.begin(&RequestId::Number(1)).is_err());
    transport.send(ServerJsonRpcMessage::response(empty, RequestId::Number(1))).await.unwrap();
    assert!(running.begin(&RequestId::Number(1)).is_ok());
    transport.close().await.unwrap();
    drop(transport);
    assert_eq!(ids, [serde_json::json!(1), serde_json::json!("1")]);
    let mut lines = BufReader::new(ours).lines();
    let mut refused = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message.get("error").is_some() {
            assert_eq!(
                (&message["id"], &message["error"]["code"]),
                (&Value::Null, &Value::from(-32600))
            );
            refused.push(message["error"]["message"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(refused.len(), 4, "{refused:?}");
    assert!(refused[..3].iter().all(|why| why.contains("string or an integer")), "{refused:?}");
    assert!(refused[3].contains("the id 1 runs already"), "{refused:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_and_one_to_nothing_is_dropped() {
    let input = b"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"action\":\"accept\"}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":1}\n\
        {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\"}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":2,\"error\":\"x\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{},\"error\":{\"code\":1,\"message\":\"m\"}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"action\":\"accept\"}}\n";
    let (_ours, theirs) = tokio::io::duplex(1 << 20);
    let mut transport = StdioTransport::new(&input[..], theirs, CancellationToken::new());
    transport.has_begun = true;
    for id in 1..=4 {
        transport.asked.begin(&RequestId::Number(id)).unwrap();
    }
    let mut received = Vec::new();
    while let Some(message) = transport.receive().await {
        let message = serde_json::to_value(message).unwrap();
        received.push((message["id"].clone(), message.get("error").is_some()));
    }
    let expect = [(1, true), (2, true), (3, true), (4, false)];
    assert_eq!(received, expect.map(|(id, is_error)| (Value::from(id), is_error)));
    assert!(transport.unsent.is_none());
}
