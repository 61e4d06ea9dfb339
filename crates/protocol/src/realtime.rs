//! Realtime conversations with a thread (experimental).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::Empty;
use crate::table::{methods, notifications};
use crate::thread::ThreadIdParams;

methods! {
    Realtime, RealtimeMethods;

    /// Starts a realtime session.
    ThreadRealtimeStart = "thread/realtime/start",
        thread_realtime_start(ThreadRealtimeStartParams) -> Empty,
        Experimental, InThread, [], StartsWork;

    /// Appends audio.
    ThreadRealtimeAppendAudio = "thread/realtime/appendAudio",
        thread_realtime_append_audio(ThreadRealtimeAppendAudioParams) -> Empty,
        Experimental, InThread, [];

    /// Appends text.
    ThreadRealtimeAppendText = "thread/realtime/appendText",
        thread_realtime_append_text(ThreadRealtimeAppendTextParams) -> Empty,
        Experimental, InThread, [];

    /// Ends the session.
    ThreadRealtimeStop = "thread/realtime/stop",
        thread_realtime_stop(ThreadIdParams) -> Empty,
        Experimental, InThread, [];

    /// Lists the available voices.
    ThreadRealtimeListVoices = "thread/realtime/listVoices",
        thread_realtime_list_voices(Empty) -> ThreadRealtimeListVoicesResponse,
        Experimental, Ordered, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A session started.
    ThreadRealtimeStarted = "thread/realtime/started", ThreadRealtimeStartedNotification, Experimental;

    /// An item of the realtime API.
    ThreadRealtimeItemAdded = "thread/realtime/itemAdded", ThreadRealtimeItemAddedNotification, Experimental;

    /// More text of a transcript.
    ThreadRealtimeTranscriptDelta = "thread/realtime/transcript/delta", ThreadRealtimeTranscriptDeltaNotification, Experimental;

    /// A complete transcript.
    ThreadRealtimeTranscriptDone = "thread/realtime/transcript/done", ThreadRealtimeTranscriptDoneNotification, Experimental;

    /// More audio.
    ThreadRealtimeOutputAudioDelta = "thread/realtime/outputAudio/delta", ThreadRealtimeOutputAudioDeltaNotification, Experimental;

    /// The SDP answer of WebRTC.
    ThreadRealtimeSdp = "thread/realtime/sdp", ThreadRealtimeSdpNotification, Experimental;

    /// An error of the session.
    ThreadRealtimeError = "thread/realtime/error", ThreadRealtimeErrorNotification, Experimental;

    /// The session ended.
    ThreadRealtimeClosed = "thread/realtime/closed", ThreadRealtimeClosedNotification, Experimental;
}

/// Parameters of `thread/realtime/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeStartParams {
    pub thread_id: String,
    pub output_modality: RealtimeOutputModality,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<ThreadRealtimeStartTransport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<RealtimeVoice>,
}

/// Output modality of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RealtimeOutputModality {
    Text,
    Audio,
}

/// Transport of the audio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ThreadRealtimeStartTransport {
    Websocket,
    Webrtc { sdp: String },
}

/// A voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RealtimeVoice {
    Alloy,
    Arbor,
    Ash,
    Ballad,
    Breeze,
    Cedar,
    Coral,
    Cove,
    Echo,
    Ember,
    Juniper,
    Maple,
    Marin,
    Sage,
    Shimmer,
    Sol,
    Spruce,
    Vale,
    Verse,
}

/// Parameters of `thread/realtime/appendAudio`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeAppendAudioParams {
    pub thread_id: String,
    pub audio: ThreadRealtimeAudioChunk,
}

/// A chunk of audio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeAudioChunk {
    /// 16-bit samples in base64.
    pub data: String,
    pub sample_rate: u32,
    pub num_channels: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_channel: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
}

/// Parameters of `thread/realtime/appendText`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeAppendTextParams {
    pub thread_id: String,
    pub text: String,
}

/// Result of `thread/realtime/listVoices`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadRealtimeListVoicesResponse {
    pub voices: RealtimeVoicesList,
}

/// Voices by version of the realtime API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RealtimeVoicesList {
    pub v1: Vec<RealtimeVoice>,
    pub v2: Vec<RealtimeVoice>,
    pub default_v1: RealtimeVoice,
    pub default_v2: RealtimeVoice,
}

/// Payload of `thread/realtime/started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeStartedNotification {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_session_id: Option<String>,
    pub version: RealtimeConversationVersion,
}

/// Version of the realtime API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RealtimeConversationVersion {
    V1,
    V2,
}

/// Payload of `thread/realtime/itemAdded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeItemAddedNotification {
    pub thread_id: String,
    pub item: Value,
}

/// Payload of `thread/realtime/transcript/delta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeTranscriptDeltaNotification {
    pub thread_id: String,
    pub role: String,
    pub delta: String,
}

/// Payload of `thread/realtime/transcript/done`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeTranscriptDoneNotification {
    pub thread_id: String,
    pub role: String,
    pub text: String,
}

/// Payload of `thread/realtime/outputAudio/delta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeOutputAudioDeltaNotification {
    pub thread_id: String,
    pub audio: ThreadRealtimeAudioChunk,
}

/// Payload of `thread/realtime/sdp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeSdpNotification {
    pub thread_id: String,
    pub sdp: String,
}

/// Payload of `thread/realtime/error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeErrorNotification {
    pub thread_id: String,
    pub message: String,
}

/// Payload of `thread/realtime/closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRealtimeClosedNotification {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
