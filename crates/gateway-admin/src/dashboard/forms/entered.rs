//! The values of a form that was sent.

use axum::extract::Request;
use serde_json::Value;

use super::super::form_body;
use super::super::origin::is_own;
use super::super::page::Failure;
use super::form::Errors;
use super::visit::Visit;

/// Largest form, in bytes: a list of all models of a large configuration.
const MAX_FORM: usize = 256 << 10;
/// The largest amount that is read, in cents, so that no sum overflows. The API's is smaller.
const MAX_CENTS: u64 = 1_000_000_000_000_000;

/// The values of a form that was sent, with a valid token.
pub(super) struct Entered {
    pairs: Vec<(String, String)>,
    /// The number of the form.
    pub(super) number: Box<str>,
}

impl Entered {
    /// Reads a form.
    ///
    /// # Errors
    /// It is from another site, has no valid token, or cannot be read.
    pub(super) async fn read(visit: &Visit, request: Request) -> Result<Self, Failure> {
        is_own(request.headers())?;
        let pairs: Vec<(String, String)> =
            form_body::read(&visit.context, request, MAX_FORM).await?;
        let mut entered = Self { pairs, number: "".into() };
        let number = visit.access.forms.open(entered.one("form"), &visit.path, visit.seconds());
        entered.number = number.ok_or(Failure::Forged)?;
        Ok(entered)
    }

    /// The token.
    pub(super) fn token(&self) -> &str {
        self.one("form")
    }

    /// The only value of a field, without spaces around it; empty if it is missing.
    pub(super) fn one(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// All values of a field.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let found = self.pairs.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.trim())
    }

    /// The value as the API takes it: a number if it is one, null if it is empty. The API says why
    /// it refuses others.
    pub(super) fn count(&self, name: &str) -> Value {
        let text = self.one(name);
        let digits: String = text.chars().filter(|c| !matches!(c, ',' | ' ' | '_')).collect();
        match (text, digits.parse::<u64>()) {
            ("", _) => Value::Null,
            (_, Ok(number)) => number.into(),
            (_, Err(_)) => text.into(),
        }
    }

    /// An amount of dollars as cents; `None` if it is empty.
    pub(super) fn cents(&self, name: &str) -> Result<Option<i64>, Errors> {
        let text = self.one(name);
        let wrong = || Errors::of_field(name, "Expected an amount such as 1,250 or 12.50.");
        match text {
            "" => Ok(None),
            _ => cents(text).map(Some).ok_or_else(wrong),
        }
    }
}

/// Reads `1,250`, `$12.5` and `-0.05`.
fn cents(text: &str) -> Option<i64> {
    let (is_negative, text) = match text.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let text = text.trim().strip_prefix('$').unwrap_or(text).trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let whole: String = whole.chars().filter(|c| !matches!(c, ',' | ' ' | '_')).collect();
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(&whole) || !are_digits(part) || part.len() > 2 {
        return None;
    }
    let part: u64 = format!("{part:0<2}").parse().ok()?;
    let cents = whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)?;
    let cents = i64::try_from(cents).ok().filter(|_| cents <= MAX_CENTS)?;
    Some(if is_negative { -cents } else { cents })
}

/// An amount as [`Entered::cents`] reads it.
pub(super) fn dollars(cents: u64) -> String {
    match cents % 100 {
        0 => (cents / 100).to_string(),
        rest => format!("{}.{rest:02}", cents / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_read_exactly() {
        let check = |text, expected| assert_eq!(cents(text), expected, "{text}");
        check("12", Some(1200));
        check("12.5", Some(1250));
        check("$1,250.05", Some(125_005));
        check("-0.05", Some(-5));
        check("\u{2212}3", Some(-300));
        check("0", Some(0));
        for wrong in ["", "-", "1.234", "1,5.x", "1e3", ".5", "5.", "NaN", "--1", "+1", "1.-5"] {
            check(wrong, None);
        }
        check("99999999999999999999", None);
        check("10000000000000.01", None);
    }

    proptest! {
        #[test]
        fn amounts_are_written_as_they_are_read(amount in 0..MAX_CENTS) {
            prop_assert_eq!(cents(&dollars(amount)), i64::try_from(amount).ok());
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = cents(&text);
        }
    }
}
