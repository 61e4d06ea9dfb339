//! The session cookie: what its reader may see and until when, sealed with a key derived from the
//! admin token. Nodes that share the token accept each other's cookies; a new token ends all
//! sessions. The cookie contains no secret, and none can be derived from it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::credential::Credential;
use gateway_policy::environment::Random;
use gateway_policy::settings::Secret;

/// Lifetime of a session, in seconds: a working day.
pub(super) const LIFETIME: i64 = 8 * 3600;
/// Longest accepted value, in bytes.
const LONGEST: usize = 1024;
/// Separates this use of the token from any other one.
const PURPOSE: &str = "gateway dashboard session 1\n";
/// Most sessions remembered as signed out.
const MAX_ENDED: usize = 4096;

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The credential used at sign-in.
    pub(super) credential: Credential,
    /// Unix seconds.
    pub(super) expires_at: i64,
    /// Unique id of the session.
    pub(super) id: Box<str>,
}

impl Session {
    /// Creates a session.
    pub(super) fn new(credential: Credential, now: i64, random: &dyn Random) -> Self {
        let mut id = [0; 16];
        random.fill(&mut id);
        let id = URL_SAFE_NO_PAD.encode(id).into();
        Self { credential, expires_at: now.saturating_add(LIFETIME), id }
    }

    /// The cookie's value.
    pub(super) fn seal(&self, token: &Secret) -> String {
        let (key, organization) = match &self.credential {
            Credential::Token => ("", ""),
            Credential::Key { id, organization } => (&**id, &**organization),
        };
        let text = format!("{}\n{}\n{key}\n{organization}", self.expires_at, self.id);
        let seal = sealing(token, text.as_bytes()).finalize().into_bytes();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode(seal))
    }

    /// The session of a cookie's value, if its seal is valid and it has not expired. One that lasts for longer than a
    /// new one was sealed by a clock that was wrong, and is not valid.
    pub(super) fn open(value: &str, token: &Secret, now: i64) -> Option<Self> {
        if value.len() > LONGEST {
            return None;
        }
        let (text, seal) = value.split_once('.')?;
        let text = URL_SAFE_NO_PAD.decode(text).ok()?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        sealing(token, &text).verify_slice(&seal).ok()?;
        let text = String::from_utf8(text).ok()?;
        let mut fields = text.split('\n');
        let expires_at = fields
            .next()?
            .parse()
            .ok()
            .filter(|at| *at > now && *at <= now.saturating_add(LIFETIME))?;
        let id = fields.next()?.into();
        let credential = match (fields.next()?, fields.next()?) {
            ("", _) => Credential::Token,
            (id, organization) => {
                Credential::Key { id: id.into(), organization: organization.into() }
            }
        };
        Some(Self { credential, expires_at, id })
    }
}

fn sealing(token: &Secret, text: &[u8]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(token.reveal().as_bytes());
    mac.expect("a key of any length will do").chain_update(PURPOSE).chain_update(text)
}

/// Sessions that were signed out. They are unknown to other nodes, and to this one after a restart:
/// a copy of the cookie is valid there until it expires.
#[derive(Default)]
pub(super) struct SignedOut(Mutex<HashMap<Box<str>, i64>>);

impl SignedOut {
    /// Signs a session out. When full, forgets the session that expires first; none before, as a clock that is set
    /// forward may be set back.
    pub(super) fn end(&self, session: &Session) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= MAX_ENDED {
            let first = ended.iter().min_by_key(|(_, at)| **at).map(|(id, _)| id.clone());
            first.and_then(|id| ended.remove(&id));
        }
        ended.insert(session.id.clone(), session.expires_at);
    }

    /// Returns whether the session was signed out.
    pub(super) fn holds(&self, session: &Session) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&session.id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    struct Chance;

    impl Random for Chance {
        fn fill(&self, bytes: &mut [u8]) {
            rand::Rng::fill(&mut rand::rng(), bytes);
        }
    }

    fn session() -> Session {
        let credential = Credential::Key { id: "key_1".into(), organization: "org-1".into() };
        Session::new(credential, 1000, &Chance)
    }

    #[test]
    fn a_session_is_valid_until_it_ends_and_with_its_own_token_only() {
        let token = Secret::new("a-token-of-this-test");
        for credential in [Credential::Token, session().credential] {
            let session = Session::new(credential, 1000, &Chance);
            let value = session.seal(&token);
            assert!(!value.contains(token.reveal()));
            assert_eq!(Session::open(&value, &token, 1000 + LIFETIME - 1), Some(session));
            assert_eq!(Session::open(&value, &token, 1000 + LIFETIME), None);
            // A clock that was a year ahead sealed it.
            assert_eq!(Session::open(&value, &token, 1000 - 365 * 86_400), None);
            assert_eq!(Session::open(&value, &Secret::new("another"), 1000), None);
        }
    }

    #[test]
    fn ended_sessions_are_bounded() {
        let ended = SignedOut::default();
        let last = session();
        ended.end(&last);
        assert!(ended.holds(&last) && !ended.holds(&session()));
        for _ in 0..MAX_ENDED + 10 {
            ended.end(&session());
        }
        assert_eq!(ended.0.lock().unwrap().len(), MAX_ENDED);
    }

    proptest! {
        #[test]
        fn a_modified_session_is_refused(at in 0_usize..200, to in "[A-Za-z0-9_.-]") {
            let token = Secret::new("a-token-of-this-test");
            let value = session().seal(&token);
            let at = at % value.len();
            let mut changed = value.clone();
            changed.replace_range(at..=at, &to);
            // The last character of base64 may have unused bits; a change of them does not decode.
            prop_assert!(changed == value || Session::open(&changed, &token, 1000).is_none());
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            prop_assert_eq!(Session::open(&text, &Secret::new("t"), 0), None);
        }
    }
}
