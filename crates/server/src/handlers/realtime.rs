//! Realtime conversations. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, RealtimeMethods, ThreadIdParams, ThreadRealtimeAppendAudioParams,
    ThreadRealtimeAppendTextParams, ThreadRealtimeListVoicesResponse, ThreadRealtimeStartParams,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl RealtimeMethods<Cx> for Server {
    not_implemented! {
        thread_realtime_start(ThreadRealtimeStartParams) -> Empty = "thread/realtime/start";
        thread_realtime_append_audio(ThreadRealtimeAppendAudioParams) -> Empty = "thread/realtime/appendAudio";
        thread_realtime_append_text(ThreadRealtimeAppendTextParams) -> Empty = "thread/realtime/appendText";
        thread_realtime_stop(ThreadIdParams) -> Empty = "thread/realtime/stop";
        thread_realtime_list_voices(Empty) -> ThreadRealtimeListVoicesResponse = "thread/realtime/listVoices";
    }
}
