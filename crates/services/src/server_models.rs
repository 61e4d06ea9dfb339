//! The models that a model server lists: of a configured provider, and of an address that is in no
//! configuration yet. Each question is bounded in time and changes nothing.

use std::time::Duration;

use model::catalog::{Catalog, ListedModel};
use model::{
    Client, Failure, FailureKind, KeySource, ModelsAnswer, Network, Platform, Provider, Secret,
    Wire, host_of, known_wire,
};

use crate::options::Options;

/// Longest wait for a server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The end of most addresses of APIs.
const VERSION: &str = "/v1";

/// A server's answer to the question for its models.
#[derive(Debug, PartialEq, Eq)]
pub enum ListedModels {
    /// It was not asked: there is no key, or nothing to ask, as at a cloud, whose account has credentials.
    NotAsked,
    /// By id.
    Listed(Vec<String>),
    /// It answers, and has no list there.
    NoList(String),
    /// It wants a key, or another one.
    Refused(String),
    /// It cannot be reached, or answers with something else.
    Failed(String),
}

/// The models of a server at an address.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerModels {
    /// The address that the models are below.
    pub base_url: String,
    /// By id, at least one.
    pub models: Vec<String>,
    /// The wire that the server speaks.
    pub wire: Wire,
    /// The model for a first start: a cheap one of a known maker, else the first.
    pub default: String,
}

/// Why a server at an address cannot be used, in words for the person who wrote the address and the key.
#[derive(Debug, PartialEq, Eq)]
pub enum AddressFault {
    /// It is no address.
    Malformed(String),
    /// Nothing answers there, or something else.
    Address(String),
    /// The key is missing or not accepted.
    Key(String),
}

/// Asks the server at an address for its models: below the address as it is written, and where that has no
/// list, below `/v1` of it. The wire is that of a known address; elsewhere it is the first one of which the server has
/// the path.
///
/// # Errors
/// It lists no models.
pub async fn models_at(
    options: &Options,
    address: &str,
    key: Option<&str>,
) -> Result<ServerModels, AddressFault> {
    let network = Network::from_variables(|name| options.variable(name));
    let client = Client::with_options(model::Options { network, offline: None });
    find_models(&client, address, key).await
}

async fn find_models(
    client: &Client,
    address: &str,
    key: Option<&str>,
) -> Result<ServerModels, AddressFault> {
    let written = address.trim().trim_end_matches('/');
    let is_http = ["http://", "https://"].iter().any(|scheme| {
        written
            .strip_prefix(scheme)
            .is_some_and(|rest| !rest.starts_with(['/', ':']) && !rest.is_empty())
    });
    if !is_http {
        let text =
            "an address begins with http:// or https://, as in https://models.example.com/v1";
        return Err(AddressFault::Malformed(text.to_owned()));
    }
    if let Some(wire) = known_wire(written) {
        let found = models_below(client, (written, wire), key).await;
        return found.map_err(|unusable| match unusable {
            Unusable::NoList(why) => AddressFault::Address(why),
            Unusable::Fault(fault) => fault,
        });
    }
    let found = match below_some_version(client, written, key).await {
        Ok(found) => found,
        // Servers of Messages list their models under a header of their own.
        Err(fault) => {
            let found = models_below(client, (written, Wire::Messages), key).await;
            return found.map_err(|_| fault);
        }
    };
    let wire = spoken_wire(client, &found.base_url, key).await;
    Ok(ServerModels { wire, ..found })
}

/// The models below an address, or below `/v1` of it, as Responses and Chat Completions list them.
async fn below_some_version(
    client: &Client,
    written: &str,
    key: Option<&str>,
) -> Result<ServerModels, AddressFault> {
    let found = models_below(client, (written, Wire::Responses), key).await;
    match found {
        Err(Unusable::NoList(first)) if !written.ends_with(VERSION) => {
            let below = format!("{written}{VERSION}");
            let found = models_below(client, (&below, Wire::Responses), key).await;
            found.map_err(|second| match second {
                Unusable::NoList(_) | Unusable::Fault(AddressFault::Address(_)) => {
                    AddressFault::Address(format!(
                        "{first}; below {VERSION} there is no list of models either"
                    ))
                }
                Unusable::Fault(fault) => fault,
            })
        }
        found => found.map_err(|unusable| match unusable {
            Unusable::NoList(why) => AddressFault::Address(why),
            Unusable::Fault(fault) => fault,
        }),
    }
}

/// The first wire of which a server has the path; Responses where it has none, whose error says what is wrong.
async fn spoken_wire(client: &Client, base_url: &str, key: Option<&str>) -> Wire {
    for wire in [Wire::Responses, Wire::Chat, Wire::Messages] {
        let provider = new_provider((base_url, wire), key);
        let asked = tokio::time::timeout(PATIENCE, client.speaks(&provider));
        if let Ok(Ok(true)) = asked.await {
            return wire;
        }
    }
    Wire::Responses
}

fn new_provider((base_url, wire): (&str, Wire), key: Option<&str>) -> Provider {
    let api_key = key.map_or(KeySource::NotNeeded, |key| KeySource::Value(Secret::new(key)));
    Provider { api_key, wire, ..Provider::http("new", base_url) }
}

/// Why there are no models below an address.
enum Unusable {
    /// Something answers, and has no list there.
    NoList(String),
    Fault(AddressFault),
}

async fn models_below(
    client: &Client,
    (base_url, wire): (&str, Wire),
    key: Option<&str>,
) -> Result<ServerModels, Unusable> {
    let provider = new_provider((base_url, wire), key);
    let fault = match listed_models(client, &provider).await {
        ListedModels::Listed(models) if models.is_empty() => AddressFault::Address(format!(
            "the server at {base_url} lists no models: load one there"
        )),
        ListedModels::Listed(models) => {
            let default = first_model(base_url, &models);
            return Ok(ServerModels { base_url: base_url.to_owned(), models, wire, default });
        }
        ListedModels::NoList(why) => return Err(Unusable::NoList(why)),
        ListedModels::Refused(why) => match key {
            None => AddressFault::Key(format!("the server wants a key: {why}")),
            Some(_) => AddressFault::Key(format!("the server does not accept this key: {why}")),
        },
        ListedModels::Failed(why) => AddressFault::Address(why),
        ListedModels::NotAsked => AddressFault::Address("the server was not asked".to_owned()),
    };
    Err(Unusable::Fault(fault))
}

/// The model of these for a first start.
fn first_model(base_url: &str, ids: &[String]) -> String {
    let listed: Vec<ListedModel> = ids.iter().map(|id| ListedModel::named(id)).collect();
    let catalog = Catalog::of_host(&host_of(base_url)).with_listing(&listed);
    catalog.default_model().map(|model| model.id.to_string()).unwrap_or_default()
}

/// Asks a provider that has its key for its models.
pub(crate) async fn listed_models(client: &Client, provider: &Provider) -> ListedModels {
    if provider.platform != Platform::Direct {
        // Its lists are at other addresses, under other permissions.
        let found = tokio::time::timeout(PATIENCE, client.check_account(provider)).await;
        return match found {
            Ok(Ok(())) => ListedModels::NotAsked,
            Ok(Err(failure)) => ListedModels::Failed(failure.message),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                ListedModels::Failed(format!("there are no credentials within {seconds} s"))
            }
        };
    }
    let asked = tokio::time::timeout(PATIENCE, client.models(provider, None)).await;
    match asked {
        Ok(Ok(ModelsAnswer::Listed { models, .. })) => {
            ListedModels::Listed(models.iter().map(|model| model.id.to_string()).collect())
        }
        // No tag was sent that the list could be unchanged from.
        Ok(Ok(ModelsAnswer::Unchanged)) => ListedModels::NoList("there is no list".to_owned()),
        Ok(Err(failure)) => refused(failure),
        Err(_) => {
            let (address, seconds) = (&provider.base_url, PATIENCE.as_secs());
            ListedModels::Failed(format!("{address} does not answer within {seconds} s"))
        }
    }
}

fn refused(failure: Failure) -> ListedModels {
    let Failure { kind, http_status, message, .. } = failure;
    match http_status {
        Some(401 | 403) => ListedModels::Refused(message),
        _ if kind == FailureKind::Unauthorized => ListedModels::Refused(message),
        Some(404 | 405 | 501) => ListedModels::NoList(message),
        _ => ListedModels::Failed(message),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let fault = find_models(&Client::new(), &address, None).await;
        let Err(AddressFault::Address(why)) = fault else { panic!("{fault:?}") };
        assert!(why.contains("does not answer within 10 s"), "{why}");
    }

    /// A server with a list of models, and these paths besides; it answers `refuse` requests with the header
    /// `authorization` with 401.
    async fn serve(list: &'static str, paths: &'static [&'static str], refuses: bool) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let path = path.split('?').next().unwrap_or_default();
                let (status, body) = match path {
                    _ if refuses && head.contains("authorization:") => ("401 Unauthorized", "{}"),
                    _ if path == list => ("200 OK", r#"{"data":[{"id":"a"},{"id":"b"}]}"#),
                    _ if paths.contains(&path) => ("400 Bad Request", r#"{"error":{}}"#),
                    _ => ("404 Not Found", "{}"),
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                // The client may have gone.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn the_wire_of_an_unknown_server_is_the_first_that_it_has() {
        for (list, paths, wire, below) in [
            ("/v1/models", &["/v1/responses", "/v1/chat/completions"][..], Wire::Responses, "/v1"),
            ("/v1/models", &["/v1/chat/completions"], Wire::Chat, "/v1"),
            ("/models", &["/chat/completions", "/v1/messages"], Wire::Chat, ""),
            ("/v1/models", &["/v1/messages"], Wire::Messages, "/v1"),
            ("/v1/models", &[], Wire::Responses, "/v1"),
        ] {
            let address = serve(list, paths, false).await;
            let found = find_models(&Client::new(), &address, Some("k")).await.unwrap();
            assert_eq!(found.base_url, format!("{address}{below}"), "{list} {paths:?}");
            assert_eq!((found.wire, &*found.default), (wire, "a"), "{list} {paths:?}");
        }
        // It takes the key in the header of Messages alone.
        let address = serve("/v1/models", &["/v1/messages"], true).await;
        let found = find_models(&Client::new(), &address, Some("k")).await.unwrap();
        assert_eq!((found.wire, found.base_url), (Wire::Messages, address));
    }

    /// The lists of a cloud are not below the address of its models.
    #[tokio::test]
    async fn a_cloud_is_not_asked() {
        let address = "http://127.0.0.1:1/v1/projects/p/locations/global/publishers/google";
        let token = KeySource::Value(Secret::new("token"));
        let provider = Provider {
            platform: Platform::Vertex,
            wire: Wire::Gemini,
            api_key: token,
            ..Provider::http("vertex", address)
        };
        assert_eq!(listed_models(&Client::new(), &provider).await, ListedModels::NotAsked);
    }

    #[tokio::test]
    async fn an_address_without_a_scheme_is_refused_with_an_example() {
        for address in ["models.example.com/v1", "https://", "ftp://host/v1", "http:///v1", ""] {
            let fault = find_models(&Client::new(), address, None).await;
            let Err(AddressFault::Malformed(why)) = fault else { panic!("{fault:?}") };
            assert!(why.contains("begins with http:// or https://"), "{address}: {why}");
        }
    }
}
