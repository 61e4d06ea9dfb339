//! Reads a profile of `~/.aws/credentials` or `~/.aws/config`.

use crate::account::AwsKeys;
use http_client::Secret;

/// Members of a profile that get credentials in a way that is not supported.
const OTHERS: [&str; 5] =
    ["credential_process", "sso_session", "sso_start_url", "role_arn", "web_identity_token_file"];

/// The part of a profile that gives credentials.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    Keys(AwsKeys),
    /// A member that gives them in another way.
    Other(&'static str),
}

/// The credentials of a profile; `None` if there is no such profile, or it has none. Both kinds of file are read: in one,
/// the heading of a profile is `[name]`, in the other `[profile name]`.
pub(crate) fn read(text: &str, profile: &str) -> Option<Found> {
    let mut is_inside = false;
    let (mut id, mut secret, mut token, mut other) = (None, None, None, None);
    for line in text.lines() {
        // What is indented belongs to the member above.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let name = heading.0.trim();
            let name = name
                .strip_prefix("profile")
                .filter(|it| it.starts_with([' ', '\t']))
                .unwrap_or(name);
            is_inside = name.trim() == profile;
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| is_inside) else { continue };
        let (name, value) = (name.trim(), value.trim());
        let slot = match name {
            "aws_access_key_id" => &mut id,
            "aws_secret_access_key" => &mut secret,
            "aws_session_token" => &mut token,
            _ => {
                other = other.or(OTHERS.into_iter().find(|other| *other == name));
                continue;
            }
        };
        *slot = Some(value.to_owned()).filter(|value| !value.is_empty());
    }
    match (id, secret) {
        (Some(id), Some(secret)) => Some(Found::Keys(AwsKeys {
            id,
            secret: Secret::new(secret),
            session_token: token.map(Secret::new),
        })),
        _ => other.map(Found::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_both_files() {
        let keys = |id: &str, token: Option<&str>| {
            let (secret, session_token) = (Secret::new("s=1"), token.map(Secret::new));
            Some(Found::Keys(AwsKeys { id: id.into(), secret, session_token }))
        };
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=s=1\n\n[ work ]\n\
                    aws_access_key_id=B\naws_secret_access_key = s=1\naws_session_token = t\n\
                    [profile sso]\nsso_session = x\ns3 =\n  aws_access_key_id = no\n[profile odd]\nregion = r\n\
                    [half]\naws_access_key_id = C\n";
        assert_eq!(read(text, "default"), keys("A", None));
        assert_eq!(read(text, "work"), keys("B", Some("t")));
        assert_eq!(read(text, "sso"), Some(Found::Other("sso_session")));
        for none in ["odd", "half", "absent", ""] {
            assert_eq!(read(text, none), None, "{none}");
        }
        assert_eq!(
            read("[profiled]\naws_access_key_id=A\naws_secret_access_key=s=1", "profiled"),
            keys("A", None)
        );
    }
}
