//! The text of a key: `sk-proj-`, 40 random characters, and a checksum of 4 characters, so that a
//! text that never was a key is refused without a query. Storage of keys is in `keys`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use gateway_policy::environment::Random;
use gateway_policy::settings::Secret;

/// Random characters: 240 bits.
const CHANCE: usize = 40;
/// Characters of the checksum.
const SUM: usize = 4;

/// The kind of a key, by its grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Use of a project.
    Project,
    /// Use of a project, as one of its service accounts.
    ServiceAccount,
    /// Administration of one organization.
    Admin,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Project, Self::ServiceAccount, Self::Admin];

    /// The prefix of its keys.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Project => "sk-proj-",
            Self::ServiceAccount => "sk-svcacct-",
            Self::Admin => "sk-admin-",
        }
    }
}

/// Creates a new key's text.
#[must_use]
pub fn new(kind: Kind, random: &dyn Random) -> Secret {
    let mut chance = [0; CHANCE / 4 * 3];
    random.fill(&mut chance);
    let mut text = format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(chance));
    let sum = sum(&text);
    text.push_str(&sum);
    Secret::new(text)
}

/// The kind that the text claims; `None` if the text cannot be a key.
#[must_use]
pub fn kind(text: &str) -> Option<Kind> {
    let kind = Kind::ALL.into_iter().find(|kind| text.starts_with(kind.prefix()))?;
    if text.len() != kind.prefix().len() + CHANCE + SUM || !text.is_ascii() {
        return None;
    }
    let (body, checksum) = text.split_at(text.len() - SUM);
    (sum(body) == checksum).then_some(kind)
}

/// The hash that is stored.
#[must_use]
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The redacted text: the prefix and the last four characters.
#[must_use]
pub fn redacted(text: &Secret) -> String {
    let text = text.reveal();
    let prefix = kind(text).map_or("", Kind::prefix);
    format!("{prefix}********{}", text.get(text.len().saturating_sub(4)..).unwrap_or_default())
}

fn sum(body: &str) -> String {
    let digest = Sha256::new().chain_update("gateway key ").chain_update(body).finalize();
    URL_SAFE_NO_PAD.encode(&digest[..SUM / 4 * 3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Bytes(u8);

    impl Random for Bytes {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn generated_keys_are_valid() {
        for made in Kind::ALL {
            let text = new(made, &Bytes(7));
            assert_eq!(kind(text.reveal()), Some(made));
            let shown = redacted(&text);
            assert!(
                shown.starts_with(made.prefix())
                    && text.reveal().ends_with(&shown[shown.len() - 4..])
            );
            assert!(shown.len() < 30);
        }
    }

    proptest! {
        #[test]
        fn modified_keys_are_invalid(at in 8_usize..52, to in "[A-Za-z0-9_-]") {
            let text = new(Kind::Project, &Bytes(9)).reveal().to_owned();
            let mut changed = text.clone();
            changed.replace_range(at..=at, &to);
            prop_assert_eq!(kind(&changed).is_some(), changed == text);
        }

        #[test]
        fn no_text_panics(text in ".{0,80}", tail in ".{0,60}") {
            prop_assert_eq!(kind(&text), None);
            prop_assert_eq!(kind(&format!("sk-proj-{tail}")), None);
        }
    }
}
