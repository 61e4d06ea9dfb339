//! Model providers of the configuration as the model crate takes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::table::{LoginMethod, PromptCache, ProviderPlatform, WireApi};
use config::{CloudAuth, HttpProvider};
use model::{CacheMarks, KeySource, Platform, Provider, Secret, TlsFiles, Transport, Wire};

use crate::accounts::{AccountConfig, AccountCredentials, Accounts, uses_environment_key};

/// The provider that `configured` describes, called with `user_agent` unless the
/// configuration sets that header.
pub fn provider(
    config: &config::Config,
    configured: &config::Provider,
    user_agent: Option<&str>,
    accounts: &Arc<Accounts>,
) -> Arc<Provider> {
    let http = match configured {
        config::Provider::Offline => return Arc::new(Provider::offline()),
        config::Provider::Http(http) => http,
    };
    let uses_account = http.uses_default_credential
        && (http.credential.is_none() || !uses_environment_key(config));
    let api_key = match (&http.credential, configured.ready()) {
        (credential, ready) if uses_account => {
            let alternatives = match (credential, ready, config.forced_login_method) {
                (Some(_), ..) => Some(
                    "`forced_login_method = \"hosted\"` does not permit the API key of the \
                     environment; log in with an account of the hosted service (`agentd login`)"
                        .to_owned(),
                ),
                (None, Err(why), None | Some(LoginMethod::Api)) => Some(why.to_string()),
                _ => None,
            };
            let (accounts, config) = (accounts.clone(), AccountConfig::new(config));
            KeySource::Account(Arc::new(AccountCredentials { accounts, config, alternatives }))
        }
        _ if http.cloud.is_some() => cloud_key(http),
        (Some(secret), _) => KeySource::Value(Secret::new(secret.expose())),
        (None, Err(why)) => KeySource::Missing { instructions: why.to_string() },
        (None, Ok(())) => KeySource::NotNeeded,
    };
    Arc::new(with_key(http, api_key, user_agent))
}

/// A local provider, which needs no account; `None` for any other.
pub(crate) fn local_provider(configured: &config::Provider) -> Option<Provider> {
    let config::Provider::Http(http) = configured else { return None };
    let key = http.credential.as_ref().map(|secret| Secret::new(secret.expose()));
    http.local?;
    Some(with_key(http, key.map_or(KeySource::NotNeeded, KeySource::Value), None))
}

pub(crate) fn wire(http: &HttpProvider) -> Wire {
    match http.wire_api {
        WireApi::Responses => Wire::Responses,
        WireApi::Messages => Wire::Messages,
        WireApi::Chat => Wire::Chat,
        WireApi::Gemini => Wire::Gemini,
        WireApi::Auto => match http.platform {
            ProviderPlatform::Direct => model::wire_of_address(&http.base_url),
            ProviderPlatform::Vertex if http.base_url.ends_with("/publishers/google") => {
                Wire::Gemini
            }
            ProviderPlatform::Bedrock | ProviderPlatform::Vertex => Wire::Messages,
        },
    }
}

fn platform(http: &HttpProvider) -> Platform {
    match http.platform {
        ProviderPlatform::Direct => Platform::Direct,
        ProviderPlatform::Bedrock => Platform::Bedrock,
        ProviderPlatform::Vertex => Platform::Vertex,
    }
}

/// The account of a cloud.
fn cloud_key(http: &HttpProvider) -> KeySource {
    let secret = |secret: &config::Secret| Secret::new(secret.expose());
    match &http.cloud {
        None => KeySource::NotNeeded,
        Some(CloudAuth::Google(auth)) => KeySource::Google(Arc::new(model::GoogleAuth {
            file: auth.file.clone(),
            default_file: auth.default_file.clone(),
            metadata: auth.metadata.clone(),
        })),
        Some(CloudAuth::Aws(auth)) => KeySource::Aws(Arc::new(model::AwsAuth {
            region: auth.region.clone(),
            service: auth.service,
            keys: auth.keys.as_ref().map(|(id, key, token)| model::AwsKeys {
                id: id.clone(),
                secret: secret(key),
                session_token: token.as_ref().map(secret),
            }),
            profile: auth.profile.clone(),
            profile_is_named: auth.profile_is_named,
            profile_files: auth.profile_files.clone(),
            web_identity: auth.web_identity,
            container: auth.container.as_ref().map(|container| model::AwsContainer {
                url: container.url.clone(),
                token: container.token.as_ref().map(secret),
                token_file: container.token_file.clone(),
            }),
            metadata: auth.metadata.clone(),
        })),
    }
}

fn with_key(http: &HttpProvider, api_key: KeySource, user_agent: Option<&str>) -> Provider {
    let mut http_headers: BTreeMap<String, String> = http
        .http_headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
        .collect();
    let is_set = http_headers.keys().any(|name| name.eq_ignore_ascii_case("user-agent"));
    if let Some(user_agent) = user_agent.filter(|_| !is_set) {
        http_headers.insert("user-agent".to_owned(), user_agent.to_owned());
    }
    Provider {
        id: http.id.clone(),
        name: http.name.clone(),
        transport: Transport::Http,
        wire: wire(http),
        platform: platform(http),
        base_url: http.base_url.clone(),
        api_key,
        http_headers,
        query_params: http.query_params.clone(),
        stream_idle_timeout: http.stream_idle_timeout,
        compress_requests: http.compress_requests,
        supports_websockets: http.supports_websockets,
        local: http.local.map(|kind| match kind {
            config::OssProvider::Ollama => model::LocalServer::Ollama,
            config::OssProvider::LmStudio => model::LocalServer::LmStudio,
        }),
        tls: TlsFiles {
            ca_certificate: http.tls.ca_certificate.clone(),
            client_certificate: http.tls.client_certificate.clone(),
            client_private_key: http.tls.client_private_key.clone(),
        },
        cache_marks: match http.prompt_cache {
            PromptCache::Auto => None,
            PromptCache::Off => Some(CacheMarks::None),
            PromptCache::Short => Some(CacheMarks::Short),
            PromptCache::Long => Some(CacheMarks::Long),
        },
        structured_output: http.structured_output,
        traceparent: None,
    }
}
