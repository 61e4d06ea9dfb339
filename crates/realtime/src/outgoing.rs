//! The messages to a provider, as JSON texts.

use serde_json::{Value, json};

use crate::audio::{Audio, SAMPLE_RATE};
use crate::conversation::{Modality, Settings};

/// The session as the API describes it.
pub(crate) fn session(settings: &Settings) -> Value {
    let modality = match settings.modality {
        Modality::Text => "text",
        Modality::Audio => "audio",
    };
    let format = json!({ "type": "audio/pcm", "rate": SAMPLE_RATE });
    let mut session = json!({
        "type": "realtime",
        "model": settings.model,
        "output_modalities": [modality],
        "audio": {
            "input": {
                "format": format,
                "transcription": { "model": settings.transcription_model },
                "turn_detection": { "type": "server_vad" },
            },
            "output": { "format": format, "voice": settings.voice },
        },
    });
    if let Some(prompt) = &settings.prompt {
        session["instructions"] = json!(prompt);
    }
    session
}

pub(crate) fn session_update(settings: &Settings) -> String {
    json!({ "type": "session.update", "session": session(settings) }).to_string()
}

pub(crate) fn audio(audio: &Audio) -> String {
    json!({ "type": "input_audio_buffer.append", "audio": audio.data() }).to_string()
}

pub(crate) fn text(text: &str) -> String {
    let content = json!([{ "type": "input_text", "text": text }]);
    let item = json!({ "type": "message", "role": "user", "content": content });
    json!({ "type": "conversation.item.create", "item": item }).to_string()
}

pub(crate) fn response() -> String {
    json!({ "type": "response.create" }).to_string()
}
