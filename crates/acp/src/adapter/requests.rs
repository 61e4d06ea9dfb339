//! The editor's messages: each request gets one answer, whatever it is.

use jsonrpc::{ErrorObject, Incoming, Malformed, Message, RequestId, decode_params};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Adapter, Running};
use crate::editor;
use crate::map::settings::OptionId;
use crate::schema::initialize::{
    AgentAuthCapabilities, AgentCapabilities, AnyInitialize, Implementation, InitializeRequest,
    InitializeResponse, McpCapabilities, PromptCapabilities, SessionCapabilities,
};
use crate::schema::session::{
    CancelRequest, SessionIdRequest, SetConfigOptionRequest, SetConfigOptionResponse,
    SetModeRequest,
};
use crate::schema::update::SessionUpdate;
use crate::schema::{Version, code, method, v2};
use crate::session::Session;

/// Methods that need the handshake.
const METHODS: [&str; 14] = [
    "auth/login",
    "auth/logout",
    "authenticate",
    "logout",
    "session/close",
    "session/delete",
    "session/list",
    "session/load",
    "session/new",
    "session/prompt",
    "session/resume",
    "session/set_config_option",
    "session/set_mode",
    "session/cancel",
];

impl Adapter {
    pub(super) fn received(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Malformed(malformed) => self.malformed(malformed),
            Incoming::Message(Message::Request { id, method, params, .. }) => {
                self.request(id, &method, params.as_deref());
            }
            Incoming::Message(Message::Notification { method, params, .. }) => {
                self.notification(&method, params.as_deref());
            }
            Incoming::Message(Message::Response { id: Some(id), outcome }) => {
                // An answer to nothing that is open is late, and ignored.
                if let Some(then) = self.editor.take(&id) {
                    then(self, editor::value(outcome));
                }
            }
            Incoming::Message(Message::Response { id: None, outcome }) => {
                if let Err(error) = outcome {
                    tracing::warn!(target: "acp", "the editor could not read a message: {error}");
                }
            }
        }
    }

    fn malformed(&mut self, malformed: Malformed) {
        if let Some(answer) = malformed.answers
            && let Some(then) = self.editor.take(&answer.id)
        {
            then(self, Err(ErrorObject::invalid_request(answer.why)));
            return;
        }
        self.editor.refuse(malformed.id.as_ref(), &malformed.error);
    }

    fn request(&mut self, id: RequestId, method: &str, params: Option<&RawValue>) {
        if self.requests.contains_key(&id) {
            // The id is that of the other request, whose answer this would be taken for.
            let message =
                format!("Invalid request: a request with the id {id} runs already; use another id");
            return self.editor.refuse(None, &ErrorObject::invalid_request(message));
        }
        self.requests.insert(id.clone(), Running::Other);
        if let Err(error) = self.dispatch(&id, method, params) {
            self.refuse(&id, &error);
        }
    }

    fn dispatch(
        &mut self,
        id: &RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(), ErrorObject> {
        if self.client.is_none() && METHODS.contains(&method) {
            let message = format!("{method}: send `initialize` first");
            return Err(ErrorObject::invalid_request(message));
        }
        let is_first = self.version == Version::First;
        match method {
            "initialize" => self.initialize(id, params),
            "authenticate" if is_first => self.authenticate(id, &decode_params(params)?),
            "auth/login" if !is_first => self.authenticate(id, &decode_params(params)?),
            "logout" if is_first => {
                self.log_out(id);
                Ok(())
            }
            "auth/logout" if !is_first => {
                self.log_out(id);
                Ok(())
            }
            "session/new" => self.new_session(id, decode_params(params)?),
            "session/load" if is_first => self.load_session(id, decode_params(params)?),
            "session/resume" if is_first => self.resume_session(id, decode_params(params)?),
            "session/resume" => {
                let v2::Resume { open, replay_from } = decode_params(params)?;
                match replay_from {
                    Some(v2::ReplayFrom::Start) => self.load_session(id, open),
                    None => self.resume_session(id, open),
                }
            }
            "session/list" => self.list_sessions(id, decode_params(params)?),
            "session/close" => self.close_session(id, decode_params(params)?),
            "session/delete" => {
                self.delete_session(id, decode_params(params)?);
                Ok(())
            }
            "session/prompt" => self.prompt(id, decode_params(params)?),
            "session/set_mode" if is_first => self.set_mode(id, &decode_params(params)?),
            "session/set_config_option" => self.set_config_option(id, &decode_params(params)?),
            // Some clients send it with an id.
            method::SESSION_CANCEL => {
                let SessionIdRequest { session_id } = decode_params(params)?;
                self.session(&session_id)?;
                self.interrupt(&session_id);
                self.answer(id, &json!({}));
                Ok(())
            }
            _ => Err(ErrorObject::method_not_found(method)),
        }
    }

    /// Notifications that are not known, or cannot be read, have no answer.
    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            method::SESSION_CANCEL => match decode_params::<SessionIdRequest>(params) {
                // Nothing happens to a turn that has ended.
                Ok(SessionIdRequest { session_id }) => self.interrupt(&session_id),
                Err(error) => tracing::warn!(target: "acp", "{method}: {error}"),
            },
            method::CANCEL_REQUEST => match decode_params::<CancelRequest>(params) {
                Ok(CancelRequest { request_id }) => self.cancel_request(&request_id),
                Err(error) => tracing::warn!(target: "acp", "{method}: {error}"),
            },
            _ => tracing::debug!(target: "acp", "{method}: unknown notification"),
        }
    }

    /// Cancels what can be; other requests are short, and end by themselves.
    fn cancel_request(&mut self, id: &RequestId) {
        match self.requests.get(id).cloned() {
            Some(Running::Prompt(session)) => {
                if !self.cancel_pending(id, &session) {
                    self.interrupt(&session);
                }
            }
            Some(Running::Login) => self.cancel_login(),
            Some(Running::Opening(session)) => self.cancel_opening(id, &session),
            Some(Running::Other) | None => {}
        }
    }

    fn initialize(&mut self, id: &RequestId, params: Option<&RawValue>) -> Result<(), ErrorObject> {
        if self.client.is_some() {
            return Err(ErrorObject::invalid_request("the connection is already initialized"));
        }
        let AnyInitialize { protocol_version } = decode_params(params)?;
        let version = match self.options.speaks_v2 && protocol_version >= 2 {
            true => Version::Second,
            false => Version::First,
        };
        let params: InitializeRequest = match version {
            Version::First => decode_params(params)?,
            Version::Second => decode_params::<v2::Initialize>(params)?.into_first(),
        };
        self.version = version;
        if let Some(info) = &params.client_info {
            tracing::info!(target: "acp", "client {} {}", info.name, info.version);
        }
        let client = params.client_capabilities;
        let info = Implementation {
            name: "agentd".to_owned(),
            title: Some("agentd".to_owned()),
            version: self.options.version.clone(),
        };
        let methods = super::login::methods(&client);
        self.client = Some(client);
        if version == Version::Second {
            self.answer(id, &v2::Initialized::new(info, &methods));
            return Ok(());
        }
        let response = InitializeResponse {
            protocol_version: version.number(),
            agent_capabilities: AgentCapabilities {
                load_session: true,
                prompt_capabilities: PromptCapabilities {
                    image: true,
                    audio: false,
                    embedded_context: true,
                },
                mcp_capabilities: McpCapabilities { http: true, sse: false },
                session_capabilities: SessionCapabilities::default(),
                auth: AgentAuthCapabilities::default(),
            },
            auth_methods: methods,
            agent_info: info,
        };
        self.answer(id, &response);
        Ok(())
    }

    fn set_mode(&mut self, id: &RequestId, params: &SetModeRequest) -> Result<(), ErrorObject> {
        let session = self.session(&params.session_id)?;
        session
            .settings
            .choose(OptionId::Mode, &params.mode_id)
            .map_err(ErrorObject::invalid_params)?;
        let config_options = session.settings.options();
        self.answer(id, &json!({}));
        let update = SessionUpdate::ConfigOptionUpdate { config_options };
        self.update(&params.session_id, &update);
        Ok(())
    }

    fn set_config_option(
        &mut self,
        id: &RequestId,
        params: &SetConfigOptionRequest,
    ) -> Result<(), ErrorObject> {
        let session = self.session(&params.session_id)?;
        let option = OptionId::read(&params.config_id).map_err(ErrorObject::invalid_params)?;
        let value = params.value.as_str().ok_or_else(|| {
            let message = format!("`value`: the option `{}` has texts as values", params.config_id);
            ErrorObject::invalid_params(message)
        })?;
        let before = session.settings.mode();
        session.settings.choose(option, value).map_err(ErrorObject::invalid_params)?;
        let mode = session.settings.mode();
        let config_options = session.settings.options();
        match self.version {
            Version::First => self.answer(id, &SetConfigOptionResponse { config_options }),
            Version::Second => {
                let config_options = v2::config_options(&config_options);
                self.answer(id, &v2::ConfigOptions { config_options });
            }
        }
        if mode != before {
            let update = SessionUpdate::CurrentModeUpdate { current_mode_id: mode };
            self.update(&params.session_id, &update);
        }
        Ok(())
    }

    /// An open session.
    ///
    /// # Errors
    /// No open session has this id.
    pub(super) fn session(&mut self, id: &str) -> Result<&mut Session, ErrorObject> {
        self.sessions.get_mut(id).ok_or_else(|| {
            let data = json!({ "sessionId": id });
            let id: String = id.chars().take(100).collect();
            let message = format!("the session `{id}` is not open: load or resume it first");
            ErrorObject::new(code::NOT_FOUND, message).with_data(data)
        })
    }
}
