//! The query of a request, read by name.

use std::borrow::Cow;

#[derive(Clone, Copy)]
pub(super) struct Query<'a>(pub(super) &'a str);

impl Query<'_> {
    /// The first value of `name`, decoded.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(value).into_owned())
    }
}

/// `text` without its percent escapes; what is no escape stays.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (code, first) {
            (Some(code), _) => bytes.push(code),
            (None, b'+') => bytes.push(b' '),
            (None, other) => bytes.push(*other),
        }
        rest = if code.is_some() { &after[2..] } else { after };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
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
            decoded(&text);
            Query(&text).get("a");
        }
    }
}
