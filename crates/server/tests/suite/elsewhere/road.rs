//! The way of other servers to a server's door, on which a test can hold back, cut, change and watch what passes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::TestEnvironment;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc, watch};

/// The name of the real door.
const HIDDEN: &str = ".behind-the-road";

/// The way to one door.
pub(super) struct Road(Arc<State>);

struct State {
    door: PathBuf,
    traffic: watch::Sender<Traffic>,
    /// Ends the connections that are there.
    cut: Notify,
    changes: Mutex<Option<Change>>,
    /// Where lines for the newest visitor go, and lines in its place for the door.
    newest: watch::Sender<Option<(Sender, Sender)>>,
}

type Sender = mpsc::UnboundedSender<String>;

#[derive(Clone, Default)]
struct Traffic {
    /// Answers of the door to the connections below this number wait.
    held_below: usize,
    /// Connections so far, and those that are there.
    arrived: usize,
    present: usize,
    /// Lines of visitors that have passed.
    requests: Vec<String>,
}

/// A change of the next line of the door that contains a text.
struct Change {
    contains: &'static str,
    into: Box<dyn Fn(&str) -> String + Send>,
    /// The connection ends after it.
    is_last: bool,
}

impl Road {
    /// Before the only door of the home.
    pub(super) fn before_the_door(env: &TestEnvironment) -> Self {
        let doors = env.home().join("doors");
        let mut found = std::fs::read_dir(&doors).unwrap();
        let path = found.next().unwrap().unwrap().path();
        assert!(found.next().is_none(), "one door");
        let door = doors.join(HIDDEN);
        std::fs::rename(&path, &door).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let state = Arc::new(State {
            door,
            traffic: watch::Sender::default(),
            cut: Notify::new(),
            changes: Mutex::default(),
            newest: watch::Sender::default(),
        });
        let accepting = state.clone();
        tokio::spawn(async move {
            while let Ok((visitor, _)) = listener.accept().await {
                tokio::spawn(State::carry(accepting.clone(), visitor));
            }
        });
        Self(state)
    }

    /// From now on the door gives no answers, as when its server is stopped.
    pub(super) fn hold(&self) {
        self.0.traffic.send_modify(|traffic| traffic.held_below = usize::MAX);
    }

    /// From now on the door does not answer those that are there.
    pub(super) fn hold_present(&self) {
        self.0.traffic.send_modify(|traffic| traffic.held_below = traffic.arrived);
    }

    /// Everything that waits passes.
    pub(super) fn let_go(&self) {
        self.0.traffic.send_modify(|traffic| traffic.held_below = 0);
    }

    /// Ends the connections that are there.
    pub(super) fn cut(&self) {
        self.0.cut.notify_waiters();
    }

    /// Changes the next line of the door with this text.
    pub(super) fn change(
        &self,
        contains: &'static str,
        into: impl Fn(&str) -> String + Send + 'static,
    ) {
        let change = Change { contains, into: Box::new(into), is_last: false };
        *self.0.changes.lock().unwrap() = Some(change);
    }

    /// Ends the connection on which the next line of the door with this text comes, after it.
    pub(super) fn cut_after(&self, contains: &'static str) {
        let change = Change { contains, into: Box::new(str::to_owned), is_last: true };
        *self.0.changes.lock().unwrap() = Some(change);
    }

    /// Sends the newest visitor a message as if it came from the door.
    pub(super) fn say(&self, message: &Value) {
        let newest = self.0.newest.borrow();
        newest.as_ref().expect("a visitor").0.send(message.to_string()).unwrap();
    }

    /// Sends the door a message as if it came from the newest visitor, and waits until it has passed.
    pub(super) async fn tell(&self, message: &Value) {
        let message = message.to_string();
        {
            let newest = self.0.newest.borrow();
            newest.as_ref().expect("a visitor").1.send(message.clone()).unwrap();
        }
        self.requested(&message).await;
    }

    /// Waits until a visitor has sent a line with this text.
    pub(super) async fn requested(&self, text: &str) {
        self.until(|traffic| traffic.requests.iter().any(|line| line.contains(text))).await;
    }

    /// The number of visitors that have come.
    pub(super) fn so_far(&self) -> usize {
        self.0.traffic.borrow().arrived
    }

    /// Waits until this many visitors have come.
    pub(super) async fn arrived(&self, number: usize) {
        self.until(|traffic| traffic.arrived >= number).await;
    }

    /// Waits until this many visitors are there.
    pub(super) async fn present(&self, number: usize) {
        self.until(|traffic| traffic.present == number).await;
    }

    async fn until(&self, reached: impl Fn(&Traffic) -> bool) {
        let mut traffic = self.0.traffic.subscribe();
        let reached = traffic.wait_for(reached);
        let reached = tokio::time::timeout(std::time::Duration::from_secs(60), reached).await;
        reached.expect("in time").unwrap();
    }
}

impl State {
    async fn carry(state: Arc<Self>, visitor: UnixStream) {
        let cut = state.cut.notified();
        let Ok(door) = connect(&state.door).await else { return };
        let mut number = 0;
        state.traffic.send_modify(|traffic| {
            number = traffic.arrived;
            traffic.arrived += 1;
            traffic.present += 1;
        });
        let (said, mut saying) = mpsc::unbounded_channel();
        let (told, mut telling) = mpsc::unbounded_channel();
        state.newest.send_replace(Some((said, told)));
        let (from_visitor, to_visitor) = visitor.into_split();
        let (from_door, to_door) = door.into_split();
        tokio::select! {
            () = state.requests(from_visitor, to_door, &mut telling) => {}
            () = state.answers(number, from_door, to_visitor, &mut saying) => {}
            () = cut => {}
        }
        state.traffic.send_modify(|traffic| traffic.present -= 1);
    }

    async fn requests(
        &self,
        visitor: impl AsyncRead + Unpin,
        mut door: impl AsyncWrite + Unpin,
        telling: &mut mpsc::UnboundedReceiver<String>,
    ) {
        let mut lines = BufReader::new(visitor).lines();
        loop {
            let Some(line) = next_of(&mut lines, telling).await else { return };
            if door.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                return;
            }
            self.traffic.send_modify(|traffic| traffic.requests.push(line));
        }
    }

    async fn answers(
        &self,
        number: usize,
        door: impl AsyncRead + Unpin,
        mut visitor: impl AsyncWrite + Unpin,
        saying: &mut mpsc::UnboundedReceiver<String>,
    ) {
        let mut lines = BufReader::new(door).lines();
        let mut traffic = self.traffic.subscribe();
        loop {
            let Some(line) = next_of(&mut lines, saying).await else { return };
            if traffic.wait_for(|traffic| number >= traffic.held_below).await.is_err() {
                return;
            }
            let (line, is_last) = self.changed(line);
            if visitor.write_all(format!("{line}\n").as_bytes()).await.is_err() || is_last {
                return;
            }
        }
    }

    fn changed(&self, line: String) -> (String, bool) {
        let mut changes = self.changes.lock().unwrap();
        match changes.take_if(|change| line.contains(change.contains)) {
            Some(change) => ((change.into)(&line), change.is_last),
            None => (line, false),
        }
    }
}

/// The next line of a stream, or one that the test adds.
async fn next_of(
    lines: &mut tokio::io::Lines<BufReader<impl AsyncRead + Unpin>>,
    added: &mut mpsc::UnboundedReceiver<String>,
) -> Option<String> {
    tokio::select! {
        Some(added) = added.recv() => Some(added),
        line = lines.next_line() => line.ok().flatten(),
    }
}

async fn connect(door: &Path) -> std::io::Result<UnixStream> {
    UnixStream::connect(door).await
}
