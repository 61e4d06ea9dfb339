//! Realtime conversations with a thread (experimental).

use protocol::thread::ThreadIdParams;
use protocol::{
    Empty, RealtimeMethods, RealtimeOutputModality, RealtimeVoice, RealtimeVoicesList,
    ThreadRealtimeAppendAudioParams, ThreadRealtimeAppendTextParams,
    ThreadRealtimeListVoicesResponse, ThreadRealtimeStartParams, ThreadRealtimeStartTransport,
};
use realtime::{Audio, Input, Modality, Settings};

use crate::realtime_sessions::NewSession;
use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

/// Voices of the API's second version, which this server speaks.
const VOICES: [RealtimeVoice; 10] = [
    RealtimeVoice::Alloy,
    RealtimeVoice::Ash,
    RealtimeVoice::Ballad,
    RealtimeVoice::Coral,
    RealtimeVoice::Echo,
    RealtimeVoice::Sage,
    RealtimeVoice::Shimmer,
    RealtimeVoice::Verse,
    RealtimeVoice::Marin,
    RealtimeVoice::Cedar,
];
const DEFAULT_VOICE: RealtimeVoice = RealtimeVoice::Marin;
/// Voices of its first version.
const VOICES_V1: [RealtimeVoice; 9] = [
    RealtimeVoice::Juniper,
    RealtimeVoice::Maple,
    RealtimeVoice::Spruce,
    RealtimeVoice::Ember,
    RealtimeVoice::Vale,
    RealtimeVoice::Breeze,
    RealtimeVoice::Arbor,
    RealtimeVoice::Sol,
    RealtimeVoice::Cove,
];
const DEFAULT_VOICE_V1: RealtimeVoice = RealtimeVoice::Cove;

/// Longest prompt and longest text, in bytes.
const MAX_TEXT: usize = 256 << 10;
/// Longest id of a session, in bytes.
const MAX_ID: usize = 256;
/// Longest offer of a call, in bytes.
const MAX_OFFER: usize = 64 << 10;

impl RealtimeMethods<Caller> for Server {
    async fn thread_realtime_start(
        &self,
        caller: Caller,
        params: ThreadRealtimeStartParams,
    ) -> Result<Empty, Error> {
        check_length("prompt", params.prompt.as_deref(), 0, MAX_TEXT)?;
        check_length("realtimeSessionId", params.realtime_session_id.as_deref(), 1, MAX_ID)?;
        let voice = voice_name(params.voice.unwrap_or(DEFAULT_VOICE))?;
        let offer = params.transport.and_then(offer);
        check_length("transport.sdp", offer.as_deref(), 1, MAX_OFFER)?;
        if offer.as_deref().is_some_and(|offer| !offer.starts_with("v=0")) {
            let message = "`transport.sdp` is not a session description: it must begin with `v=0`";
            return Err(Error::invalid_params(message));
        }
        let handle = self.loaded_thread(&params.thread_id).await?;
        let access = handle.provider_access().await?;
        let realtime = &self.services.realtime;
        let provider = realtime.provider(&access, caller.peer.user_agent())?;
        let configured = &access.config.realtime;
        let settings = Settings {
            model: configured.model.clone(),
            transcription_model: configured.transcription_model.clone(),
            modality: match params.output_modality {
                RealtimeOutputModality::Text => Modality::Text,
                RealtimeOutputModality::Audio => Modality::Audio,
            },
            voice,
            prompt: params.prompt,
        };
        let new = NewSession {
            thread: params.thread_id,
            handle,
            starter: caller.peer.clone(),
            settings,
            provider,
            id: params.realtime_session_id,
            offer,
        };
        realtime.start(new, caller.gate())?;
        Ok(Empty {})
    }

    async fn thread_realtime_append_audio(
        &self,
        _: Caller,
        params: ThreadRealtimeAppendAudioParams,
    ) -> Result<Empty, Error> {
        let chunk = params.audio;
        let audio = Audio::new(
            chunk.data,
            chunk.sample_rate,
            chunk.num_channels,
            chunk.samples_per_channel,
        );
        let audio =
            audio.map_err(|problem| Error::invalid_params(format!("`audio`: {problem}")))?;
        self.append(&params.thread_id, Input::Audio(audio)).await
    }

    async fn thread_realtime_append_text(
        &self,
        _: Caller,
        params: ThreadRealtimeAppendTextParams,
    ) -> Result<Empty, Error> {
        check_length("text", Some(&params.text), 1, MAX_TEXT)?;
        self.append(&params.thread_id, Input::Text(params.text)).await
    }

    async fn thread_realtime_stop(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<Empty, Error> {
        self.loaded_thread(&params.thread_id).await?;
        self.services.realtime.stop(&params.thread_id, caller.gate());
        Ok(Empty {})
    }

    async fn thread_realtime_list_voices(
        &self,
        _: Caller,
        _: Empty,
    ) -> Result<ThreadRealtimeListVoicesResponse, Error> {
        let voices = RealtimeVoicesList {
            v1: VOICES_V1.to_vec(),
            v2: VOICES.to_vec(),
            default_v1: DEFAULT_VOICE_V1,
            default_v2: DEFAULT_VOICE,
        };
        Ok(ThreadRealtimeListVoicesResponse { voices })
    }
}

impl Server {
    async fn append(&self, thread: &str, input: Input) -> Result<Empty, Error> {
        self.loaded_thread(thread).await?;
        self.services.realtime.append(thread, input)?;
        Ok(Empty {})
    }
}

fn offer(transport: ThreadRealtimeStartTransport) -> Option<String> {
    match transport {
        ThreadRealtimeStartTransport::Websocket => None,
        ThreadRealtimeStartTransport::Webrtc { sdp } => Some(sdp),
    }
}

/// The name of a voice in the API.
fn voice_name(voice: RealtimeVoice) -> Result<String, Error> {
    let name = |voice| match serde_json::to_value(voice) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        _ => Err(Error::failed("a voice has no name").next_step("please report it")),
    };
    let wanted = name(voice)?;
    if VOICES.contains(&voice) {
        return Ok(wanted);
    }
    let known = VOICES.into_iter().map(name).collect::<Result<Vec<_>, _>>()?.join(", ");
    let message = format!("`voice`: `{wanted}` is a voice of version v1, but sessions use v2");
    Err(Error::invalid_params(message).next_step(format!("choose one of {known}")))
}

fn check_length(member: &str, text: Option<&str>, least: usize, most: usize) -> Result<(), Error> {
    match text.map(str::len) {
        Some(length) if !(least..=most).contains(&length) => Err(Error::invalid_params(format!(
            "`{member}` must have {least} to {most} bytes, found {length}"
        ))),
        Some(_) | None => Ok(()),
    }
}
