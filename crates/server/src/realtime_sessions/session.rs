//! One realtime session, from the connection to its provider to its last notification.

use model::{Client, Failure};
use protocol::{
    RealtimeConversationVersion, ThreadRealtimeAudioChunk, ThreadRealtimeClosed,
    ThreadRealtimeClosedNotification, ThreadRealtimeItemAdded, ThreadRealtimeItemAddedNotification,
    ThreadRealtimeOutputAudioDelta, ThreadRealtimeOutputAudioDeltaNotification, ThreadRealtimeSdp,
    ThreadRealtimeSdpNotification, ThreadRealtimeStarted, ThreadRealtimeStartedNotification,
    ThreadRealtimeTranscriptDelta, ThreadRealtimeTranscriptDeltaNotification,
    ThreadRealtimeTranscriptDone, ThreadRealtimeTranscriptDoneNotification,
};
use realtime::{Audio, CHANNELS, End, Input, Report, Role, SAMPLE_RATE};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use super::audience::Audience;
use super::words::Words;
use super::{Closed, NewSession};
use services::thread_port::ThreadHandle;

/// The thread on the screen.
pub(super) struct Session {
    new: NewSession,
    client: Client,
    audience: Audience,
    words: Words,
}

impl Session {
    pub(super) fn new(new: NewSession, client: Client) -> Self {
        let audience = Audience {
            thread: new.thread.clone(),
            handle: new.handle.clone(),
            starter: new.starter.clone(),
        };
        Self { words: Words::new(audience.clone()), new, client, audience }
    }

    /// Runs until it ends. What went wrong is reported.
    pub(super) async fn run(
        &self,
        mut inputs: mpsc::Receiver<Input>,
        stopped: watch::Receiver<Option<Closed>>,
    ) -> Closed {
        let NewSession { provider, settings, offer, .. } = &self.new;
        let mut stop = std::pin::pin!(stop(stopped, self.new.handle.clone()));
        let connecting =
            realtime::connect(&self.client, provider, settings.clone(), offer.as_deref());
        let connected = tokio::select! {
            biased;
            closed = &mut stop => return closed,
            connected = connecting => connected,
        };
        let connected = match connected {
            Ok(connected) => connected,
            Err(failure) => {
                self.error(&described(&failure));
                return Closed::Error;
            }
        };
        if let Some(call) = &connected.call {
            let thread_id = self.new.thread.clone();
            let sdp = call.answer.clone();
            self.audience
                .notify::<ThreadRealtimeSdp>(&ThreadRealtimeSdpNotification { thread_id, sdp });
        }
        let mut closed = Closed::Requested;
        let stop = async { closed = stop.await };
        let report = |report| self.report(report);
        let end =
            realtime::run(connected.socket, connected.conversation, &mut inputs, stop, report);
        let end = end.await;
        if let Some(call) = &connected.call
            && !matches!(end, End::Closed { .. })
        {
            realtime::hang_up(&self.client, provider, call).await;
        }
        match end {
            End::Stopped => closed,
            End::Closed { reason } => {
                reason.iter().for_each(|reason| self.error(reason));
                Closed::ByProvider
            }
            End::Failed { message } => {
                self.error(&message);
                Closed::Error
            }
        }
    }

    /// Its end: what was said is in the thread's history when clients learn of it.
    pub(super) async fn close(self, closed: Closed) {
        self.words.finish().await;
        let params = ThreadRealtimeClosedNotification {
            thread_id: self.new.thread,
            reason: Some(closed.reason().to_owned()),
        };
        self.audience.notify::<ThreadRealtimeClosed>(&params);
    }

    fn report(&self, report: Report) {
        let thread_id = self.new.thread.clone();
        let audience = &self.audience;
        match report {
            Report::Started { session } => {
                audience.notify::<ThreadRealtimeStarted>(&ThreadRealtimeStartedNotification {
                    thread_id,
                    realtime_session_id: self.new.id.clone().or(session),
                    version: RealtimeConversationVersion::V2,
                });
            }
            Report::ItemAdded { item } => self.item_added(&item),
            Report::Written { text } => self.remember(Role::User, &text),
            Report::TranscriptDelta { role, delta } => {
                let role = role.name().to_owned();
                audience.notify::<ThreadRealtimeTranscriptDelta>(
                    &ThreadRealtimeTranscriptDeltaNotification { thread_id, role, delta },
                );
            }
            Report::TranscriptDone { role, text } => {
                self.remember(role, &text);
                let role = role.name().to_owned();
                audience.notify::<ThreadRealtimeTranscriptDone>(
                    &ThreadRealtimeTranscriptDoneNotification { thread_id, role, text },
                );
            }
            Report::Audio { audio, item_id } => {
                audience.notify::<ThreadRealtimeOutputAudioDelta>(
                    &ThreadRealtimeOutputAudioDeltaNotification {
                        thread_id,
                        audio: chunk(audio, item_id),
                    },
                );
            }
            Report::Error { message } => self.error(&message),
        }
    }

    /// Reports an error in the provider's words, which may quote the key.
    fn error(&self, message: &str) {
        self.audience.error(self.new.provider.redact(message));
    }

    fn item_added(&self, item: &RawValue) {
        // It was read as JSON before; only an item of great depth is no value.
        match serde_json::from_str(item.get()) {
            Ok(item) => {
                let thread_id = self.new.thread.clone();
                self.audience.notify::<ThreadRealtimeItemAdded>(
                    &ThreadRealtimeItemAddedNotification { thread_id, item },
                );
            }
            Err(error) => self.audience.error(format!("an item cannot be shown: {error}")),
        }
    }

    fn remember(&self, role: Role, text: &str) {
        if !self.words.add(role, text) {
            let message = "the thread is busy, so a part of the conversation is missing from its \
                history";
            self.audience.error(message);
        }
    }
}

fn chunk(audio: Audio, item_id: Option<String>) -> ThreadRealtimeAudioChunk {
    ThreadRealtimeAudioChunk {
        sample_rate: SAMPLE_RATE,
        num_channels: CHANNELS,
        samples_per_channel: Some(audio.samples()),
        data: audio.into_data(),
        item_id,
    }
}

/// Resolves when the session is to end.
async fn stop(mut stopped: watch::Receiver<Option<Closed>>, handle: ThreadHandle) -> Closed {
    let asked = async {
        match stopped.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(Closed::Requested),
            // A session that was replaced has been asked to end.
            Err(_) => Closed::Requested,
        }
    };
    tokio::select! {
        biased;
        reason = asked => reason,
        () = handle.ended() => Closed::ThreadUnloaded,
    }
}

/// Why there is no session.
fn described(failure: &Failure) -> String {
    match failure.http_status {
        Some(404 | 405 | 426 | 501) => {
            format!("{}; the provider may not have a realtime API", failure.message)
        }
        _ => failure.message.clone(),
    }
}
