//! Where the credentials of an account are looked up, by the variables that the tools of each cloud read.

use std::path::PathBuf;

use http_client::Secret;

use crate::account::{AwsAuth, AwsContainer, AwsKeys, GoogleAuth};

/// Address of the metadata service of an EC2 instance.
const AWS_METADATA: &str = "http://169.254.169.254";
/// Address of the service with the credentials of an ECS task.
const ECS_CREDENTIALS: &str = "http://169.254.170.2";
/// Name of Google's metadata server, which only machines of that cloud resolve.
const GOOGLE_METADATA: &str = "metadata.google.internal";

/// Variables by name. Empty ones count as unset.
type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

impl AwsAuth {
    /// The places for requests to `host`, in the configured region and profile; `None` without a region.
    #[must_use]
    pub fn of_environment(
        host: &str,
        region: Option<String>,
        profile: Option<String>,
        variables: Variables<'_>,
    ) -> Option<Self> {
        let set = |name: &str| variables(name).filter(|value| !value.is_empty());
        let of_host = || {
            let mut parts = host.split('.');
            let service =
                parts.next().filter(|it| matches!(*it, "bedrock-runtime" | "bedrock-mantle"));
            service.and(parts.next()).map(str::to_owned)
        };
        let region = region.or_else(of_host).or_else(|| set("AWS_REGION"));
        let region = region.or_else(|| set("AWS_DEFAULT_REGION"))?;
        let is_configured = profile.is_some();
        let profile = profile.or_else(|| set("AWS_PROFILE"));
        let own_keys = || {
            let (id, secret) = (set("AWS_ACCESS_KEY_ID")?, set("AWS_SECRET_ACCESS_KEY")?);
            let session_token = set("AWS_SESSION_TOKEN").map(Secret::new);
            Some(AwsKeys { id, secret: Secret::new(secret), session_token })
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
        let is_off =
            set("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let metadata = set("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        Some(Self {
            region,
            service: match host.starts_with("bedrock-mantle.") {
                true => "bedrock-mantle",
                false => "bedrock",
            },
            keys: (!is_configured).then(own_keys).flatten(),
            profile_is_named: profile.is_some(),
            profile: profile.unwrap_or_else(|| "default".to_owned()),
            profile_files: files.into_iter().flatten().collect(),
            web_identity: set("AWS_WEB_IDENTITY_TOKEN_FILE").is_some(),
            container: url.map(|url| AwsContainer {
                url,
                token: set("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new),
                token_file: set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from),
            }),
            metadata: (!is_off).then(|| metadata.unwrap_or_else(|| AWS_METADATA.to_owned())),
        })
    }
}

impl GoogleAuth {
    /// The places with the configured file.
    #[must_use]
    pub fn of_environment(file: Option<PathBuf>, variables: Variables<'_>) -> Self {
        let set = |name: &str| variables(name).filter(|value| !value.is_empty());
        let file = file.or_else(|| set("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
        let folder = set("CLOUDSDK_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config/gcloud")));
        let metadata = set("GCE_METADATA_HOST").unwrap_or_else(|| GOOGLE_METADATA.to_owned());
        Self {
            file,
            default_file: folder.map(|folder| folder.join("application_default_credentials.json")),
            metadata: format!("http://{metadata}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn the_region_is_that_of_the_configuration_the_address_or_the_environment() {
        let none = variables(&[("AWS_REGION", "")]);
        let some = variables(&[("AWS_REGION", "eu-west-1")]);
        let region = |host: &str, region: Option<&str>, of: Variables<'_>| {
            AwsAuth::of_environment(host, region.map(str::to_owned), None, of).map(|it| it.region)
        };
        let host = "bedrock-runtime.us-east-1.amazonaws.com";
        assert_eq!(region(host, Some("ap-south-1"), &some).as_deref(), Some("ap-south-1"));
        assert_eq!(region(host, None, &some).as_deref(), Some("us-east-1"));
        assert_eq!(region("proxy", None, &some).as_deref(), Some("eu-west-1"));
        assert_eq!(region("proxy", None, &none), None);
    }

    #[test]
    fn a_configured_profile_goes_before_the_keys_of_the_environment() {
        let set = variables(&[
            ("AWS_ACCESS_KEY_ID", "A"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("AWS_REGION", "r"),
            ("HOME", "/h"),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/c"),
            ("AWS_EC2_METADATA_DISABLED", "TRUE"),
        ]);
        let of = |profile: Option<&str>| {
            AwsAuth::of_environment("h", None, profile.map(str::to_owned), &set).unwrap()
        };
        let plain = of(None);
        assert_eq!(plain.keys.map(|keys| keys.id).as_deref(), Some("A"));
        assert_eq!(plain.container.unwrap().url, "http://169.254.170.2/c");
        assert_eq!((plain.metadata, plain.profile_is_named), (None, false));
        assert_eq!(
            plain.profile_files,
            [PathBuf::from("/h/.aws/credentials"), "/h/.aws/config".into()]
        );
        let named = of(Some("work"));
        assert_eq!((named.keys, named.profile_is_named, &*named.profile), (None, true, "work"));
    }

    #[test]
    fn a_configured_file_goes_before_that_of_the_environment() {
        let set = variables(&[("GOOGLE_APPLICATION_CREDENTIALS", "/e.json"), ("HOME", "/h")]);
        let of = |file: Option<&str>| GoogleAuth::of_environment(file.map(PathBuf::from), &set);
        assert_eq!(of(None).file, Some("/e.json".into()));
        let named = of(Some("/c.json"));
        assert_eq!(named.file, Some("/c.json".into()));
        let login = "/h/.config/gcloud/application_default_credentials.json";
        assert_eq!(named.default_file, Some(login.into()));
        assert_eq!(named.metadata, "http://metadata.google.internal");
    }
}
