//! The models that a project or a key may use, as one text of its row: what the administration API
//! shows, without `object`.

use serde_json::{Value, json};

use crate::Error;
use crate::database::Row;
use gateway_policy::tenants::{ModelPermissions, PermissionMode};

/// The text for a row; `None`: all models.
pub(super) fn encode(permissions: Option<&ModelPermissions>) -> Option<String> {
    let permissions = permissions?;
    let (mode, names) = (permissions.mode().name(), permissions.names());
    Some(json!({ "mode": mode, "model_ids": names }).to_string())
}

/// Reads the text in a column. One that cannot be read is an error, never "all models".
pub(super) fn read(row: &Row, column: usize) -> Result<Option<ModelPermissions>, Error> {
    row.optional_text(column)?.map(|text| decode(&text)).transpose()
}

fn decode(text: &str) -> Result<ModelPermissions, Error> {
    let wrong = || {
        Error::failed("a text in the column model_permissions cannot be read")
            .next_step("set the model permissions of the project or key again")
    };
    let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let mode = value["mode"].as_str().and_then(PermissionMode::named).ok_or_else(wrong)?;
    let names = value["model_ids"].as_array().ok_or_else(wrong)?.iter();
    let names: Option<Vec<Box<str>>> = names.map(|name| name.as_str().map(Into::into)).collect();
    Ok(ModelPermissions::new(mode, names.ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_as_they_were_written() {
        for mode in [PermissionMode::Allow, PermissionMode::Deny] {
            for names in [vec![], vec!["*".into(), "a \"b\"\n".into()]] {
                let permissions = ModelPermissions::new(mode, names);
                let text = encode(Some(&permissions)).unwrap();
                assert_eq!(decode(&text).unwrap(), permissions);
            }
        }
        assert_eq!(encode(None), None);
        for wrong in
            ["", "null", "{}", r#"{"mode":"allow_list"}"#, r#"{"mode":"x","model_ids":[]}"#]
        {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
        assert!(decode(r#"{"mode":"deny_list","model_ids":[1]}"#).is_err());
    }
}
