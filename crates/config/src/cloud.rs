//! Providers that are clouds: which platform an address is, and where the credentials of `auth` come from. Reads no file
//! and asks no service.

use std::path::PathBuf;

use crate::environment::Environment;
use crate::error::Error;
use crate::key_path::join;
use crate::origin::Origin;
use crate::provider::{Secret, variable};
use crate::table::{ModelProvider, ProviderAuth, ProviderPlatform, WireApi};

/// Variables with credentials that commands do not see where a provider uses them.
pub(crate) const AWS_SECRETS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
];

/// Address of the metadata service of an EC2 instance.
const AWS_METADATA: &str = "http://169.254.169.254";
/// Address of the service with the credentials of an ECS task.
const ECS_CREDENTIALS: &str = "http://169.254.170.2";
/// Name of Google's metadata server, which only machines of that cloud resolve.
const GOOGLE_METADATA: &str = "metadata.google.internal";

/// The clouds that this build knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clouds {
    bedrock: bool,
    vertex: bool,
}

impl Clouds {
    pub(crate) const BUILT: Self =
        Self { bedrock: cfg!(feature = "bedrock"), vertex: cfg!(feature = "vertex") };
}

/// Where the credentials of a provider come from, instead of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudAuth {
    Aws(AwsAuth),
    Google(GoogleAuth),
}

/// The places of AWS credentials, in the order in which they are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsAuth {
    pub region: String,
    /// Name of the service in signatures.
    pub service: &'static str,
    /// Id of the key, the key, and the token of its session: from the environment. A configured profile goes first.
    pub keys: Option<(String, Secret, Option<Secret>)>,
    pub profile: String,
    /// True if the profile was named, by the configuration or by `AWS_PROFILE`.
    pub profile_is_named: bool,
    pub profile_files: Vec<PathBuf>,
    /// The environment asks for a login by web identity.
    pub web_identity: bool,
    pub container: Option<AwsContainer>,
    /// Address of the metadata service; `None` if it is switched off.
    pub metadata: Option<String>,
}

/// The service that gives a container its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsContainer {
    pub url: String,
    pub token: Option<Secret>,
    pub token_file: Option<PathBuf>,
}

/// The places of Google credentials, in the order in which they are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoogleAuth {
    pub file: Option<PathBuf>,
    pub default_file: Option<PathBuf>,
    pub metadata: String,
}

/// The platform of a provider, and its credentials; both only where the build knows the cloud.
///
/// # Errors
/// The keys contradict each other, a key is missing, or this build does not know the cloud.
pub(crate) fn cloud(
    (id, origin): (&str, &Origin),
    keys: &ModelProvider,
    clouds: Clouds,
    environment: &Environment<'_>,
) -> Result<(ProviderPlatform, Option<CloudAuth>), Error> {
    let refuse = |key: &[&str], message: String| {
        let path = [&["model_providers", id], key].concat();
        Err(Error::refused(origin, join(&path), message))
    };
    let address = keys.base_url.as_deref().unwrap_or_default();
    let platform = keys.platform.unwrap_or_else(|| platform_of(address));
    let missing = |cloud: &str, feature: &str| {
        format!(
            "this build of agentd has no {cloud}; build it with `cargo build --features {feature}`"
        )
    };
    match platform {
        ProviderPlatform::Bedrock if !clouds.bedrock => {
            return refuse(&["platform"], missing("Amazon Bedrock", "bedrock"));
        }
        ProviderPlatform::Bedrock
            if !matches!(keys.wire_api, WireApi::Messages | WireApi::Auto) =>
        {
            let message = "Amazon Bedrock speaks `messages` at this address; set `wire_api = \"messages\"`. \
                           For other models, use its address `https://bedrock-mantle.REGION.api.aws/v1`";
            return refuse(&["wire_api"], message.to_owned());
        }
        ProviderPlatform::Vertex
            if !matches!(keys.wire_api, WireApi::Messages | WireApi::Gemini | WireApi::Auto) =>
        {
            let message = "Vertex AI speaks `messages` (`…/publishers/anthropic`) and `gemini` (`…/publishers/google`)";
            return refuse(&["wire_api"], message.to_owned());
        }
        _ => {}
    }
    let Some(auth) = keys.auth else { return Ok((platform, None)) };
    let others = [
        ("env_key", keys.env_key.is_some()),
        ("experimental_bearer_token", keys.experimental_bearer_token.is_some()),
        ("requires_default_auth", keys.requires_default_auth),
    ];
    if let Some((key, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
        let message = format!("`auth` replaces the key; remove `{key}`, or `auth`");
        return refuse(&["auth"], message);
    }
    let found = match auth {
        ProviderAuth::AwsSigV4 if !clouds.bedrock => {
            return refuse(&["auth"], missing("signatures of AWS", "bedrock"));
        }
        ProviderAuth::Google if !clouds.vertex => {
            return refuse(&["auth"], missing("Google accounts", "vertex"));
        }
        ProviderAuth::AwsSigV4 => match aws(keys, address, environment) {
            Some(auth) => CloudAuth::Aws(auth),
            None => {
                let message = "missing; write the region, as in `aws = { region = \"us-east-1\" }`, or set AWS_REGION";
                return refuse(&["aws", "region"], message.to_owned());
            }
        },
        ProviderAuth::Google => CloudAuth::Google(google(keys, environment)),
    };
    Ok((platform, Some(found)))
}

/// The credentials of AWS; `None` without a region.
fn aws(keys: &ModelProvider, address: &str, environment: &Environment<'_>) -> Option<AwsAuth> {
    let set = |name: &str| variable(environment, name).map(|value| value.expose().to_owned());
    let host = host_of(address);
    let of_host = || {
        let mut parts = host.split('.');
        let service = parts.next().filter(|it| matches!(*it, "bedrock-runtime" | "bedrock-mantle"));
        service.and(parts.next()).map(str::to_owned)
    };
    let region = keys.aws.region.clone().or_else(of_host);
    let region = region.or_else(|| set("AWS_REGION")).or_else(|| set("AWS_DEFAULT_REGION"))?;
    let profile = keys.aws.profile.clone().or_else(|| set("AWS_PROFILE"));
    let own_keys = || {
        let (id, secret) =
            (set("AWS_ACCESS_KEY_ID")?, variable(environment, "AWS_SECRET_ACCESS_KEY")?);
        Some((id, secret, variable(environment, "AWS_SESSION_TOKEN")))
    };
    let folder = set("HOME").map(|home| PathBuf::from(home).join(".aws"));
    let file = |variable: &str, name: &str| {
        set(variable).map(PathBuf::from).or_else(|| Some(folder.as_ref()?.join(name)))
    };
    let files =
        [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")];
    let path = set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let url = path.map(|path| format!("{ECS_CREDENTIALS}{path}"));
    let url = url.or_else(|| set("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
    let is_off = set("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let metadata =
        set("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| AWS_METADATA.to_owned());
    Some(AwsAuth {
        region,
        service: if host.starts_with("bedrock-mantle.") { "bedrock-mantle" } else { "bedrock" },
        keys: keys.aws.profile.is_none().then(own_keys).flatten(),
        profile_is_named: profile.is_some(),
        profile: profile.unwrap_or_else(|| "default".to_owned()),
        profile_files: files.into_iter().flatten().collect(),
        web_identity: set("AWS_WEB_IDENTITY_TOKEN_FILE").is_some(),
        container: url.map(|url| AwsContainer {
            url,
            token: variable(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            token_file: set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from),
        }),
        metadata: (!is_off).then_some(metadata),
    })
}

fn google(keys: &ModelProvider, environment: &Environment<'_>) -> GoogleAuth {
    let set = |name: &str| variable(environment, name).map(|value| value.expose().to_owned());
    let file = keys.google.credentials_file.clone();
    let file = file.or_else(|| set("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
    let folder = set("CLOUDSDK_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config/gcloud")));
    let metadata = set("GCE_METADATA_HOST").unwrap_or_else(|| GOOGLE_METADATA.to_owned());
    GoogleAuth {
        file,
        default_file: folder.map(|folder| folder.join("application_default_credentials.json")),
        metadata: format!("http://{metadata}"),
    }
}

fn host_of(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// The platform of an address without the key `platform`.
fn platform_of(address: &str) -> ProviderPlatform {
    let host = host_of(address);
    if host.starts_with("bedrock-runtime.") && host.contains(".amazonaws.com") {
        return ProviderPlatform::Bedrock;
    }
    let is_vertex =
        host == "aiplatform.googleapis.com" || host.ends_with("-aiplatform.googleapis.com");
    match is_vertex && address.contains("/publishers/") {
        true => ProviderPlatform::Vertex,
        false => ProviderPlatform::Direct,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Table;

    #[test]
    fn a_build_without_a_cloud_refuses_it_with_the_way_to_get_it() {
        let none = Clouds { bedrock: false, vertex: false };
        let folder = std::path::Path::new("/");
        let environment =
            Environment { home: folder, system: folder, cwd: folder, variable: &|_| None };
        let keys = |platform, auth| {
            let empty = Table::default();
            let keys = ModelProvider::from_table(&empty, &environment.read_context()).unwrap();
            ModelProvider { platform, auth, ..keys }
        };
        for (keys, expect) in [
            (
                keys(Some(ProviderPlatform::Bedrock), None),
                ["model_providers.p.platform", "no Amazon Bedrock", "--features bedrock"],
            ),
            (
                keys(None, Some(ProviderAuth::AwsSigV4)),
                ["model_providers.p.auth", "no signatures of AWS", "--features bedrock"],
            ),
            (
                keys(None, Some(ProviderAuth::Google)),
                ["model_providers.p.auth", "no Google accounts", "--features vertex"],
            ),
        ] {
            let refused = cloud(("p", &Origin::Process), &keys, none, &environment).unwrap_err();
            let refused = refused.to_string();
            assert!(expect.iter().all(|part| refused.contains(part)), "{refused}");
        }
        let plain = cloud(("p", &Origin::Process), &keys(None, None), none, &environment);
        assert!(matches!(plain, Ok((ProviderPlatform::Direct, None))));
    }
}
