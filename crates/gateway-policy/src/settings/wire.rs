//! `[upstreams.X] wire`, `key_header` and `drop_members`: how requests to an upstream differ from those of
//! clients.

use ::wire::Wire;

use super::Base;
use super::error::Fault;

/// The wires that a backend speaks, the preferred one first. Without a setting a backend gets requests of OpenAI's and
/// Anthropic's wires as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wires(Vec<Wire>);

impl Wires {
    /// Returns whether requests of this wire pass as they are.
    #[must_use]
    pub fn contains(&self, wire: Wire) -> bool {
        self.0.contains(&wire)
    }

    /// The wire in which a request is sent that came in `wire`: the same one, or the preferred one.
    #[must_use]
    pub fn for_request(&self, wire: Wire) -> Wire {
        if self.contains(wire) { wire } else { self.0[0] }
    }

    /// The only wire, if there is one.
    #[must_use]
    pub fn only(&self) -> Option<Wire> {
        match self.0[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns whether it has OpenAI's other interfaces, such as embeddings.
    #[must_use]
    pub fn is_openai(&self) -> bool {
        self.contains(Wire::Responses) || self.contains(Wire::Chat)
    }
}

impl Default for Wires {
    fn default() -> Self {
        Self(vec![Wire::Responses, Wire::Chat, Wire::Messages])
    }
}

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
    /// `x-goog-api-key`.
    XGoogApiKey,
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

/// The header of a key: the named one, or that of the preferred wire.
pub(super) fn key_header(
    name: Option<&str>,
    wires: &Wires,
    key: &[&str],
) -> Result<KeyHeader, Fault> {
    let Some(name) = name else {
        return Ok(match wires.0[0] {
            Wire::Responses | Wire::Chat => KeyHeader::Authorization,
            Wire::Messages => KeyHeader::XApiKey,
            Wire::Gemini => KeyHeader::XGoogApiKey,
        });
    };
    match name.to_ascii_lowercase().as_str() {
        "authorization" => Ok(KeyHeader::Authorization),
        "x-api-key" => Ok(KeyHeader::XApiKey),
        "api-key" => Ok(KeyHeader::ApiKey),
        "x-goog-api-key" => Ok(KeyHeader::XGoogApiKey),
        _ => Err(Fault::new(key, "must be authorization, x-api-key, api-key or x-goog-api-key")),
    }
}

/// The wires of a backend: one name, or a list.
pub(super) fn wires(value: Option<&toml::Value>, key: &[&str]) -> Result<Wires, Fault> {
    let Some(value) = value else { return Ok(Wires::default()) };
    let one = std::slice::from_ref(value);
    let names = value.as_array().map_or(one, Vec::as_slice);
    let mut wires = Vec::new();
    for name in names {
        let wire = name.as_str().and_then(Wire::from_name).ok_or_else(|| {
            let shown = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
            let message = format!(
                "`{shown}` is not a wire: responses, chat, messages and gemini are, one of them or a list"
            );
            Fault::new(key, message)
        })?;
        if wires.contains(&wire) {
            return Err(Fault::new(key, format!("names `{wire}` twice; remove one")));
        }
        wires.push(wire);
    }
    match wires.len() {
        0 => Err(Fault::new(key, "is empty; name a wire, or remove it")),
        2.. if wires.contains(&Wire::Gemini) => {
            let message = "has gemini next to other wires, whose paths are at another address; list them as two backends";
            Err(Fault::new(key, message))
        }
        _ => Ok(Wires(wires)),
    }
}

/// Checks that a Gemini server's address has a version: its paths do not tell it.
pub(super) fn check_version(wires: &Wires, base: &Base, key: &[&str]) -> Result<(), Fault> {
    if wires.contains(Wire::Gemini) && base.path.is_empty() {
        let message = "must end with the version of the API, such as https://host/v1beta";
        return Err(Fault::new(key, message));
    }
    Ok(())
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
    fn the_header_of_a_key_is_one_of_four() {
        let usual = Wires::default();
        for (name, expected) in [
            (None, KeyHeader::Authorization),
            (Some("Authorization"), KeyHeader::Authorization),
            (Some("X-Api-Key"), KeyHeader::XApiKey),
            (Some("api-key"), KeyHeader::ApiKey),
            (Some("X-Goog-Api-Key"), KeyHeader::XGoogApiKey),
        ] {
            assert_eq!(key_header(name, &usual, &[]).ok(), Some(expected), "{name:?}");
        }
        for wrong in ["", "cookie", "x-api-key "] {
            assert!(key_header(Some(wrong), &usual, &[]).is_err(), "{wrong}");
        }
        for (wire, expected) in [
            (Wire::Responses, KeyHeader::Authorization),
            (Wire::Chat, KeyHeader::Authorization),
            (Wire::Messages, KeyHeader::XApiKey),
            (Wire::Gemini, KeyHeader::XGoogApiKey),
        ] {
            let wires = Wires(vec![wire]);
            assert_eq!(key_header(None, &wires, &[]).ok(), Some(expected), "{wire}");
            let named = key_header(Some("authorization"), &wires, &[]);
            assert_eq!(named.ok(), Some(KeyHeader::Authorization), "{wire}");
        }
    }

    #[test]
    fn a_wire_is_a_name_or_a_list() {
        let read = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            wires(table.get("wire"), &["wire"])
        };
        assert_eq!(read("").unwrap(), Wires::default());
        assert_eq!(read("wire = \"gemini\"").unwrap(), Wires(vec![Wire::Gemini]));
        let two = read("wire = [\"chat\", \"messages\"]").unwrap();
        assert_eq!(two.for_request(Wire::Messages), Wire::Messages);
        assert_eq!(two.for_request(Wire::Gemini), Wire::Chat);
        assert!(two.is_openai() && !read("wire = \"messages\"").unwrap().is_openai());
        for wrong in [
            "wire = \"\"",
            "wire = \"Chat\"",
            "wire = 1",
            "wire = []",
            "wire = [\"chat\", \"chat\"]",
            "wire = [\"chat\", \"gemini\"]",
            "wire = [\"chat\", 1]",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
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
