//! AWS credentials: from the environment, a profile, the container's service, or the instance's.

use std::time::SystemTime;

use hyper::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use crate::account::Key;
use crate::account::{AwsAuth, AwsContainer, AwsKeys, AwsSigner};
use crate::connections::Connections;
use crate::fetch::{self, Call, METADATA_TIMEOUT};
use crate::fetched::{CloudError, Fetched};
use crate::profile;
use http_client::Secret;

/// Lifetime of a session with the metadata service of an instance, in seconds.
const SESSION_SECONDS: &str = "300";
/// Path of the instance's credentials, below the address of its metadata service.
const ROLES: &str = "latest/meta-data/iam/security-credentials/";

/// Fetches credentials from the first source that has any.
///
/// # Errors
/// No source has any, or one that was named fails.
pub(crate) async fn fetch(
    auth: &AwsAuth,
    connections: &Connections,
) -> Result<Fetched, CloudError> {
    if let Some(keys) = &auth.keys {
        return Ok(signed(auth, keys.clone(), None));
    }
    let mut tried = match auth.profile_is_named {
        true => Vec::new(),
        false => vec!["AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set".to_owned()],
    };
    match of_profile(auth, connections).await? {
        Ok(keys) => return Ok(signed(auth, keys, None)),
        Err(why) if auth.profile_is_named => return Err(CloudError::permanent(why)),
        Err(why) => tried.push(why),
    }
    if auth.web_identity {
        // The next sources have another role than the one that is meant.
        return Err(CloudError::permanent(
            "AWS_WEB_IDENTITY_TOKEN_FILE is set, and logins by web identity are not supported; use EKS Pod Identity, or \
             put temporary keys into the environment",
        ));
    }
    if let Some(container) = &auth.container {
        let (keys, ends) = of_container(container, connections).await?;
        return Ok(signed(auth, keys, ends));
    }
    tried.push("this is no container with a role (AWS_CONTAINER_CREDENTIALS_FULL_URI and …_RELATIVE_URI are not set)".to_owned());
    let mut passes = false;
    match &auth.metadata {
        Some(address) => match of_instance(address, connections).await {
            Ok((keys, ends)) => return Ok(signed(auth, keys, ends)),
            Err(error) => {
                passes = error.passes;
                tried.push(format!("this is no instance with a role ({})", error.message));
            }
        },
        None => tried.push("AWS_EC2_METADATA_DISABLED is set".to_owned()),
    }
    let message = format!(
        "there are no AWS credentials: {}; set the variables, or name a profile with `aws.profile`",
        tried.join("; ")
    );
    Err(CloudError { message, passes })
}

fn signed(auth: &AwsAuth, keys: AwsKeys, ends: Option<SystemTime>) -> Fetched {
    let signer = AwsSigner { keys, region: auth.region.clone(), service: auth.service };
    Fetched { key: Key::Signed(std::sync::Arc::new(signer)), ends }
}

/// The keys of the profile, or why it has none.
async fn of_profile(
    auth: &AwsAuth,
    connections: &Connections,
) -> Result<Result<AwsKeys, String>, CloudError> {
    let name = &auth.profile;
    let mut other = None;
    for path in &auth.profile_files {
        let Some(text) = fetch::read_file(connections.files(), path).await? else { continue };
        match profile::read(&text, name) {
            Some(profile::Found::Keys(keys)) => return Ok(Ok(keys)),
            Some(profile::Found::Other(member)) => other = Some(member),
            None => {}
        }
    }
    if let Some(member) = other {
        // A profile that was chosen is not passed over: another source would be another account.
        return Err(CloudError::permanent(format!(
            "the AWS profile `{name}` has no keys but `{member}`, which is not supported; run `eval \"$(aws configure \
             export-credentials --profile {name} --format env)\"` and start agentd again without `aws.profile`"
        )));
    }
    let files: Vec<String> = auth.profile_files.iter().map(|it| it.display().to_string()).collect();
    Ok(Err(format!("there is no profile `{name}` with keys in {}", files.join(" or "))))
}

async fn of_container(
    container: &AwsContainer,
    connections: &Connections,
) -> Result<(AwsKeys, Option<SystemTime>), CloudError> {
    let url = &container.url;
    if !fetch::is_safe(url) {
        return Err(CloudError::permanent(format!(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI is `{url}`: it must have https://, or the address of this machine or a \
             metadata service"
        )));
    }
    let token = match &container.token_file {
        Some(path) => match fetch::read_file(connections.files(), path).await? {
            Some(token) => Some(token),
            None => {
                let message = format!(
                    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: {} is missing",
                    path.display()
                );
                return Err(CloudError::permanent(message));
            }
        },
        None => container.token.as_ref().map(|token| token.expose().to_owned()),
    };
    let headers = token.map(|token| ("authorization", token)).into_iter().collect();
    let call =
        Call { method: Method::GET, url, headers, body: String::new(), within: METADATA_TIMEOUT };
    let answer = fetch::call(connections.direct()?, call).await?;
    if answer.status != StatusCode::OK {
        return Err(refused("the credentials of the container", url, answer.status));
    }
    keys_of(&answer.json(), "the service for the container's credentials")
}

/// The role of an EC2 instance, by the second version of its metadata service.
async fn of_instance(
    address: &str,
    connections: &Connections,
) -> Result<(AwsKeys, Option<SystemTime>), CloudError> {
    let http = connections.direct()?;
    let address = address.trim_end_matches('/');
    let ask = async |method: Method, path: &str, header: (&'static str, String), exists: bool| {
        let url = format!("{address}/{path}");
        let (headers, body) = (vec![header], String::new());
        let call = Call { method, url: &url, headers, body, within: METADATA_TIMEOUT };
        let answer = fetch::call(http, call).await;
        // A machine that is no instance has no such service, and will have none.
        let answer =
            answer.map_err(|error| CloudError { passes: exists && error.passes, ..error })?;
        match answer.status {
            StatusCode::OK => Ok(answer),
            status => Err(refused("the role of the instance", &url, status)),
        }
    };
    let lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", SESSION_SECONDS.to_owned());
    let session = ask(Method::PUT, "latest/api/token", lifetime, false).await?;
    let session = String::from_utf8_lossy(&session.body).into_owned();
    let header = || ("x-aws-ec2-metadata-token", session.clone());
    let roles = ask(Method::GET, ROLES, header(), true).await?;
    let roles = String::from_utf8_lossy(&roles.body).into_owned();
    let role = roles.lines().next().unwrap_or_default().trim();
    if role.is_empty()
        || !role.bytes().all(|it| it.is_ascii_alphanumeric() || b"+=,.@_-".contains(&it))
    {
        return Err(CloudError::permanent("the metadata service names no role of the instance"));
    }
    let answer = ask(Method::GET, &format!("{ROLES}{role}"), header(), true).await?;
    keys_of(&answer.json(), "the metadata service of the instance")
}

fn refused(what: &str, url: &str, status: StatusCode) -> CloudError {
    let message = format!("GET {url} for {what}: answered {status}");
    CloudError { message, passes: status.is_server_error() || status.as_u16() == 429 }
}

/// The keys in an answer, and their end.
fn keys_of(answer: &Value, from: &str) -> Result<(AwsKeys, Option<SystemTime>), CloudError> {
    let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty());
    let (Some(id), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        let code =
            crate::excerpt::excerpt(text("Code").or_else(|| text("code")).unwrap_or("no code"));
        return Err(CloudError::permanent(format!("{from} gives no keys ({code})")));
    };
    let ends = match text("Expiration") {
        Some(ends) => match ends.parse::<Timestamp>() {
            Ok(ends) => Some(SystemTime::from(ends)),
            Err(_) => {
                let message = format!("{from} gives keys without a readable end");
                return Err(CloudError::permanent(message));
            }
        },
        None => None,
    };
    let session_token = text("Token").map(Secret::new);
    Ok((AwsKeys { id: id.to_owned(), secret: Secret::new(secret), session_token }, ends))
}
