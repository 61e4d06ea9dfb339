//! `POST …/audio/…`: measures the duration of a recording, and generates one second of a tone.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::{
    offline::{Call, Offline, text},
    reply::{Answered, Refused, Reply},
    saying::{deltas, tokens},
};

/// Sample rate of generated audio, with 16 bits per sample.
const RATE: u32 = 16_000;
/// Assumed bytes per second of audio in an unknown format.
const BYTES_PER_SECOND: u64 = 16_000;
const MAX_CHARS: usize = 4096;

impl Offline {
    pub(super) fn transcription(&self, call: &Call<'_>, task: &str) -> Answered {
        let form = call.form()?;
        let model = form.text("model");
        model.ok_or_else(|| Refused::value("model", "`model` is missing."))?;
        let file = form.file("file")?;
        let milliseconds = duration_ms(file.content);
        let seconds = milliseconds as f64 / 1000.0;
        let heard = format!("This is the offline model: it was given {seconds} seconds of sound.");
        let whole_seconds = milliseconds.div_ceil(1000);
        let usage = json!({"type": "duration", "seconds": whole_seconds});
        if form.text("stream") == Some("true") {
            return Ok(transcript_events(&heard, whole_seconds));
        }
        let end = format!("00:00:{:02},{:03}", milliseconds / 1000 % 60, milliseconds % 1000);
        Ok(match form.text("response_format").unwrap_or("json") {
            "json" => Reply::Json(json!({"text": heard, "duration": seconds, "usage": usage})),
            "verbose_json" => Reply::Json(json!({"task": task, "language": "english",
                "duration": seconds, "text": heard, "usage": usage, "words": [],
                "segments": [segment(&heard, seconds)]})),
            "text" => Reply::Bytes("text/plain; charset=utf-8", format!("{heard}\n").into()),
            "srt" => {
                let text = format!("1\n00:00:00,000 --> {end}\n{heard}\n\n");
                Reply::Bytes("text/plain; charset=utf-8", text.into())
            }
            "vtt" => {
                let end = end.replace(',', ".");
                let text = format!("WEBVTT\n\n00:00:00.000 --> {end}\n{heard}\n\n");
                Reply::Bytes("text/plain; charset=utf-8", text.into())
            }
            _ => {
                let message =
                    "`response_format` is `json`, `verbose_json`, `text`, `srt` or `vtt`.";
                return Err(Refused::value("response_format", message));
            }
        })
    }

    pub(super) fn speech(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        text(&body, "model")?;
        let input = text(&body, "input")?;
        if input.is_empty() || input.chars().count() > MAX_CHARS {
            return Err(Refused::value("input", "`input` has 1 to 4096 characters."));
        }
        let samples = tone();
        let (kind, sound) = match body["response_format"].as_str() {
            // WAV replaces the API's default format, which is not implemented.
            None | Some("wav") => ("audio/wav", wav(&samples)),
            Some("pcm") => ("audio/pcm", samples),
            Some(other) => {
                let message = format!("The offline model makes `wav` and `pcm`, not `{other}`.");
                return Err(Refused::new(StatusCode::BAD_REQUEST, "not_supported", message));
            }
        };
        if body["stream_format"] != "sse" {
            return Ok(Reply::Bytes(kind, sound.into()));
        }
        let (read, made) = (tokens(input.chars().count()), 20);
        let usage = json!({"input_tokens": read, "output_tokens": made,
            "total_tokens": read + made});
        let events = [
            json!({"type": "speech.audio.delta", "audio": STANDARD.encode(sound)}),
            json!({"type": "speech.audio.done", "usage": usage}),
        ];
        Ok(Reply::events(events, false))
    }
}

fn segment(text: &str, seconds: f64) -> Value {
    json!({"id": 0, "seek": 0, "start": 0.0, "end": seconds, "text": text, "tokens": [],
        "temperature": 0.0, "avg_logprob": 0.0, "compression_ratio": 1.0, "no_speech_prob": 0.0})
}

fn transcript_events(heard: &str, seconds: u64) -> Reply {
    let delta = |text: String| json!({"type": "transcript.text.delta", "delta": text});
    let written = tokens(heard.chars().count());
    // Ten tokens per second of audio.
    let usage = json!({"type": "tokens", "input_tokens": seconds * 10, "output_tokens": written,
        "total_tokens": seconds * 10 + written});
    let last = json!({"type": "transcript.text.done", "text": heard, "usage": usage});
    Reply::events(deltas(heard).into_iter().map(delta).chain([last]), false)
}

/// Duration in milliseconds of a WAV file by its header, of other files by their length; at least
/// one second.
fn duration_ms(file: &[u8]) -> u64 {
    let number = |at: usize| {
        let bytes = file.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_le_bytes(bytes)))
    };
    let by_header = || -> Option<u64> {
        file.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WAVE")?;
        let format = memchr::memmem::find(file, b"fmt ")?;
        let data = memchr::memmem::find(file, b"data")?;
        let there = (file.len() - (data + 8).min(file.len())) as u64;
        let length = number(data + 4)?.min(there);
        (length * 1000).checked_div(number(format + 16)?)
    };
    let by_length = file.len() as u64 * 1000 / BYTES_PER_SECOND;
    by_header().unwrap_or(by_length).max(1000)
}

/// One second of a tone of 400 Hz.
fn tone() -> Vec<u8> {
    let sample = |at: u32| if (at / (RATE / 800)).is_multiple_of(2) { 2000_i16 } else { -2000 };
    (0..RATE).flat_map(|at| sample(at).to_le_bytes()).collect()
}

fn wav(samples: &[u8]) -> Vec<u8> {
    let length = samples.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + length).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(RATE.to_le_bytes());
    file.extend((RATE * 2).to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend(length.to_le_bytes());
    file.extend(samples);
    file
}
