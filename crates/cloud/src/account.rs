//! Accounts of clouds: the places where their credentials are looked up, and the keys.

use std::path::PathBuf;
use std::sync::Arc;

use http_client::Secret;

/// An account of a cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    Aws(Arc<AwsAuth>),
    Google(Arc<GoogleAuth>),
}

/// The places where AWS credentials are looked up, in this order: the environment, the profile, the container, the
/// instance. All values are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsAuth {
    pub region: String,
    /// `bedrock`, or `bedrock-mantle`.
    pub service: &'static str,
    /// Those of the environment; `None` if a profile is configured, which goes first.
    pub keys: Option<AwsKeys>,
    pub profile: String,
    /// True if the profile was named: it is an error that it is missing, and nothing after it is asked.
    pub profile_is_named: bool,
    /// `~/.aws/credentials` and `~/.aws/config`, in the order of their precedence.
    pub profile_files: Vec<PathBuf>,
    /// The environment asks for a login by web identity, which is not supported.
    pub web_identity: bool,
    pub container: Option<AwsContainer>,
    /// Address of the metadata service of the instance; `None` if it is switched off.
    pub metadata: Option<String>,
}

/// The service that gives a container its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsContainer {
    pub url: String,
    /// Sent as `Authorization`.
    pub token: Option<Secret>,
    /// A file with that token, which goes first.
    pub token_file: Option<PathBuf>,
}

/// AWS credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    pub id: String,
    pub secret: Secret,
    pub session_token: Option<Secret>,
}

/// The places where Google credentials are looked up, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoogleAuth {
    /// The file that was named: it is an error that it is missing.
    pub file: Option<PathBuf>,
    /// The file of `gcloud auth application-default login`.
    pub default_file: Option<PathBuf>,
    /// Address of the metadata server of the machine.
    pub metadata: String,
}

/// Keys with the scope of their signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSigner {
    pub keys: AwsKeys,
    pub region: String,
    pub service: &'static str,
}

/// The means by which a request shows whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Keys that sign each request.
    Signed(Arc<AwsSigner>),
    /// A token in `Authorization`.
    Bearer(Secret),
}

impl Key {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Signed(one), Self::Signed(other)) => one.keys == other.keys,
            (Self::Bearer(one), Self::Bearer(other)) => one == other,
            _ => false,
        }
    }
}
