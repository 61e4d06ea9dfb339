//! Realtime conversations with a model: text and audio both ways over a WebSocket to a provider, or text
//! next to a WebRTC call whose audio goes directly between client and provider.
//!
//! [`Event`] reads what the provider sends, [`Conversation`] decides what follows, [`connect`] opens the
//! connection and [`run`] moves messages over it. It knows neither threads nor the wire protocol of the
//! application server.

mod audio;
mod connect;
mod conversation;
mod event;
mod outgoing;
mod run;

pub use audio::{Audio, AudioError, CHANNELS, MAX_AUDIO_BYTES, SAMPLE_RATE};
pub use connect::{Call, Connected, connect, hang_up};
pub use conversation::{Conversation, Effect, Input, Modality, Report, Settings};
pub use event::{Event, EventError, Role};
pub use run::{End, run};
