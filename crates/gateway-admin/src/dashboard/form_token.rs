//! The token of a form: it is valid for one reader, one address and a working day, and its number
//! makes the act of the form happen at most once. Another site cannot make one: it is sealed with a
//! key that is derived from the admin token and the reader's session.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::session::LIFETIME;
use gateway_policy::environment::Random;
use gateway_policy::settings::Secret;

/// Separates this use of the admin token from any other one.
const PURPOSE: &str = "gateway dashboard form 1\n";
/// Longest accepted token, in bytes.
const LONGEST: usize = 256;

/// The key that seals the forms of one reader.
#[derive(Clone)]
pub(super) struct FormKey([u8; 32]);

impl FormKey {
    /// The key of a reader: `reader` is the id of the session, or names the credential without one.
    pub(super) fn new(token: &Secret, reader: &str) -> Self {
        Self(seal(token.reveal().as_bytes(), &[PURPOSE, reader]).finalize().into_bytes().into())
    }

    /// A new token for a form that is sent to `path`. `now` is in Unix seconds.
    pub(super) fn issue(&self, path: &str, now: i64, random: &dyn Random) -> String {
        let mut number = [0; 16];
        random.fill(&mut number);
        let text = format!("{now}.{}", URL_SAFE_NO_PAD.encode(number));
        let seal = self.seal(path, &text).finalize().into_bytes();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(seal))
    }

    /// The number of a token; `None` if it is not valid now for a form that is sent to `path`.
    pub(super) fn open(&self, token: &str, path: &str, now: i64) -> Option<Box<str>> {
        let (text, seal) = token.rsplit_once('.').filter(|_| token.len() <= LONGEST)?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        self.seal(path, text).verify_slice(&seal).ok()?;
        let (issued, number) = text.split_once('.')?;
        let issued: i64 = issued.parse().ok()?;
        // A clock that is set back a little, or that of another node, does not end a form.
        (now < issued.saturating_add(LIFETIME)).then(|| number.into())
    }

    fn seal(&self, path: &str, text: &str) -> Hmac<Sha256> {
        seal(&self.0, &[path, "\n", text])
    }
}

impl fmt::Debug for FormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FormKey")
    }
}

fn seal(key: &[u8], parts: &[&str]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    parts.iter().fold(mac, |mac, part| mac.chain_update(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Chance;

    impl Random for Chance {
        fn fill(&self, bytes: &mut [u8]) {
            rand::Rng::fill(&mut rand::rng(), bytes);
        }
    }

    #[test]
    fn a_token_is_of_one_reader_one_address_and_one_day() {
        let (secret, now) = (Secret::new("the-admin-token"), 1_700_000_000);
        let key = FormKey::new(&secret, "session");
        let token = key.issue("/a", now, &Chance);
        let number = key.open(&token, "/a", now + LIFETIME - 1);
        assert_eq!(number.as_deref().map(str::len), Some(22));
        assert_ne!(number, key.open(&key.issue("/a", now, &Chance), "/a", now));
        assert_eq!(key.open(&token, "/a", now + LIFETIME), None);
        assert_eq!(key.open(&token, "/b", now), None);
        assert_eq!(FormKey::new(&secret, "another").open(&token, "/a", now), None);
        assert_eq!(FormKey::new(&Secret::new("other"), "session").open(&token, "/a", now), None);
    }

    proptest! {
        #[test]
        fn a_modified_token_is_refused(at in 0_usize..200, to in "[A-Za-z0-9_.-]") {
            let key = FormKey::new(&Secret::new("the-admin-token"), "session");
            let token = key.issue("/a", 1000, &Chance);
            let at = at % token.len();
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to);
            prop_assert!(changed == token || key.open(&changed, "/a", 1000).is_none());
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let key = FormKey::new(&Secret::new("t"), "s");
            prop_assert_eq!(key.open(&text, "/a", 0), None);
        }
    }
}
