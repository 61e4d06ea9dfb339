//! The query of a request, by name.

use percent_encoding::percent_decode_str;

#[derive(Clone, Copy)]
pub(super) struct Query<'a>(pub(super) &'a str);

impl Query<'_> {
    /// The first value of `name`, decoded.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| form_decoded(value))
    }
}

/// Decodes `+` and percent escapes; an invalid escape is kept.
fn form_decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query("a=1&b=x%20y+z&a=2&c&d=%zz%4");
        let get = |name| query.get(name);
        assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some("1"), Some("x y z")));
        assert_eq!((get("c"), get("d").as_deref()), (None, Some("%zz%4")));
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            form_decoded(&text);
            Query(&text).get("a");
        }
    }
}
