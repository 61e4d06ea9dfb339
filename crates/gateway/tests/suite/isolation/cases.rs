//! The reasons for which one team is refused.

use hyper::Method;
use serde_json::json;

use crate::common::gateway::{Answer, Tenant, TestGateway, chat_with};

/// A reason for which the loud team is refused.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Limits of the tier `free`, which also hold for the others.
    limits: &'static str,
    /// Limits of the loud team's project.
    pub(super) of_project: Option<&'static str>,
    pub(super) money: Option<Money>,
    pub(super) loud: Request,
    pub(super) quiet: Quiet,
    pub(super) reason: Reason,
}

/// The limit of spend that the loud team reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Money {
    Project,
    /// That of the project, which one of its requests holds.
    Reserved,
    Organization,
    Tier,
}

/// What the quiet team shares with the loud one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quiet {
    /// The organization and the model.
    Project,
    /// The organization.
    Model,
    /// The model, from another organization.
    Organization,
}

/// Why the loud team is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A limit, by the labels of its metric.
    Limit(&'static str, &'static str),
    /// Another code.
    Code(&'static str),
    /// The project may not use the model.
    Permission,
}

/// A request of a team.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// A chat of this model with this maximum of output tokens.
    Chat(&'static str, u32),
    /// A chat with this many characters.
    Long(&'static str, usize),
    Image(&'static str),
    /// Audio of so many seconds.
    Audio(&'static str, usize),
    /// A file for the vector store of the team.
    Ingestion,
    /// These bytes as a chat.
    Text(&'static str),
    /// A path that is not known.
    Unlisted,
}

/// The request that holds all but a little of a cent.
pub(super) const HANGING: Request = Request::Text(
    r#"{"model":"big","messages":[{"role":"user","content":"hang!"}],"max_tokens":990}"#,
);

impl Request {
    /// Sends it for a team that has this vector store.
    pub(super) async fn send(self, gateway: &TestGateway, tenant: &Tenant, store: &str) -> Answer {
        const CHAT: &str = "/v1/chat/completions";
        match self {
            Self::Chat(model, most) => {
                let body = chat_with(json!({ "model": model, "max_tokens": most }));
                gateway.post(tenant, CHAT, &body).await
            }
            Self::Long(model, length) => {
                let message = json!({ "role": "user", "content": "x".repeat(length) });
                let body = json!({ "model": model, "messages": [message], "max_tokens": 1 });
                gateway.post(tenant, CHAT, &body).await
            }
            Self::Image(model) => {
                let body = json!({ "model": model, "prompt": "x", "n": 1 });
                gateway.post(tenant, "/v1/images/generations", &body).await
            }
            Self::Audio(model, seconds) => audio(gateway, tenant, model, seconds).await,
            Self::Ingestion => {
                let path = format!("/v1/vector_stores/{store}/files");
                gateway.post(tenant, &path, &json!({})).await
            }
            Self::Text(text) => gateway.post_text(tenant, CHAT, text).await,
            Self::Unlisted => gateway.post(tenant, "/v1/rerank", &json!({ "model": "big" })).await,
        }
    }
}

/// A WAV file with a hundred bytes a second.
async fn audio(gateway: &TestGateway, tenant: &Tenant, model: &str, seconds: usize) -> Answer {
    let head = format!(
        "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n\
         --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n"
    );
    let mut body = head.into_bytes();
    body.extend_from_slice(
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x64\0\0\0\x64\0\0\0\x01\0\x08\0data",
    );
    let length = u32::try_from(seconds * 100).expect("a short file");
    body.extend_from_slice(&length.to_le_bytes());
    body.resize(body.len() + seconds * 100, 0);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    gateway.with(tenant, Method::POST, "/v1/audio/transcriptions", &kind, body).await
}

impl Case {
    /// The models: `big`, of a group; and `calm`, of none.
    pub(super) fn configuration(&self) -> String {
        let price =
            "{ input = 1.0, output = 10.0, image = [{ usd = 0.0001 }], audio_minute = 0.0001 }";
        let tier = if self.money == Some(Money::Tier) { "monthly_limit_usd = 0\n" } else { "" };
        format!(
            "[models.big]\nshared_limit = \"family\"\nlong_context_tokens = 50\nprice = {price}\n\
             [models.calm]\nprice = {price}\n\
             [tiers.free]\n{tier}[tiers.1]\nmonthly_limit_usd = 100\n\
             [tiers.free.limits]\n{}\n",
            self.limits
        )
    }

    /// The requests of the quiet team.
    pub(super) fn calm(&self) -> Request {
        let model = if self.quiet == Quiet::Model { "calm" } else { "big" };
        match self.loud {
            Request::Image(_) => Request::Image(model),
            Request::Audio(..) => Request::Audio(model, 1),
            Request::Ingestion => Request::Ingestion,
            _ => Request::Chat(model, 1),
        }
    }

    /// The codes of the loud team's refusals. What its other requests have reserved comes before the money is gone.
    pub(super) fn codes(&self) -> [&'static str; 2] {
        match self.reason {
            Reason::Limit("spend", _) => [
                "spend_reserved",
                match self.money {
                    Some(Money::Organization) => "organization_spend_limit_exceeded",
                    Some(Money::Tier) => "organization_usage_limit_exceeded",
                    _ => "project_spend_limit_exceeded",
                },
            ],
            Reason::Limit(..) => ["rate_limit_exceeded"; 2],
            Reason::Code(code) => [code; 2],
            Reason::Permission => ["model_not_found"; 2],
        }
    }
}

/// A limit of the loud team's project. Both teams use one model of one organization.
const fn of_project(
    name: &'static str,
    dimension: &'static str,
    limits: &'static str,
    of_project: &'static str,
    loud: Request,
) -> Case {
    let (money, quiet) = (None, Quiet::Project);
    let reason = Reason::Limit(dimension, "project");
    Case { name, limits, of_project: Some(of_project), money, loud, quiet, reason }
}

/// A limit of the model or the group that the loud team uses; the quiet one uses another model of the organization.
const fn of_model(
    name: &'static str,
    dimension: &'static str,
    limits: &'static str,
    loud: Request,
) -> Case {
    let (of_project, money, quiet) = (None, None, Quiet::Model);
    let reason = Reason::Limit(dimension, "organization");
    Case { name, limits, of_project, money, loud, quiet, reason }
}

const fn of_money(name: &'static str, money: Money, scope: &'static str, quiet: Quiet) -> Case {
    let (of_project, money) = (None, Some(money));
    let (loud, reason) = (Request::Chat("big", 300), Reason::Limit("spend", scope));
    // What the loud team is granted before its money is gone, and the quiet team's two a second.
    Case { name, limits: "big = { rpm = 170 }", of_project, money, loud, quiet, reason }
}

/// A request that is wrong counts nowhere.
const fn of_mistake(name: &'static str, loud: Request, reason: Reason) -> Case {
    let (of_project, money, quiet) = (None, None, Quiet::Project);
    let limits = "big = { rpm = 122, tpm = 700 }\n\"*\" = { rpm = 1 }";
    Case { name, limits, of_project, money, loud, quiet, reason }
}

pub(super) const PROJECT: &[Case] = &[
    of_project(
        "requests a minute of a project",
        "rpm",
        "big = { rpm = 155 }\nfamily = { rpm = 155 }",
        r#"{ "max_requests_per_1_minute": 30 }"#,
        Request::Chat("big", 1),
    ),
    of_project(
        "requests a day of a project",
        "rpd",
        "big = { rpm = 155, rpd = 640 }",
        r#"{ "max_requests_per_1_day": 20 }"#,
        Request::Chat("big", 1),
    ),
    of_project(
        "tokens a minute of a project",
        "tpm",
        "big = { rpm = 250, tpm = 1300 }\nfamily = { rpm = 250, tpm = 1300 }",
        r#"{ "max_tokens_per_1_minute": 300 }"#,
        Request::Chat("big", 100),
    ),
    of_project(
        "images a minute of a project",
        "ipm",
        "big = { rpm = 145, ipm = 145 }",
        r#"{ "max_images_per_1_minute": 10 }"#,
        Request::Image("big"),
    ),
    of_project(
        "audio minutes a minute of a project",
        "audio_minutes_per_minute",
        "big = { rpm = 145, audio_minutes_per_minute = 5 }",
        r#"{ "max_audio_minutes_per_1_minute": 1 }"#,
        Request::Audio("big", 30),
    ),
];

pub(super) const MODEL: &[Case] = &[
    of_model(
        "requests a minute of a model",
        "rpm",
        "big = { rpm = 3 }\ncalm = { rpm = 122 }",
        Request::Chat("big", 1),
    ),
    of_model(
        "requests a day of a model",
        "rpd",
        "big = { rpd = 3 }\ncalm = { rpm = 122 }",
        Request::Chat("big", 1),
    ),
    of_model(
        "tokens a minute of a model",
        "tpm",
        "big = { tpm = 100 }\ncalm = { rpm = 122, tpm = 700 }",
        Request::Chat("big", 90),
    ),
    of_model(
        "tokens a day of a model",
        "tpd",
        "big = { tpd = 100 }\ncalm = { rpm = 122, tpd = 4000 }",
        Request::Chat("big", 90),
    ),
    of_model(
        "long contexts of a model",
        "long_context_tpm",
        "big = { long_context_tpm = 100 }\ncalm = { rpm = 122, tpm = 700 }",
        Request::Long("big", 300),
    ),
    of_model(
        "images a minute of a model",
        "ipm",
        "big = { ipm = 3 }\ncalm = { rpm = 122, ipm = 122 }",
        Request::Image("big"),
    ),
    of_model(
        "audio minutes a minute of a model",
        "audio_minutes_per_minute",
        "big = { audio_minutes_per_minute = 1 }\ncalm = { rpm = 122, audio_minutes_per_minute = 3 }",
        Request::Audio("big", 30),
    ),
    of_model(
        "ingestion into a vector store",
        "vector_store_ingestion",
        // Both teams draw on it: the loud one gets 300 a minute, after as many at once.
        "\"*\" = { rpm = 450 }",
        Request::Ingestion,
    ),
];

pub(super) const GROUP: &[Case] = &[
    of_model(
        "requests a minute of a group",
        "rpm",
        "family = { rpm = 3 }\ncalm = { rpm = 122 }",
        Request::Chat("big", 1),
    ),
    of_model(
        "requests a day of a group",
        "rpd",
        "family = { rpd = 3 }\ncalm = { rpm = 122 }",
        Request::Chat("big", 1),
    ),
    of_model(
        "tokens a minute of a group",
        "tpm",
        "family = { tpm = 100 }\ncalm = { rpm = 122, tpm = 700 }",
        Request::Chat("big", 90),
    ),
    of_model(
        "tokens a day of a group",
        "tpd",
        "family = { tpd = 100 }\ncalm = { rpm = 122, tpd = 4000 }",
        Request::Chat("big", 90),
    ),
    of_model(
        "long contexts of a group",
        "long_context_tpm",
        "family = { long_context_tpm = 100 }\ncalm = { rpm = 122, tpm = 700 }",
        Request::Long("big", 300),
    ),
    of_model(
        "images a minute of a group",
        "ipm",
        "family = { ipm = 3 }\ncalm = { rpm = 122, ipm = 122 }",
        Request::Image("big"),
    ),
    of_model(
        "audio minutes a minute of a group",
        "audio_minutes_per_minute",
        "family = { audio_minutes_per_minute = 1 }\ncalm = { rpm = 122, audio_minutes_per_minute = 3 }",
        Request::Audio("big", 30),
    ),
];

pub(super) const OTHER: &[Case] = &[
    of_money("money of a project", Money::Project, "project", Quiet::Project),
    of_money("money that a project has reserved", Money::Reserved, "project", Quiet::Project),
    of_money("money of an organization", Money::Organization, "organization", Quiet::Organization),
    of_money("money of a tier", Money::Tier, "organization", Quiet::Organization),
    of_mistake("malformed JSON", Request::Text("{"), Reason::Code("invalid_json")),
    of_mistake(
        "a value out of range",
        Request::Text(r#"{"model":"big","max_tokens":0}"#),
        Reason::Code("invalid_value"),
    ),
    of_mistake("an unknown model", Request::Chat("huge", 1), Reason::Code("model_not_found")),
    of_mistake(
        "a service tier without a price",
        Request::Text(r#"{"model":"big","messages":[],"service_tier":"flex"}"#),
        Reason::Code("price_missing"),
    ),
    of_mistake("a path that is not open", Request::Unlisted, Reason::Code("path_not_open")),
    of_mistake("a model that the project may not use", Request::Chat("big", 1), Reason::Permission),
];

/// One of each kind, for nodes that share Redis.
pub(super) const ON_REDIS: &[Case] = &[
    of_project(
        "requests a minute of a project",
        "rpm",
        "big = { rpm = 155 }\nfamily = { rpm = 155 }",
        r#"{ "max_requests_per_1_minute": 4 }"#,
        Request::Chat("big", 1),
    ),
    of_project(
        "tokens a minute of a project",
        "tpm",
        "big = { rpm = 250, tpm = 1300 }",
        r#"{ "max_tokens_per_1_minute": 100 }"#,
        Request::Chat("big", 90),
    ),
    of_model(
        "requests a day of a model",
        "rpd",
        "big = { rpd = 3 }\ncalm = { rpm = 155 }",
        Request::Chat("big", 1),
    ),
    of_model(
        "tokens a minute of a group",
        "tpm",
        "family = { tpm = 100 }\ncalm = { rpm = 155, tpm = 1300 }",
        Request::Chat("big", 90),
    ),
    of_money("money of a project", Money::Project, "project", Quiet::Project),
    of_money("money of an organization", Money::Organization, "organization", Quiet::Organization),
];
