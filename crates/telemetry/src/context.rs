//! The position of a span in a trace, as the header `traceparent` carries it (W3C Trace Context, level 1).

use std::fmt;

/// The position of a span in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Never 0.
    pub trace: u128,
    /// Never 0.
    pub span: u64,
    /// True if the spans of the trace are recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// The first span of a new trace. `random` are bytes that do not repeat.
    #[must_use]
    pub fn root(random: [u8; 24]) -> Self {
        let [trace @ .., _, _, _, _, _, _, _, _] = random;
        let [.., a, b, c, d, e, f, g, h] = random;
        // Zero is not a valid id.
        let trace = u128::from_be_bytes(trace).max(1);
        Self { trace, span: span_id([a, b, c, d, e, f, g, h]), is_sampled: true }
    }

    /// A span of the same trace.
    #[must_use]
    pub fn child(self, random: [u8; 8]) -> Self {
        Self { span: span_id(random), ..self }
    }

    /// Parses the value of `traceparent`. `None` for what the standard says to ignore.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_matches([' ', '\t']).split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let lengths = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
        if !lengths.iter().all(|(part, length)| part.len() == *length && is_hex(part)) {
            return None;
        }
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok()?;
        let span = u64::from_str_radix(span, 16).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace != 0 && span != 0).then_some(Self { trace, span, is_sampled: flags & 1 == 1 })
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn span_id(random: [u8; 8]) -> u64 {
    u64::from_be_bytes(random).max(1)
}

/// The value of `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn contexts_are_parsed_and_written() {
        let context = TraceContext::parse(CALLER).unwrap();
        assert_eq!(context.to_string(), CALLER);
        assert_eq!(TraceContext::parse(&format!(" {CALLER}\t")), Some(context));
        let unsampled = TraceContext::parse(&CALLER.replace("-01", "-00")).unwrap();
        assert_eq!(unsampled, TraceContext { is_sampled: false, ..context });
        // A later version may have more parts.
        let later = format!("cc{}-what-is-next", &CALLER[2..]);
        assert_eq!(TraceContext::parse(&later), Some(context));
        for broken in [
            "",
            "00",
            &CALLER[..52],
            &format!("{CALLER}-x"),
            &CALLER.replace("00-0", "ff-0"),
            &CALLER.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn ids_are_never_zero() {
        let root = TraceContext::root([0; 24]);
        assert_eq!((root.trace, root.span, root.child([0; 8]).span), (1, 1, 1));
        assert_eq!(TraceContext::root([1; 24]).child([2; 8]).to_string(), {
            format!("00-{}-{}-01", "01".repeat(16), "02".repeat(8))
        });
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in "\\PC{0,60}") {
            let _ = TraceContext::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(trace in 1u128.., span in 1u64.., is_sampled: bool) {
            let context = TraceContext { trace, span, is_sampled };
            prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        }
    }
}
