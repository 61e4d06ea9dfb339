//! The program on an emulated terminal, with a server that the test plays.

use std::cell::Cell;
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::path::PathBuf;

use jsonrpc::{ErrorObject, RequestId};
use serde_json::{Value, json};
use tui::app::{App, Effect, Environment, Event, Start};
use tui::link::Arrival;
use tui::palette::{Depth, Palette};
use tui::terminal::input::{Code, Input, Key, Reply};
use tui::terminal::screen::{Screen, Size};

/// The thread of the tests.
pub(crate) const THREAD: &str = "0199aaaa-0000-7000-8000-000000000001";

thread_local! {
    /// The terminal of the programs that this thread starts.
    static PALETTE: Cell<Palette> = const { Cell::new(Palette { background: None, depth: Depth::Full }) };
}

/// Starts programs in a terminal of this background and number of colours.
pub(crate) fn in_palette<T>(palette: Palette, start: impl FnOnce() -> T) -> T {
    let before = PALETTE.replace(palette);
    let result = start();
    PALETTE.set(before);
    result
}

/// The program, its terminal, and what it asked for.
pub(crate) struct Bench {
    pub(crate) app: App,
    pub(crate) screen: Screen,
    pub(crate) terminal: vt100::Parser,
    pub(crate) now: u64,
    pub(crate) calls: VecDeque<(u64, &'static str, Value)>,
    pub(crate) responses: Vec<(RequestId, Result<Value, ErrorObject>)>,
    pub(crate) written: Vec<u8>,
    pub(crate) others: Vec<Effect>,
    /// What the printed lines say, in order.
    pub(crate) printed: String,
    /// How many bytes went to the terminal.
    pub(crate) drawn: usize,
}

pub(crate) fn cells(count: usize) -> NonZeroU16 {
    NonZeroU16::new(count as u16).unwrap()
}

impl Bench {
    pub(crate) fn start(columns: usize, rows: usize) -> Self {
        Self::start_with(columns, rows, Start::default())
    }

    pub(crate) fn start_with(columns: usize, rows: usize, start: Start) -> Self {
        Self::start_in(columns, rows, start, Environment::default())
    }

    pub(crate) fn start_in(
        columns: usize,
        rows: usize,
        start: Start,
        environment: Environment,
    ) -> Self {
        let size = Size { columns, rows };
        let palette = PALETTE.get();
        let Palette { background, depth } = palette;
        let environment = Environment { depth, background, ..environment };
        let mut bench = Self {
            app: App::new(start, environment, PathBuf::from("/work"), size),
            screen: Screen::new(size, palette),
            terminal: vt100::Parser::new(cells(rows), cells(columns), 20_000),
            now: 0,
            calls: VecDeque::new(),
            responses: Vec::new(),
            written: Vec::new(),
            others: Vec::new(),
            printed: String::new(),
            drawn: 0,
        };
        // A terminal that marks pastes: keys that come at once were typed.
        let marks = Event::Input(Input::Reply(Reply::Bracketed(true)));
        bench.app.handle(marks, bench.now);
        bench.event(Event::Connected(Box::new(initialized())));
        bench
    }

    /// A program with an open thread.
    pub(crate) fn open(columns: usize, rows: usize) -> Self {
        let mut bench = Self::start(columns, rows);
        bench.answer("config/read", json!({ "config": {}, "origins": {} }));
        bench.answer("thread/start", opened(&json!([])));
        bench.answer("skills/list", json!({ "data": [] }));
        bench
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.now += 50;
        self.app.handle(event, self.now);
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        while let Some(effect) = self.app.next_effect() {
            match effect {
                Effect::Call { tag, method, params } => self.calls.push_back((tag, method, params)),
                Effect::Respond { id, outcome } => self.responses.push((id, outcome)),
                Effect::Write(bytes) => self.written.extend(bytes),
                Effect::Recolor(palette) => self.screen.set_palette(palette),
                other => self.others.push(other),
            }
        }
        let frame = self.app.frame(self.now);
        for line in &frame.printed {
            self.printed.push_str(line.text().trim_end());
            self.printed.push('\n');
        }
        let bytes = self.screen.draw(&frame);
        self.drawn += bytes.len();
        self.terminal.process(&bytes);
    }

    pub(crate) fn key(&mut self, key: Key) {
        self.event(Event::Input(Input::Key(key)));
    }

    /// Presses a letter, after which nothing is typed.
    pub(crate) fn press(&mut self, c: char) {
        self.key(Key::plain(Code::Char(c)));
        self.now += 300;
        self.event(Event::Tick);
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        text.chars().for_each(|c| self.key(Key::plain(Code::Char(c))));
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.type_text(text);
        self.key(Key::plain(Code::Enter));
    }

    /// The next call, which must be of this method.
    pub(crate) fn call(&mut self, method: &str) -> (u64, Value) {
        let (tag, called, params) = self.calls.pop_front().unwrap();
        assert_eq!(called, method);
        (tag, params)
    }

    pub(crate) fn answer(&mut self, method: &str, result: Value) -> Value {
        let (tag, params) = self.call(method);
        self.event(Event::Arrived(Arrival::Answer { tag, result: Ok(result) }));
        params
    }

    pub(crate) fn refuse(&mut self, method: &str, message: &str) {
        let (tag, _) = self.call(method);
        let result = Err(ErrorObject::internal(message.to_owned()));
        self.event(Event::Arrived(Arrival::Answer { tag, result }));
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        self.event(Event::Arrived(Arrival::Notification { method: method.to_owned(), params }));
    }

    pub(crate) fn ask(&mut self, id: i64, method: &str, params: Value) {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        let id = RequestId::Integer(id);
        self.event(Event::Arrived(Arrival::Request { id, method: method.to_owned(), params }));
    }

    pub(crate) fn item(&mut self, method: &str, item: Value) {
        let params = json!({ "threadId": THREAD, "turnId": "t1", "startedAtMs": 0, "completedAtMs": 0, "item": item });
        self.notify(method, params);
    }

    pub(crate) fn delta(&mut self, text: &str) {
        let params = json!({ "threadId": THREAD, "turnId": "t1", "itemId": "m1", "delta": text });
        self.notify("item/agentMessage/delta", params);
    }

    pub(crate) fn turn(&mut self, method: &str, status: &str, error: Value) {
        let turn = json!({ "id": "t1", "status": status, "items": [], "error": error });
        self.notify(method, json!({ "threadId": THREAD, "turn": turn }));
    }

    /// A turn that was begun with a message.
    pub(crate) fn begin_turn(&mut self, text: &str) -> Value {
        self.send(text);
        let turn = json!({ "id": "t1", "status": "inProgress", "items": [], "error": null });
        let params = self.answer("turn/start", json!({ "turn": turn }));
        self.turn("turn/started", "inProgress", Value::Null);
        params
    }

    /// Queues a message, which gets its text as its id.
    pub(crate) fn queue(&mut self, text: &str) -> Value {
        self.type_text(text);
        self.key(Key::plain(Code::Tab));
        let (tag, params) = self.call("thread/queue/add");
        let message = json!({
            "id": params["input"][0]["text"], "input": params["input"],
            "clientUserMessageId": params["clientUserMessageId"],
        });
        let result = Ok(json!({ "queuedSubmission": message }));
        self.event(Event::Arrived(Arrival::Answer { tag, result }));
        params
    }

    /// The server's word that the queue has so many messages, the last ones of those that were queued.
    pub(crate) fn queue_changed(&mut self, length: usize, pause: Value) {
        let params = json!({ "threadId": THREAD, "length": length, "pause": pause });
        self.notify("thread/queue/changed", params);
    }

    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        let size = Size { columns, rows };
        self.terminal.screen_mut().set_size(cells(rows), cells(columns));
        let bytes = self.screen.resize(size, false);
        self.terminal.process(&bytes);
        self.event(Event::Resized(size));
    }

    /// What the screen shows, without empty rows at its end.
    pub(crate) fn shown(&self) -> String {
        let screen = self.terminal.screen();
        let (_, columns) = screen.size();
        let rows: Vec<String> =
            screen.rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

pub(crate) fn initialized() -> protocol::InitializeResponse {
    serde_json::from_value(json!({
        "userAgent": "agentd/0", "agentHome": "/home/u/.agent", "platformFamily": "unix", "platformOs": "linux",
    }))
    .unwrap()
}

pub(crate) fn opened(turns: &Value) -> Value {
    json!({
        "thread": {
            "id": THREAD, "sessionId": THREAD, "preview": "", "ephemeral": false, "modelProvider": "offline",
            "createdAt": 0, "updatedAt": 0, "status": { "type": "idle" }, "cwd": "/work", "cliVersion": "0",
            "source": "cli", "name": null, "gitInfo": { "sha": null, "branch": "main", "originUrl": null },
            "turns": turns,
        },
        "model": "gpt-x", "modelProvider": "offline", "serviceTier": null, "cwd": "/work",
        "approvalPolicy": "onRequest", "approvalsReviewer": "user",
        "sandbox": { "type": "readOnly" }, "reasoningEffort": "high",
    })
}

/// The answer of a rollback.
pub(crate) fn rolled_back(files: Value) -> Value {
    let thread = opened(&json!([]))["thread"].take();
    match files {
        Value::Null => json!({ "thread": thread }),
        files => json!({ "thread": thread, "files": files }),
    }
}

/// The answer for a file that is there.
pub(crate) fn metadata() -> Value {
    json!({
        "isFile": true, "isDirectory": false, "isSymlink": false, "createdAtMs": 0, "modifiedAtMs": 0,
    })
}

pub(crate) fn completed(item: Value) -> Arrival {
    let params = json!({ "threadId": THREAD, "turnId": "t1", "completedAtMs": 0, "item": item });
    let params = serde_json::value::to_raw_value(&params).unwrap();
    Arrival::Notification { method: "item/completed".to_owned(), params }
}

pub(crate) fn message(text: &str) -> Value {
    json!({ "type": "agentMessage", "id": "m1", "text": text })
}

pub(crate) fn command(status: &str) -> Value {
    json!({
        "type": "commandExecution", "id": "c1", "command": "cargo test", "cwd": "/work", "status": status,
        "commandActions": [], "exitCode": 0, "aggregatedOutput": "ok\n",
    })
}

/// A turn as the server lists it.
pub(crate) fn turn(id: &str, status: &str, items: Value) -> Value {
    json!({ "id": id, "status": status, "items": items, "error": null })
}

/// The only page of a list.
pub(crate) fn page(data: Value) -> Value {
    json!({ "data": data, "nextCursor": null, "backwardsCursor": null })
}

/// A message of the user's.
pub(crate) fn said(id: &str, text: &str) -> Value {
    json!({ "type": "userMessage", "id": id, "content": [{ "type": "text", "text": text }] })
}

/// A page of threads.
pub(crate) fn listed(ids: std::ops::Range<usize>, next: Value) -> Value {
    let thread = |number: usize| {
        let mut thread = opened(&json!([]))["thread"].take();
        thread["id"] = json!(format!("id-{number}"));
        thread["preview"] = json!(format!("thread number {number}"));
        thread
    };
    json!({ "data": ids.map(thread).collect::<Vec<_>>(), "nextCursor": next, "backwardsCursor": null })
}
