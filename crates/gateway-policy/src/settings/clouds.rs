//! `platform`, `auth`, `aws` and `google` of backends: clouds that serve models of other makers, and their accounts.

use std::path::PathBuf;
use std::sync::Arc;

use ::wire::{Platform, Wire};
use cloud::{Account, AwsAuth, GoogleAuth};
use serde::Deserialize;

use super::context::LoadContext;
use super::error::Fault;
use super::{Base, file, wire};

/// `aws`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Aws {
    region: Option<String>,
    profile: Option<String>,
}

/// `google`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Google {
    #[serde(alias = "credentials-file")]
    credentials_file: Option<PathBuf>,
}

/// The clouds that a build knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clouds {
    pub(super) bedrock: bool,
    pub(super) vertex: bool,
}

impl Clouds {
    pub(super) const BUILT: Self = Self { bedrock: cloud::HAS_BEDROCK, vertex: cloud::HAS_VERTEX };
}

/// The settings of a backend, or of its upstream, which has those that the backend does not have.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) own: &'a file::Backend,
    pub(super) shared: &'a file::Backend,
}

impl Settings<'_> {
    /// The platform of a backend at `base_url`.
    ///
    /// # Errors
    /// It has no name of a platform, this build does not know it, or its wire is another one.
    pub(super) fn platform(
        self,
        base_url: &str,
        (clouds, at): (Clouds, &[&str]),
    ) -> Result<Platform, Fault> {
        let fault = |last: &str, message: String| Fault::new(&[at, &[last]].concat(), message);
        let platform = match self.own.platform.as_deref().or(self.shared.platform.as_deref()) {
            None => platform_of(base_url),
            Some("direct") => Platform::Direct,
            Some("bedrock") => Platform::Bedrock,
            Some("vertex") => Platform::Vertex,
            Some(other) => {
                let message = format!("`{other}` is not one of direct, bedrock and vertex");
                return Err(fault("platform", message));
            }
        };
        match platform {
            Platform::Bedrock if !clouds.bedrock => {
                Err(fault("platform", missing("Amazon Bedrock", "bedrock")))
            }
            _ => Ok(platform),
        }
    }

    /// The wires of a backend of a cloud, which speaks one.
    ///
    /// # Errors
    /// The configuration names another one.
    pub(super) fn check_wires(
        platform: Platform,
        wires: &wire::Wires,
        at: &[&str],
    ) -> Result<(), Fault> {
        let is_known = match platform {
            Platform::Direct => true,
            Platform::Bedrock => wires.only() == Some(Wire::Messages),
            Platform::Vertex => matches!(wires.only(), Some(Wire::Messages | Wire::Gemini)),
        };
        if is_known {
            return Ok(());
        }
        let message = match platform {
            Platform::Bedrock => {
                "Amazon Bedrock speaks `messages` alone at this address; its other models are at \
                 https://bedrock-mantle.REGION.api.aws/v1"
            }
            _ => {
                "Vertex AI speaks `messages` (…/publishers/anthropic) or `gemini` (…/publishers/google)"
            }
        };
        Err(Fault::new(&[at, &["wire"]].concat(), message))
    }

    /// The account of a backend, in place of keys.
    ///
    /// # Errors
    /// It stands next to keys, this build does not know its cloud, or the region is not known.
    pub(super) fn account(
        self,
        base: &Base,
        around: LoadContext<'_>,
        (clouds, at): (Clouds, &[&str]),
    ) -> Result<Option<Account>, Fault> {
        let Self { own, shared } = self;
        let fault = |last: &str, message: String| Fault::new(&[at, &[last]].concat(), message);
        // A key of its own replaces the account of the upstream.
        let inherits = own.auth.is_none() && !own.names_keys();
        let of = if inherits { shared } else { own };
        let Some(auth) = of.auth.as_deref() else { return Ok(None) };
        if of.names_keys() {
            let message = "stands next to a key; remove `auth`, or the key";
            return Err(fault("auth", message.to_owned()));
        }
        let host = base.origin.host().unwrap_or_default().to_ascii_lowercase();
        match auth {
            "aws-sigv4" if !clouds.bedrock => {
                Err(fault("auth", missing("signatures of AWS", "bedrock")))
            }
            "google" if !clouds.vertex => Err(fault("auth", missing("Google accounts", "vertex"))),
            "aws-sigv4" if !own.base_urls.is_empty() => {
                let message = "signatures are for one region; list each as a backend of its own";
                Err(fault("base_urls", message.to_owned()))
            }
            "aws-sigv4" => {
                let aws = own.aws.clone().or_else(|| shared.aws.clone()).unwrap_or_default();
                let found =
                    AwsAuth::of_environment(&host, aws.region, aws.profile, around.environment);
                let auth = found.ok_or_else(|| {
                    let message = "is missing; write it as in aws = { region = \"us-east-1\" }, or set AWS_REGION";
                    Fault::new(&[at, &["aws", "region"]].concat(), message)
                })?;
                Ok(Some(Account::Aws(Arc::new(auth))))
            }
            "google" => {
                let google = own.google.clone().or_else(|| shared.google.clone());
                let file = google.unwrap_or_default().credentials_file;
                let file = file.map(|path| around.folder.join(path));
                let auth = GoogleAuth::of_environment(file, around.environment);
                Ok(Some(Account::Google(Arc::new(auth))))
            }
            other => {
                let message = format!("`{other}` is neither aws-sigv4 nor google");
                Err(fault("auth", message))
            }
        }
    }
}

fn missing(cloud: &str, feature: &str) -> String {
    format!("this build of agentd has no {cloud}; build it with `cargo build --features {feature}`")
}

/// The platform of an address without a setting.
fn platform_of(url: &str) -> Platform {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
    if host.starts_with("bedrock-runtime.") && host.contains(".amazonaws.com") {
        return Platform::Bedrock;
    }
    let is_vertex =
        host == "aiplatform.googleapis.com" || host.ends_with("-aiplatform.googleapis.com");
    match is_vertex && url.contains("/publishers/") {
        true => Platform::Vertex,
        false => Platform::Direct,
    }
}

/// The wire of a cloud at an address.
pub(super) fn wire_of(platform: Platform, url: &str) -> Option<&'static str> {
    match platform {
        Platform::Direct => None,
        Platform::Vertex if url.trim_end_matches('/').ends_with("/publishers/google") => {
            Some("gemini")
        }
        Platform::Bedrock | Platform::Vertex => Some("messages"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Clouds = Clouds { bedrock: true, vertex: true };

    #[test]
    fn platforms_of_addresses() {
        for (url, platform, wire) in [
            (
                "https://bedrock-runtime.us-east-1.amazonaws.com",
                Platform::Bedrock,
                Some("messages"),
            ),
            ("https://bedrock-mantle.us-east-1.api.aws/v1", Platform::Direct, None),
            (
                "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
                Platform::Vertex,
                Some("gemini"),
            ),
            (
                "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/",
                Platform::Vertex,
                Some("messages"),
            ),
            ("https://api.example/v1", Platform::Direct, None),
        ] {
            let none = file::Backend::default();
            let settings = Settings { own: &none, shared: &none };
            let found = settings.platform(url, (ALL, &["b"])).unwrap();
            assert_eq!((found, wire_of(found, url)), (platform, wire), "{url}");
        }
    }

    #[test]
    fn a_build_without_a_cloud_refuses_it_with_the_way_to_get_it() {
        let none = Clouds { bedrock: false, vertex: false };
        let variables = |_: &str| None;
        let around = LoadContext {
            environment: &variables,
            folder: std::path::Path::new("/"),
            offline: "http://localhost",
        };
        let base = super::super::address::base("https://h", &["b"]).unwrap();
        for (auth, feature) in [("aws-sigv4", "bedrock"), ("google", "vertex")] {
            let own = file::Backend { auth: Some(auth.to_owned()), ..file::Backend::default() };
            let settings = Settings { own: &own, shared: &file::Backend::default() };
            let refused = settings.account(&base, around, (none, &["b"])).unwrap_err();
            assert!(refused.message.contains(&format!("--features {feature}")), "{refused:?}");
        }
        let own =
            file::Backend { platform: Some("bedrock".to_owned()), ..file::Backend::default() };
        let settings = Settings { own: &own, shared: &file::Backend::default() };
        assert!(settings.platform("https://h", (none, &["b"])).is_err());
    }

    #[test]
    fn accounts_need_a_region_and_no_key() {
        let variables = |_: &str| None;
        let around = LoadContext {
            environment: &variables,
            folder: std::path::Path::new("/etc/gateway"),
            offline: "http://localhost",
        };
        let base = super::super::address::base("https://proxy.example", &["b"]).unwrap();
        let account = |own: file::Backend| {
            let shared = file::Backend::default();
            let settings = Settings { own: &own, shared: &shared };
            settings.account(&base, around, (ALL, &["b"]))
        };
        let aws = |region: Option<&str>| file::Backend {
            auth: Some("aws-sigv4".to_owned()),
            aws: Some(Aws { region: region.map(str::to_owned), profile: None }),
            ..file::Backend::default()
        };
        assert!(account(aws(None)).unwrap_err().message.contains("AWS_REGION"));
        let Ok(Some(Account::Aws(found))) = account(aws(Some("eu-west-1"))) else { panic!() };
        assert_eq!((&*found.region, found.service), ("eu-west-1", "bedrock"));
        let both = file::Backend { env_key: Some("K".to_owned()), ..aws(Some("r")) };
        assert!(account(both).unwrap_err().message.contains("next to a key"));
        let google = file::Backend {
            auth: Some("google".to_owned()),
            google: Some(Google { credentials_file: Some("key.json".into()) }),
            ..file::Backend::default()
        };
        let Ok(Some(Account::Google(found))) = account(google) else { panic!() };
        assert_eq!(found.file, Some("/etc/gateway/key.json".into()));
        assert!(account(file::Backend::default()).unwrap().is_none());
        let wrong = file::Backend { auth: Some("azure".to_owned()), ..file::Backend::default() };
        assert!(account(wrong).is_err());
    }
}
