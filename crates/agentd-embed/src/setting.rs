//! Settings of a server's configuration as its option `-c` reads them: a dotted key and a TOML value.

use serde_json::Value;

use crate::Error;

/// `key=value`, the value in TOML.
///
/// # Errors
/// [`Error::InvalidConfig`]: TOML has no such value.
pub(crate) fn setting(key: &str, value: &Value) -> Result<String, Error> {
    let invalid = |why: String| Error::InvalidConfig { key: key.to_owned(), why };
    let value = toml_value(value, "the value").map_err(invalid)?;
    Ok(format!("{key}={value}"))
}

fn toml_value(value: &Value, place: &str) -> Result<toml::Value, String> {
    Ok(match value {
        Value::Null => {
            return Err(format!(
                "{place} is null, which TOML does not have; leave the key out to keep its default"
            ));
        }
        Value::Bool(yes) => toml::Value::Boolean(*yes),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => toml::Value::Integer(integer),
            (None, Some(float)) if number.is_f64() => toml::Value::Float(float),
            _ => return Err(format!("{place} is {number}, which is larger than TOML's integers")),
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(values) => {
            let each = values.iter().enumerate();
            let each = each.map(|(at, value)| toml_value(value, &format!("{place}[{at}]")));
            toml::Value::Array(each.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let each = members.iter().map(|(name, value)| {
                Ok((name.clone(), toml_value(value, &format!("{place}.{name}"))?))
            });
            toml::Value::Table(each.collect::<Result<_, String>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_back_as_they_were() {
        for value in [
            json!(true),
            json!(-5),
            json!(i64::MAX),
            json!(0.5),
            json!(1e300),
            json!("text"),
            json!(""),
            json!("\"quoted\" 'both' \\ \u{7f}\u{0}\u{1b}\r\n\ttab '''\"\"\" \u{1f600}\u{202e}"),
            json!([1, "a", [true], {}]),
            json!({ "a b": { "c.d": [], "": "=" }, "e": { "\u{7f}\n": 1 } }),
        ] {
            let setting = setting("a.b", &value).unwrap();
            let read = setting.strip_prefix("a.b=").unwrap();
            // As the server reads it: the value alone.
            let read = toml::Value::deserialize(toml::de::ValueDeserializer::parse(read).unwrap());
            assert_eq!(serde_json::to_value(read.unwrap()).unwrap(), value, "{setting}");
        }
    }

    #[test]
    fn what_toml_does_not_have_is_refused() {
        for (value, expected) in [
            (json!(null), "the configuration `a.b`: the value is null"),
            (
                json!({ "c": [1, null] }),
                "the configuration `a.b`: the value.c[1] is null, which TOML does not have; leave \
                 the key out to keep its default",
            ),
            (json!(u64::MAX), "the configuration `a.b`: the value is 18446744073709551615, which"),
        ] {
            let error = setting("a.b", &value).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    use serde::Deserialize;
}
