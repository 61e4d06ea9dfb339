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
