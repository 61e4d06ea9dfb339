//! Moves messages between a conversation and its WebSocket until one side ends. Reading never waits for
//! writing, every wait has a bound, and a provider that is silent is given up.

use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::conversation::{Conversation, Effect, Input, Report};

/// Longest time until the provider's session is there.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time for one message to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the pings on a connection.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// A provider that sends nothing for so long, no answer to a ping either, is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest time for a close that was asked for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait to be written; at the bound no input is taken, and a provider whose own events
/// make more is given up.
const MAX_OUTGOING: usize = 16;
/// Messages that an input makes at most.
const PER_INPUT: usize = 2;

/// Why a conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// `stop` was ready.
    Stopped,
    /// The provider closed the connection; its words, if it gave some.
    Closed { reason: Option<String> },
    /// The connection failed, or the provider sent what it should not.
    Failed { message: String },
}

/// Runs a conversation over `socket` until it ends. `stop` ends it, as does the end of `inputs`.
/// Inputs are taken once the session is there.
pub async fn run<S>(
    socket: S,
    mut conversation: Conversation,
    inputs: &mut mpsc::Receiver<Input>,
    stop: impl Future<Output = ()>,
    mut report: impl FnMut(Report),
) -> End
where
    S: Stream<Item = Result<Message, tungstenite::Error>>
        + Sink<Message, Error = tungstenite::Error>,
{
    let (mut sink, stream) = socket.split();
    let (outgoing, mut waiting) = mpsc::channel(MAX_OUTGOING);
    let writing = async {
        while let Some(message) = waiting.recv().await {
            match timeout(WRITE_TIMEOUT, sink.send(message)).await {
                Ok(Ok(())) => {}
                // The reader learns why.
                Ok(Err(
                    tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed,
                )) => {
                    return std::future::pending().await;
                }
                Ok(Err(error)) => return lost(&error),
                Err(_) => return failed("the provider reads nothing"),
            }
        }
        End::Stopped
    };
    let talking = async {
        let mut stream = std::pin::pin!(stream);
        talk(&mut stream, &outgoing, &mut conversation, inputs, &mut report).await
    };
    let end = tokio::select! {
        biased;
        () = stop => End::Stopped,
        end = talking => end,
        end = writing => end,
    };
    // Ignored: the connection is dropped next.
    let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
    end
}

async fn talk(
    stream: &mut (impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin),
    outgoing: &mpsc::Sender<Message>,
    conversation: &mut Conversation,
    inputs: &mut mpsc::Receiver<Input>,
    report: &mut impl FnMut(Report),
) -> End {
    let began = Instant::now();
    let mut heard = began;
    let mut pings = interval_at(began + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut effects = conversation.begin();
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Report(said) => report(said),
                Effect::Send(text) => {
                    if outgoing.try_send(Message::text(text)).is_err() {
                        return failed("the provider reads nothing");
                    }
                }
            }
        }
        let is_started = conversation.is_started();
        let deadline = if is_started { heard + SILENCE } else { began + START_TIMEOUT };
        tokio::select! {
            message = stream.next() => {
                heard = Instant::now();
                match received(message, conversation) {
                    Ok(made) => effects = made,
                    Err(end) => return end,
                }
            }
            input = next_input(outgoing, inputs), if is_started => match input {
                Some(input) => effects = conversation.input(input),
                None => return End::Stopped,
            },
            _ = pings.tick() => {
                // With a full queue, what waits asks for a sign of life.
                let _ = outgoing.try_send(Message::Ping(Default::default()));
            }
            () = sleep_until(deadline) => {
                return match is_started {
                    true => failed("the provider has been silent for 60 s"),
                    false => failed("the provider has not started the session within 15 s"),
                };
            }
        }
    }
}

/// The next input, once there is room for what it makes. Cancelled without a loss.
async fn next_input(
    outgoing: &mpsc::Sender<Message>,
    inputs: &mut mpsc::Receiver<Input>,
) -> Option<Input> {
    // Its end is that of `run`.
    let _room = outgoing.reserve_many(PER_INPUT).await.ok()?;
    inputs.recv().await
}

fn received(
    message: Option<Result<Message, tungstenite::Error>>,
    conversation: &mut Conversation,
) -> Result<Vec<Effect>, End> {
    match message {
        Some(Ok(Message::Text(text))) => conversation
            .receive(&text)
            .map_err(|error| failed(&format!("the provider sent {error}"))),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(Vec::new()),
        Some(Ok(Message::Binary(data))) => {
            let length = data.len();
            Err(failed(&format!("the provider sent a binary message of {length} bytes")))
        }
        Some(Ok(Message::Close(frame))) => {
            let said = |reason: &str| format!("the provider said: {reason}");
            let reason = frame.filter(|frame| !frame.reason.is_empty());
            Err(End::Closed { reason: reason.map(|frame| said(&frame.reason)) })
        }
        Some(Err(tungstenite::Error::ConnectionClosed)) => Err(End::Closed { reason: None }),
        Some(Err(error)) => Err(lost(&error)),
        None => Err(failed("the connection to the provider was lost")),
    }
}

fn lost(error: &tungstenite::Error) -> End {
    failed(&format!("the connection to the provider was lost: {error}"))
}

fn failed(message: &str) -> End {
    End::Failed { message: message.to_owned() }
}
