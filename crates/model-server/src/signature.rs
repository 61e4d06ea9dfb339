//! Signatures of reasoning, which a client gives back unchanged. They hold what a script encrypts and a checksum of
//! what they sign, so that a server knows its own without remembering them. They are no cryptography.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The signature of a thinking block of the Messages API, which belongs to its text and its model.
pub(crate) fn of_thinking(model: &str, thinking: &str, encrypted: &str) -> String {
    sign(&["messages", model, thinking], encrypted)
}

/// True for a signature that [`of_thinking`] made.
pub(crate) fn is_of_thinking(model: &str, thinking: &str, signature: &str) -> bool {
    is_signed(&["messages", model, thinking], signature)
}

/// The signature of a thought of the Gemini API, which belongs to its model.
pub(crate) fn of_thought(model: &str, encrypted: &str) -> String {
    sign(&["gemini", model], encrypted)
}

/// True for a signature that [`of_thought`] made.
pub(crate) fn is_of_thought(model: &str, signature: &str) -> bool {
    is_signed(&["gemini", model], signature)
}

fn sign(texts: &[&str], encrypted: &str) -> String {
    let sum = checksum(texts, encrypted.as_bytes());
    STANDARD.encode([&sum.to_be_bytes()[..], encrypted.as_bytes()].concat())
}

fn is_signed(texts: &[&str], signature: &str) -> bool {
    // Some clients send the alphabet for addresses.
    let signature = signature.replace('-', "+").replace('_', "/");
    let Ok(bytes) = STANDARD.decode(signature) else { return false };
    let Some((sum, encrypted)) = bytes.split_first_chunk::<8>() else { return false };
    u64::from_be_bytes(*sum) == checksum(texts, encrypted)
}

/// FNV-1a of texts and of their lengths.
fn checksum(texts: &[&str], rest: &[u8]) -> u64 {
    let mut sum: u64 = 0xCBF2_9CE4_8422_2325;
    for text in texts.iter().map(|text| text.as_bytes()).chain([rest]) {
        for byte in (text.len() as u64).to_be_bytes().iter().chain(text) {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_belongs_to_its_text_and_its_model() {
        for encrypted in ["", "opaque"] {
            let signature = of_thinking("m", "text", encrypted);
            assert!(is_of_thinking("m", "text", &signature));
            assert!(!is_of_thinking("m", "other", &signature));
            assert!(!is_of_thinking("n", "text", &signature));
            assert!(!is_of_thought("m", &signature));
            let changed = signature.replacen(|c: char| c.is_ascii_alphabetic(), "0", 1);
            assert!(!is_of_thinking("m", "text", &changed), "{changed}");
            let thought = of_thought("m", encrypted);
            assert!(is_of_thought("m", &thought.replace('+', "-").replace('/', "_")));
            assert!(is_of_thought("m", &thought) && !is_of_thought("n", &thought));
        }
        for other in ["", "c2ln", "%", "AAAAAAAAAAA="] {
            assert!(!is_of_thought("m", other), "{other}");
        }
    }
}
