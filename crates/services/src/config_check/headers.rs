//! Headers that the configuration names (RFC 9110, section 5).

use std::collections::BTreeMap;

use super::{Check, Severity};

impl Check<'_> {
    /// Checks the headers below `key` that are written in the configuration.
    pub(super) fn headers(
        &mut self,
        severity: Severity,
        key: &[&str],
        headers: &BTreeMap<String, String>,
    ) {
        for (name, value) in headers {
            if let Some(why) = unusable_name(name).or_else(|| unusable_value(value)) {
                self.add(severity, &below(key, name), why);
            }
        }
    }

    /// Checks the headers below `key` whose values are in variables. `unset` says what happens without
    /// one, and how severe that is.
    pub(super) fn headers_from_variables(
        &mut self,
        severity: Severity,
        (unset, then): (Severity, &str),
        key: &[&str],
        headers: &BTreeMap<String, String>,
    ) {
        for (name, variable) in headers {
            let key = below(key, name);
            if let Some(why) = unusable_name(name) {
                self.add(severity, &key, why);
                continue;
            }
            match self.options.variable(variable).filter(|value| !value.is_empty()) {
                None => {
                    let message = format!("the variable {variable} is not set, so {then}; set it");
                    self.add(unset, &key, message);
                }
                // The value can be a secret, so it is not quoted.
                Some(value) if unusable_value(&value).is_some() => {
                    let message = format!(
                        "no header can carry the value of the variable {variable}; correct it"
                    );
                    self.add(severity, &key, message);
                }
                Some(_) => {}
            }
        }
    }
}

fn below(key: &[&str], name: &str) -> String {
    let parts: Vec<&str> = key.iter().copied().chain([name]).collect();
    config::dotted_key(&parts)
}

fn unusable_name(name: &str) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_usable = !name.is_empty() && name.bytes().all(is_token);
    (!is_usable).then(|| {
        "this is not the name of a header; names have letters, digits and hyphens".to_owned()
    })
}

/// The value can be a secret, so the message does not quote it.
fn unusable_value(value: &str) -> Option<String> {
    let is_usable = value.bytes().all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    (!is_usable).then(|| {
        "no header can carry this value, which has a line end or another control character"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_of_headers() {
        for (name, value, is_usable) in [
            ("X-Key", "a b\tc", true),
            ("x_key.1", "ü", true),
            ("", "a", false),
            ("X Key", "a", false),
            ("X-Key:", "a", false),
            ("X-Schlüssel", "a", false),
            ("X-Key", "a\nb", false),
            ("X-Key", "a\u{7f}", false),
        ] {
            let found = unusable_name(name).or_else(|| unusable_value(value));
            assert_eq!(found.is_none(), is_usable, "{name} {value}");
        }
    }
}
