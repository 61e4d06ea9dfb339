//! Seals the reasoning that translated answers give to callers, and that comes back with their next requests. It goes to
//! a model unread, so a caller must not be able to write any, nor to use that of another project.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use wire::{Envelope, Event, Item, OutputItem, Payload, Request, SEALED, Warnings, Wire};

use gateway_policy::environment::Random;
use gateway_store::Error;
use gateway_store::database::Database;
use gateway_store::records::shared_keys;

/// The name of the key in the store, and what separates this use of it from any other one.
const PURPOSE: &str = "reasoning envelopes 1";
/// The same for names of upstreams and models.
const ALIASES: &str = "names in envelopes 1";
/// Length of what stands for a name.
const ALIAS_BYTES: usize = 12;
/// Version of the seal.
const VERSION: &str = "1:";

/// Returns whether a request may have sealed reasoning, which no provider can read. Clients of Gemini have it as base64.
pub(crate) fn may_hold_sealed(body: &[u8], caller: Wire) -> bool {
    let beginning: &[u8] = match caller {
        Wire::Gemini => b"\"Z2F0ZXdheTox",
        _ => b"\"gateway:1:",
    };
    memchr::memmem::find(body, beginning).is_some()
}

/// The key that seals envelopes, the same on all nodes of a store.
#[derive(Clone)]
pub(crate) struct EnvelopeKey(Box<[u8]>);

impl EnvelopeKey {
    /// The key of the store, which is made at its first use.
    ///
    /// # Errors
    /// The store cannot be used.
    pub(crate) async fn open(database: &Database, random: &dyn Random) -> Result<Self, Error> {
        let mut new = [0; 32];
        random.fill(&mut new);
        shared_keys::shared(database, PURPOSE, &new).await.map(Self)
    }

    /// The seal of a project.
    pub(crate) fn of_project(&self, project: &str) -> Seal {
        Seal { key: self.clone(), project: project.into() }
    }
}

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvelopeKey")
    }
}

/// Seals and opens the envelopes of one project.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    key: EnvelopeKey,
    project: Box<str>,
}

impl Seal {
    /// The text for the caller in place of an envelope. It tells no caller who made it: the name of a model at its server
    /// may have the number of the operator's account.
    fn close(&self, envelope: &str) -> String {
        let hidden = Envelope::read(envelope).map(|envelope| {
            let (provider, model) = (self.alias(&envelope.provider), self.alias(&envelope.model));
            Envelope { provider, model, ..envelope }.write()
        });
        let envelope = hidden.as_deref().unwrap_or(envelope);
        let seal = URL_SAFE_NO_PAD.encode(self.mac(envelope).finalize().into_bytes());
        format!("{SEALED}{VERSION}{seal}:{envelope}")
    }

    /// The envelope in a text of a caller; `None` if this gateway has not sealed it for the project, or it was changed.
    fn open<'t>(&self, text: &'t str) -> Option<&'t str> {
        let rest = text.strip_prefix(SEALED)?.strip_prefix(VERSION)?;
        let (seal, envelope) = rest.split_once(':')?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        self.mac(envelope).verify_slice(&seal).ok()?;
        Some(envelope)
    }

    /// The envelope with the names of its maker, if that is `maker`, an upstream and a model there.
    fn named(&self, envelope: &str, (upstream, model): (&str, &str)) -> String {
        let read = Envelope::read(envelope).filter(|envelope| {
            envelope.provider == self.alias(upstream) && envelope.model == self.alias(model)
        });
        read.map_or_else(
            || envelope.to_owned(),
            |envelope| {
                let (provider, model) = (upstream.to_owned(), model.to_owned());
                Envelope { provider, model, ..envelope }.write()
            },
        )
    }

    /// A text in place of the name of an upstream or a model, for callers.
    fn alias(&self, name: &str) -> String {
        let alias = self.keyed(ALIASES).chain_update(name).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(&alias[..ALIAS_BYTES])
    }

    fn mac(&self, envelope: &str) -> Hmac<Sha256> {
        self.keyed(PURPOSE).chain_update(envelope)
    }

    fn keyed(&self, purpose: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.key.0).expect("a key of any length will do");
        let project = self.project.as_bytes();
        mac.chain_update(purpose)
            .chain_update((project.len() as u64).to_be_bytes())
            .chain_update(project)
    }

    /// Opens the envelopes of a request that was in the wire `caller`, for `target`: an upstream and a model there.
    /// Reasoning that the gateway did not give to the project is left out, with a warning.
    pub(crate) fn open_request(
        &self,
        request: &mut Request<'_>,
        (caller, target): (Wire, (&str, &str)),
        warnings: &mut Warnings,
    ) {
        for item in &mut request.input {
            let Item::Reasoning(reasoning) = item else { continue };
            let Some(text) = reasoning.encrypted.as_deref() else { continue };
            if let Some(envelope) = self.open(text).map(|envelope| self.named(envelope, target)) {
                reasoning.encrypted = Some(envelope.into());
                continue;
            }
            // The reader of the request makes envelopes of what a caller has from a server of its own wire.
            let is_own = Envelope::read(text).is_some_and(|envelope| envelope.wire == caller);
            if text.starts_with(SEALED) || (Envelope::is_tagged(text) && !is_own) {
                reasoning.encrypted = None;
                warnings.add(
                    "input[]",
                    "reasoning that was changed, or given to another project, is not sent",
                );
            }
        }
    }

    /// Passes an event of an answer on, with the reasoning in it sealed. `maker` is the wire, the upstream and the model
    /// that it comes from.
    pub(crate) fn close_event(
        &self,
        event: Event<'_>,
        (wire, provider, model): (Wire, &str, &str),
        next: &mut dyn FnMut(Event<'_>),
    ) {
        let (Event::ItemAdded { item, .. } | Event::ItemDone { item, .. }) = &event else {
            return next(event);
        };
        let OutputItem::Reasoning { id, encrypted: Some(encrypted), .. } = item else {
            return next(event);
        };
        let envelope = match wire {
            // Its decoder passes the server's own text.
            Wire::Responses => {
                let payload =
                    Payload::Encrypted { id: Some(id.clone()), content: encrypted.clone() };
                let (provider, model) = (provider.to_owned(), model.to_owned());
                Envelope { wire, provider, model, payload }.write()
            }
            _ => encrypted.clone(),
        };
        let mut sealed = (*item).clone();
        if let OutputItem::Reasoning { encrypted, .. } = &mut sealed {
            *encrypted = Some(self.close(&envelope));
        }
        next(match event {
            Event::ItemAdded { index, .. } => Event::ItemAdded { index, item: &sealed },
            Event::ItemDone { index, .. } => Event::ItemDone { index, item: &sealed },
            event => event,
        });
    }
}

/// A seal of some project.
#[cfg(test)]
pub(crate) fn test_seal() -> Seal {
    EnvelopeKey(vec![1; 32].into()).of_project("proj_a")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal(key: u8, project: &str) -> Seal {
        EnvelopeKey(vec![key; 32].into()).of_project(project)
    }

    #[test]
    fn only_the_project_and_the_key_open_an_envelope() {
        let text = seal(1, "proj_a").close("wire:1:messages:u:m:e30");
        assert!(seal(1, "proj_a").open(&text).is_some());
        assert_eq!(seal(1, "proj_b").open(&text), None);
        assert_eq!(seal(2, "proj_a").open(&text), None);
        for forged in
            ["wire:1:messages:u:m:e30", "gateway:1::wire:1:messages:u:m:e30", "gateway:1:"]
        {
            assert_eq!(seal(1, "proj_a").open(forged), None, "{forged}");
        }
    }

    #[test]
    fn requests_keep_what_was_sealed_and_lose_the_rest() {
        let own = |wire: Wire| {
            let payload = Payload::CallSignature("s".into());
            Envelope { wire, provider: "u".into(), model: "m".into(), payload }.write()
        };
        let seal = seal(1, "proj_a");
        let sealed = seal.close(&own(Wire::Gemini));
        let mut changed = sealed.clone();
        changed.push('A');
        for (text, expect, warned) in [
            (sealed, Some(own(Wire::Gemini)), 0),
            (changed, None, 1),
            (own(Wire::Gemini), None, 1),
            (own(Wire::Responses), Some(own(Wire::Responses)), 0),
            ("gAAAA".into(), Some("gAAAA".into()), 0),
        ] {
            let body = serde_json::json!({ "model": "m", "input": [
                { "type": "reasoning", "summary": [], "encrypted_content": text }] });
            let body = body.to_string();
            let (mut request, mut warnings) =
                wire::read_request(Wire::Responses, "m", body.as_bytes()).unwrap();
            seal.open_request(&mut request, (Wire::Responses, ("u", "m")), &mut warnings);
            let Item::Reasoning(reasoning) = &request.input[0] else { panic!("{request:?}") };
            assert_eq!(reasoning.encrypted.as_deref(), expect.as_deref(), "{text}");
            assert_eq!(warnings.as_slice().len(), warned, "{text}");
        }
    }

    #[test]
    fn callers_do_not_learn_who_made_it() {
        let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/x";
        let payload = Payload::CallSignature("s".into());
        let (provider, model) = ("secret-upstream".to_owned(), arn.to_owned());
        let envelope = Envelope { wire: Wire::Messages, provider, model, payload }.write();
        let (one, other) = (seal(1, "proj_a"), seal(1, "proj_b"));
        let text = one.close(&envelope);
        assert!(!text.contains("secret-upstream") && !text.contains("123456789012"), "{text}");
        assert_eq!(one.named(one.open(&text).unwrap(), ("secret-upstream", arn)), envelope);
        assert_ne!(one.alias(arn), other.alias(arn), "projects cannot compare them");
    }

    #[test]
    fn sealed_reasoning_is_found_in_the_form_of_each_wire() {
        use base64::engine::general_purpose::STANDARD;
        let sealed = test_seal().close("wire:1:messages:u:m:e30");
        for wire in Wire::ALL {
            let text = if wire == Wire::Gemini { STANDARD.encode(&sealed) } else { sealed.clone() };
            let body = serde_json::json!({ "x": [{ "y": text }] }).to_string();
            assert!(may_hold_sealed(body.as_bytes(), wire), "{body}");
            assert!(!may_hold_sealed(b"{\"x\":\"a gateway:1:\"}", wire));
        }
    }

    #[test]
    fn answers_are_sealed_whoever_made_the_reasoning() {
        let seal = seal(1, "proj_a");
        for (wire, text) in
            [(Wire::Responses, "gAAAA"), (Wire::Chat, "wire:1:chat:u:m:eyJibG9ja3MiOltdfQ")]
        {
            let item = OutputItem::Reasoning {
                id: "rs_1".into(),
                summary: Vec::new(),
                content: Vec::new(),
                encrypted: Some(text.into()),
            };
            let mut seen: Vec<String> = Vec::new();
            let event = Event::ItemDone { index: 0, item: &item };
            seal.close_event(event, (wire, "u", "m"), &mut |event| {
                let Event::ItemDone { item: OutputItem::Reasoning { encrypted, .. }, .. } = event
                else {
                    panic!("{event:?}")
                };
                seen.push(encrypted.clone().unwrap());
            });
            let opened = seal.open(&seen[0]).unwrap();
            let named = seal.named(opened, ("u", "m"));
            match wire {
                Wire::Responses => {
                    let envelope = Envelope::read(&named).unwrap();
                    assert!(envelope.is_for(wire, "u", "m"), "{envelope:?}");
                }
                _ => assert_eq!(named, text),
            }
            assert_eq!(seal.named(opened, ("u", "n")), opened);
        }
    }

    proptest! {
        #[test]
        fn any_change_is_found(text in any::<String>(), at in any::<prop::sample::Index>(), by in 1_u8..128) {
            let seal = seal(1, "proj_a");
            let sealed = seal.close(&text);
            prop_assert_eq!(seal.open(&sealed), Some(&*text));
            let mut bytes = sealed.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if let Ok(changed) = String::from_utf8(bytes) {
                prop_assert_eq!(seal.open(&changed), None);
            }
        }
    }
}
