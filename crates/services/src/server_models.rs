//! The models that a model server lists: of a configured provider, and of an address that is in no
//! configuration yet. Each question is bounded in time and changes nothing.

use std::time::Duration;

use model::{Client, Failure, FailureKind, KeySource, ModelsAnswer, Network, Provider, Secret};

use crate::options::Options;

/// Longest wait for a server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The end of most addresses of APIs.
const VERSION: &str = "/v1";

/// A server's answer to the question for its models.
#[derive(Debug, PartialEq, Eq)]
pub enum ListedModels {
    /// It was not asked: there is no key, or nothing to ask.
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
}

/// Why a server at an address cannot be used, in words for the person who wrote the address and the key.
#[derive(Debug, PartialEq, Eq)]
pub enum AddressFault {
    /// The address is wrong, or nothing answers there.
    Address(String),
    /// The key is missing or not accepted.
    Key(String),
}

/// Asks the server at an address for its models: below the address as it is written, and where that has no
/// list, below `/v1` of it.
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
        return Err(AddressFault::Address(text.to_owned()));
    }
    let found = models_below(client, written, key).await;
    match found {
        Err(Unusable::NoList(first)) if !written.ends_with(VERSION) => {
            let found = models_below(client, &format!("{written}{VERSION}"), key).await;
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

/// Why there are no models below an address.
enum Unusable {
    /// Something answers, and has no list there.
    NoList(String),
    Fault(AddressFault),
}

async fn models_below(
    client: &Client,
    base_url: &str,
    key: Option<&str>,
) -> Result<ServerModels, Unusable> {
    let api_key = key.map_or(KeySource::NotNeeded, |key| KeySource::Value(Secret::new(key)));
    let provider = Provider { api_key, ..Provider::http("new", base_url) };
    let fault = match listed_models(client, &provider).await {
        ListedModels::Listed(models) if models.is_empty() => AddressFault::Address(format!(
            "the server at {base_url} lists no models: load one there"
        )),
        ListedModels::Listed(models) => {
            return Ok(ServerModels { base_url: base_url.to_owned(), models });
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

/// Asks a provider that has its key for its models.
pub(crate) async fn listed_models(client: &Client, provider: &Provider) -> ListedModels {
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

    #[tokio::test]
    async fn an_address_without_a_scheme_is_refused_with_an_example() {
        for address in ["models.example.com/v1", "https://", "ftp://host/v1", "http:///v1", ""] {
            let fault = find_models(&Client::new(), address, None).await;
            let Err(AddressFault::Address(why)) = fault else { panic!("{fault:?}") };
            assert!(why.contains("begins with http:// or https://"), "{address}: {why}");
        }
    }
}
