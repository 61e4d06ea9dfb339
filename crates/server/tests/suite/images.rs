//! Images that the model is sent: of clients, of its own tool, and of the tools of clients. They are
//! within the bounds of the model, without metadata, and the same bytes in each later request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::{TestEnvironment, png, png_url, png_with_text};

use crate::prompt_cache::assert_grow;
use crate::{calls, says};

/// What must not reach the provider.
const SECRET: &[u8] = b"52.5163 N 13.3777 E";

/// An environment whose configuration names this catalog in place of a model.
async fn with_models(responses: Value, models: &Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    std::fs::write(env.home().join("models.json"), models.to_string()).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let named = "model_catalog_json = \"models.json\"\n";
    env.write_config(&config.replace("model = \"gpt-5\"\n", named));
    env
}

/// The URLs of all images of a request, in order.
fn images(request: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for item in request["input"].as_array().unwrap() {
        let lists = [&item["content"], &item["output"]];
        for part in lists.into_iter().filter_map(Value::as_array).flatten() {
            if part["type"] == "input_image" {
                found.push(part["image_url"].as_str().unwrap().to_owned());
            }
        }
    }
    found
}

/// Width and height of a PNG in a `data:` URL, without a secret.
fn size(url: &str) -> (u32, u32) {
    let encoded = url.strip_prefix("data:image/png;base64,").unwrap();
    let bytes = STANDARD.decode(encoded).unwrap();
    assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET));
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn url_of(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", STANDARD.encode(png))
}

#[tokio::test]
async fn images_are_prepared_once_and_sent_with_each_later_request() {
    let look = calls("view_image", json!({ "path": "wide.jpg" }));
    let responses = json!([says("One."), look, says("Two."), says("Three."), says("Four.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let small = png_with_text(30, 20, SECRET);
    std::fs::write(env.workspace().join("wide.jpg"), png_with_text(4096, 10, SECRET)).unwrap();
    std::fs::write(env.workspace().join("small"), &small).unwrap();
    let mut server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let file = env.workspace().join("small").display().to_string();
    let input = json!([
        { "type": "image", "url": url_of(&small) },
        { "type": "localImage", "path": file },
        { "type": "image", "url": "https://example.com/a.png" },
    ]);
    peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    let content = peer.item("userMessage").await["content"].clone();
    assert_eq!(content[0]["url"], url_of(&png(30, 20)), "pixels are not touched");
    assert_eq!(content[1], input[1]);
    peer.run_turn(&thread, "Look yourself.").await;
    let message = json!({ "type": "message", "role": "user",
        "content": [{ "type": "input_image", "image_url": url_of(&small), "detail": "low" }] });
    let items = json!({ "threadId": thread, "items": [message] });
    peer.call("thread/inject_items", items).await;
    peer.run_turn(&thread, "Again.").await;
    drop(peer);
    server.stop().await;
    server = env.start();
    peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "And again.").await;
    assert_grow(&env.model().raw_requests());
    let last = env.model().requests().pop().unwrap();
    assert!(last["input"].to_string().contains(r#""detail":"low""#));
    let sent = images(&last);
    let [image, local, link, viewed, injected] = &sent[..] else { panic!("{}", sent.len()) };
    assert_eq!((size(image), size(viewed)), ((30, 20), (2048, 5)));
    assert_eq!([local, injected], [image, image]);
    assert_eq!(link, "https://example.com/a.png");
}

#[tokio::test]
async fn images_that_cannot_be_used_are_named_before_the_turn_starts() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let mut bomb = png(1, 1);
    bomb[16..24].copy_from_slice(&[0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0]);
    let whole = png(40, 40);
    let cases: [(&str, &[u8], &str); 6] = [
        ("drawing.png", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "but an SVG drawing"),
        ("paper.png", b"%PDF-1.7", "but a PDF document"),
        ("text.jpg", b"hello", "not a PNG, JPEG, GIF or WebP image"),
        ("empty.gif", b"", "but empty"),
        ("cut.png", &whole[..whole.len() / 2], "the image is truncated"),
        ("bomb.png", &bomb, "image"),
    ];
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for (name, contents, expected) in cases {
        let path = env.root().join(name);
        std::fs::write(&path, contents).unwrap();
        let path = path.display().to_string();
        let file =
            json!([{ "type": "text", "text": "Look." }, { "type": "localImage", "path": path }]);
        let fault = peer.refused("turn/start", json!({ "threadId": thread, "input": file })).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains(expected), "{}", fault.message);
        assert!(fault.message.contains(&path) && fault.message.contains("`input[1].path`"));
        if !contents.is_empty() {
            let data = json!([{ "type": "image", "url": url_of(contents) }]);
            let fault =
                peer.refused("turn/start", json!({ "threadId": thread, "input": data })).await;
            assert!(fault.message.contains(expected), "{}", fault.message);
            assert!(fault.message.contains("`input[0].url`"), "{}", fault.message);
        }
    }
    let many = vec![json!({ "type": "image", "url": "https://a/b" }); 101];
    let fault = peer.refused("turn/start", json!({ "threadId": thread, "input": many })).await;
    assert!(fault.message.contains("101 images, at most 100"), "{}", fault.message);
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    assert_eq!(env.model().requests().len(), 1);
}

#[tokio::test]
async fn the_bounds_are_those_of_the_model() {
    let models = json!({
        "families": [{ "id": "tiny", "names": ["tiny-*"], "max_image_side": 64 }],
        "models": [{ "id": "wide", "is_default": true, "max_image_side": 4096 },
                   { "id": "light", "max_image_bytes": 10_000 }] });
    let env = with_models(json!([says("A."), says("B."), says("C.")]), &models).await;
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    for (model, side) in [("wide", 3000), ("tiny-1", 400), ("light", 200)] {
        let input = json!([{ "type": "image", "url": png_url(side, side / 8) }]);
        let params = json!({ "threadId": thread, "input": input, "model": model });
        assert_eq!(peer.run_turn_with(params).await["status"], "completed");
    }
    let sent = images(env.model().requests().last().unwrap());
    assert_eq!((size(&sent[0]), size(&sent[1])), ((3000, 375), (64, 8)));
    let light = sent[2].strip_prefix("data:image/jpeg;base64,").unwrap();
    assert!(STANDARD.decode(light).unwrap().len() <= 10_000);
}

#[tokio::test]
async fn a_model_of_texts_is_sent_notes_in_place_of_images() {
    let models = json!([{ "id": "sees", "is_default": true },
                        { "id": "reads", "input_modalities": ["text"] }]);
    let look = calls("view_image", json!({ "path": "a.png" }));
    let responses = json!([look, says("Seen."), says("Read."), says("Seen again.")]);
    let env = with_models(responses, &models).await;
    std::fs::write(env.workspace().join("a.png"), png(8, 8)).unwrap();
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    let image = json!({ "type": "image", "url": png_url(2, 2) });
    let turn =
        |input: Value, model: &str| json!({ "threadId": thread, "input": input, "model": model });
    let text = || json!([{ "type": "text", "text": "Look." }]);
    peer.run_turn_with(turn(json!([image]), "sees")).await;
    let fault = peer.refused("turn/start", turn(json!([image]), "reads")).await;
    assert_eq!(fault.code, -32602);
    let expected = "`input[0]`: the model `reads` does not accept images";
    assert!(fault.message.contains(expected), "{}", fault.message);
    assert!(fault.message.contains("inputModalities"), "{}", fault.message);
    for model in ["reads", "sees"] {
        assert_eq!(peer.run_turn_with(turn(text(), model)).await["status"], "completed");
    }
    let requests = env.model().requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(images(&requests[1]).len(), 2);
    assert_eq!(images(&requests[2]), Vec::<String>::new());
    let notes = requests[2]["input"].to_string().matches("which this model cannot see").count();
    assert_eq!(notes, 2);
    assert_eq!(images(&requests[3]), images(&requests[1]), "the history keeps them");
}

#[tokio::test]
async fn images_of_a_clients_tool_are_prepared_or_replaced_by_the_reason() {
    let call = calls("camera", json!({}));
    let env = TestEnvironment::with_responses(json!([call, says("Seen.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let tool = json!({ "name": "camera", "description": "Takes a picture.",
        "inputSchema": { "type": "object" } });
    let thread = peer.start_thread(json!({ "dynamicTools": [tool] })).await;
    let turn = peer.start_turn(&thread, "Look.").await;
    let asked = peer.asked("item/tool/call").await;
    let image = |url: String| json!({ "type": "inputImage", "imageUrl": url });
    let mut items = vec![json!({ "type": "inputText", "text": "Here." })];
    items.push(image(url_of(&png_with_text(3000, 3, SECRET))));
    items.push(image(url_of(b"<svg/>")));
    items.extend((0..20).map(|_| image("https://example.com/a.png".to_owned())));
    peer.answer(&asked, json!({ "contentItems": items, "success": true })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let request = env.model().requests().pop().unwrap();
    let sent = images(&request);
    assert_eq!((size(&sent[0]), sent.len()), ((2048, 2), 19));
    let output = request["input"].as_array().unwrap().last().unwrap()["output"].clone();
    let reason = output[2]["text"].as_str().unwrap();
    assert!(reason.contains("image 2 of the result cannot be shown: not a PNG"), "{reason}");
    let excess = output[21]["text"].as_str().unwrap();
    assert!(excess.contains("image 21 of the result is left out: at most 20"), "{excess}");
    let item = peer.item("dynamicToolCall").await;
    assert_eq!(item["contentItems"][1]["imageUrl"], sent[0].as_str());
}

#[tokio::test]
async fn an_image_can_steer_a_turn() {
    let env =
        TestEnvironment::with_responses(json!([calls("camera", json!({})), says("Seen.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let tool = json!({ "name": "camera", "description": "Waits.",
        "inputSchema": { "type": "object" } });
    let thread = peer.start_thread(json!({ "dynamicTools": [tool] })).await;
    let turn = peer.start_turn(&thread, "Look.").await;
    let asked = peer.asked("item/tool/call").await;
    let steer = |url: String| {
        json!({ "threadId": thread, "expectedTurnId": turn,
        "input": [{ "type": "image", "url": url }] })
    };
    let fault = peer.refused("turn/steer", steer(url_of(b"%PDF"))).await;
    assert!(fault.message.contains("but a PDF document"), "{}", fault.message);
    peer.call("turn/steer", steer(png_url(5000, 5))).await;
    peer.answer(&asked, json!({ "contentItems": [], "success": true })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let sent = images(env.model().requests().last().unwrap());
    assert_eq!((size(&sent[0]), sent.len()), ((2048, 2), 1));
}

#[tokio::test]
async fn a_generated_image_is_an_item_and_goes_back_as_it_came() {
    let result = STANDARD.encode(png(3, 2));
    let image = json!({ "image_generation": { "result": result, "revised_prompt": "a cat" } });
    let failed = json!({ "image_generation": { "failed": true } });
    let responses = json!([{ "steps": [image, failed, { "message": "Here." }] },
        says("More."), says("After a restart."), says("Read.")]);
    let models = json!([{ "id": "sees", "is_default": true },
                        { "id": "reads", "input_modalities": ["text"] }]);
    let env = with_models(responses, &models).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Draw.").await;
    let items = [peer.item("imageGeneration").await, peer.item("imageGeneration").await];
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let expected = json!({ "type": "imageGeneration", "id": items[0]["id"], "status": "completed",
        "revisedPrompt": "a cat", "result": result });
    assert_eq!(items[0], expected);
    assert_eq!((&items[1]["status"], &items[1]["result"]), (&json!("failed"), &json!("")));
    assert!(items[1]["reason"].as_str().unwrap().contains("failed"), "{}", items[1]);
    peer.run_turn(&thread, "More.").await;
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", read).await;
    let stored = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let stored = stored.iter().filter(|item| item["type"] == "imageGeneration");
    assert_eq!(stored.collect::<Vec<_>>(), items.iter().collect::<Vec<_>>());
    peer.run_turn(&thread, "Again.").await;
    assert_grow(&env.model().raw_requests());
    let last = env.model().requests().pop().unwrap();
    let sent = last["input"].as_array().unwrap().iter();
    let sent: Vec<&Value> = sent.filter(|item| item["type"] == "image_generation_call").collect();
    assert_eq!((sent.len(), &sent[0]["result"]), (2, &json!(result)));
    assert_eq!((&sent[0]["status"], &sent[1]["result"]), (&json!("completed"), &Value::Null));
    // The tool is never offered, whatever a provider returns.
    assert!(!last["tools"].to_string().contains("image_generation"));
    let capabilities = peer.call("modelProvider/capabilities/read", json!({})).await;
    assert_eq!(capabilities["imageGeneration"], false);
    let text = json!([{ "type": "text", "text": "Read." }]);
    let turn = json!({ "threadId": thread, "input": text, "model": "reads" });
    assert_eq!(peer.run_turn_with(turn).await["status"], "completed");
    let input = env.model().requests().pop().unwrap()["input"].to_string();
    assert!(!input.contains(&result) && input.contains("which this model cannot see"), "{input}");
}

#[tokio::test]
async fn images_of_a_request_have_a_bound() {
    let models = json!([{ "id": "small", "is_default": true, "max_images_bytes": 20_000 }]);
    let look = |name: &str| calls("view_image", json!({ "path": name }));
    let responses = json!([look("a.png"), look("b.png"), look("c.png"), says("Seen.")]);
    let env = with_models(responses, &models).await;
    // Each has about 9,300 bytes as base64.
    for name in ["a.png", "b.png", "c.png"] {
        std::fs::write(env.workspace().join(name), png(48, 48)).unwrap();
    }
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    let image = json!({ "type": "image", "url": png_url(48, 48) });
    let turn = |input: Value| json!({ "threadId": thread, "input": input });
    let fault = peer.refused("turn/start", turn(json!([image, image, image]))).await;
    assert!(fault.message.contains("20000 bytes at most"), "{}", fault.message);
    let end = peer.run_turn_with(turn(json!([image]))).await;
    assert_eq!(end["status"], "completed");
    let requests = env.model().requests();
    let counts: Vec<usize> = requests.iter().map(|request| images(request).len()).collect();
    assert_eq!(counts, [1, 2, 2, 2], "the oldest of tools go first");
    let last = requests[3]["input"].to_string();
    assert_eq!(last.matches("look at it again").count(), 2, "{last}");
    assert_eq!(images(&requests[3])[0], images(&requests[0])[0], "that of the user stays");
}

#[tokio::test]
async fn a_relative_path_is_one_of_the_threads_folder() {
    let env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    let (own, other) = (env.workspace().join("pictures"), env.workspace().join("other"));
    for (folder, width) in [(&own, 30), (&other, 40)] {
        std::fs::create_dir_all(folder.join("in")).unwrap();
        std::fs::write(folder.join("in/a.png"), png_with_text(width, 20, SECRET)).unwrap();
    }
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "cwd": own })).await;
    let input = json!([{ "type": "localImage", "path": "in/a.png" }]);
    let turn = json!({ "threadId": thread, "input": input });
    assert_eq!(peer.run_turn_with(turn).await["status"], "completed");
    let turn = json!({ "threadId": thread, "input": input, "cwd": other });
    assert_eq!(peer.run_turn_with(turn).await["status"], "completed");
    let requests = env.model().requests();
    let sizes: Vec<(u32, u32)> = images(&requests[1]).iter().map(|url| size(url)).collect();
    assert_eq!(sizes, [(30, 20), (40, 20)]);
    let params = json!({ "threadId": thread, "itemsView": "full" });
    let turns = peer.call("thread/turns/list", params).await.to_string();
    assert!(turns.contains(own.join("in/a.png").to_str().unwrap()), "{turns}");
    let missing = json!([{ "type": "localImage", "path": "in/b.png" }]);
    let fault = peer.refused("turn/start", json!({ "threadId": thread, "input": missing })).await;
    // The turn's folder is the thread's from then on.
    assert!(fault.message.contains(other.join("in/b.png").to_str().unwrap()), "{fault:?}");
}

#[tokio::test]
async fn links_that_could_be_read_on_their_way_are_refused_wherever_they_come_from() {
    let env = TestEnvironment::with_responses(json!([says("One.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for (url, expected) in [
        ("http://h.example/a.png", "give a `data:` or `https:` URL"),
        ("https://ada:secret@h.example/a.png", "a user or a password"),
    ] {
        let input = json!([{ "type": "text", "text": "Look." }, { "type": "image", "url": url }]);
        let params = json!({ "threadId": thread, "input": input });
        let fault = peer.refused("turn/start", params).await;
        assert!(fault.message.contains("`input[1].url`"), "{fault:?}");
        let content = json!([{ "type": "input_image", "image_url": url }]);
        let items = json!([{ "type": "message", "role": "user", "content": content }]);
        let params = json!({ "threadId": thread, "items": items });
        let other = peer.refused("thread/inject_items", params).await;
        for fault in [fault, other] {
            assert_eq!(fault.code, -32602, "{fault:?}");
            assert!(fault.message.contains(expected), "{fault:?}");
            assert!(!fault.message.contains("secret"), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_link_that_could_be_read_on_its_way_fails_the_call_of_a_clients_tool() {
    let env =
        TestEnvironment::with_responses(json!([calls("camera", json!({})), says("Seen.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let tool = json!({ "name": "camera", "description": "Takes a picture.",
        "inputSchema": { "type": "object" } });
    let thread = peer.start_thread(json!({ "dynamicTools": [tool] })).await;
    let turn = peer.start_turn(&thread, "Look.").await;
    let asked = peer.asked("item/tool/call").await;
    let items = json!([{ "type": "inputImage", "imageUrl": "http://h.example/a.png" }]);
    peer.answer(&asked, json!({ "contentItems": items, "success": true })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let last = env.model().raw_requests().pop().unwrap();
    let why =
        "the client could not run this tool, an image cannot have a `http:` URL: give a `data:`";
    assert!(last.contains(why), "{last}");
}
