//! `[upstreams.X] key_header` and `drop_members`: how requests to an upstream differ from those of
//! clients.

use super::error::Fault;

/// The header in which an upstream gets its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer …`.
    #[default]
    Authorization,
    /// `x-api-key`.
    XApiKey,
    /// `api-key`.
    ApiKey,
}

/// The members of a body that are removed before it is sent to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropMembers(Vec<Box<str>>);

/// Most names.
const MOST: usize = 256;
/// Longest name, in bytes.
const MAX_NAME: usize = 100;

/// Members that some servers read as an instruction to call another server, with another key or for
/// another account. None is a member of the API.
const DEFAULT: [&str; 26] = [
    "api_base",
    "api_key",
    "api_type",
    "api_version",
    "aws_access_key_id",
    "aws_bedrock_runtime_endpoint",
    "aws_region_name",
    "aws_secret_access_key",
    "aws_session_token",
    "azure_ad_token",
    "azure_endpoint",
    "base_url",
    "custom_llm_provider",
    "default_headers",
    "deployment_id",
    "extra_body",
    "extra_headers",
    "extra_query",
    "headers",
    "litellm_credential_name",
    "llm_provider",
    "proxy_server_request",
    "user_config",
    "vertex_credentials",
    "vertex_location",
    "vertex_project",
];

/// Members that the gateway reads or sets: dropping them would change what a request costs.
const READ: [&str; 18] = [
    "background",
    "best_of",
    "conversation",
    "input",
    "instructions",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "model",
    "n",
    "previous_response_id",
    "prompt",
    "prompt_cache_retention",
    "service_tier",
    "stream",
    "stream_options",
    "system",
];

impl DropMembers {
    /// Returns whether the member of that name is removed. `name[part]` is a part of the member
    /// `name` in a form.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let whole = name.split('[').next().unwrap_or_default();
        self.0.iter().any(|known| **known == *name || **known == *whole)
    }
}

impl Default for DropMembers {
    fn default() -> Self {
        Self(DEFAULT.map(Into::into).into())
    }
}

pub(super) fn key_header(name: Option<&str>, key: &[&str]) -> Result<KeyHeader, Fault> {
    match name.map(str::to_ascii_lowercase).as_deref() {
        None | Some("authorization") => Ok(KeyHeader::Authorization),
        Some("x-api-key") => Ok(KeyHeader::XApiKey),
        Some("api-key") => Ok(KeyHeader::ApiKey),
        Some(_) => Err(Fault::new(key, "must be authorization, x-api-key or api-key")),
    }
}

pub(super) fn drop_members(names: Option<&[String]>, key: &[&str]) -> Result<DropMembers, Fault> {
    let Some(names) = names else { return Ok(DropMembers::default()) };
    if names.len() > MOST {
        let message = format!("has {} names; at most {MOST} are possible", names.len());
        return Err(Fault::new(key, message));
    }
    for name in names {
        if name.is_empty() || name.len() > MAX_NAME {
            let message = format!("each name must have 1 to {MAX_NAME} bytes");
            return Err(Fault::new(key, message));
        }
        if READ.contains(&&**name) {
            let message = format!("`{name}` cannot be dropped: the gateway reads or sets it");
            return Err(Fault::new(key, message));
        }
    }
    Ok(DropMembers(names.iter().map(|name| name.as_str().into()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_key_is_one_of_three() {
        for (name, expected) in [
            (None, KeyHeader::Authorization),
            (Some("Authorization"), KeyHeader::Authorization),
            (Some("X-Api-Key"), KeyHeader::XApiKey),
            (Some("api-key"), KeyHeader::ApiKey),
        ] {
            assert_eq!(key_header(name, &[]).ok(), Some(expected), "{name:?}");
        }
        for wrong in ["", "cookie", "x-api-key "] {
            assert!(key_header(Some(wrong), &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_replaces_the_default_one() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let default = drop_members(None, &[]).unwrap();
        assert!(default.contains("api_base") && default.contains("extra_headers[x]"));
        assert!(!default.contains("api_bases") && !default.contains("tools"));
        let own = drop_members(Some(&names(&["provider"])), &[]).unwrap();
        assert!(own.contains("provider") && !own.contains("api_base"));
        assert!(!drop_members(Some(&[]), &[]).unwrap().contains("api_base"));
        for wrong in
            [names(&[""]), names(&["model"]), names(&[&"x".repeat(101)]), names(&["x"; 257])]
        {
            assert!(drop_members(Some(&wrong), &[]).is_err(), "{wrong:?}");
        }
    }
}
