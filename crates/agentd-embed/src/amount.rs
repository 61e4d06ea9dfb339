//! Exact amounts of money.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::Error;

/// An exact amount of at least 0, in the currency of the server: US dollars.
///
/// ```
/// use agentd_embed::Amount;
///
/// let limit: Amount = "0.50".parse()?;
/// assert!(limit < "0.505".parse()? && limit == "0.5".parse()?);
/// # Ok::<(), agentd_embed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Without leading zeros.
    whole: String,
    /// Without trailing zeros.
    fraction: String,
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let are_digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) {
            return Err(Error::InvalidArgument(format!(
                "`{text}` is not an amount of 0 or more, such as `0.50`"
            )));
        }
        Ok(Self {
            whole: whole.trim_start_matches('0').to_owned(),
            fraction: fraction.trim_end_matches('0').to_owned(),
        })
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.whole
            .len()
            .cmp(&other.whole.len())
            .then_with(|| self.whole.cmp(&other.whole))
            .then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.whole.is_empty() { "0" } else { &self.whole };
        let (point, fraction) = match self.fraction.as_str() {
            "" => ("", ""),
            fraction => (".", fraction),
        };
        write!(f, "{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_compare_as_numbers() {
        let amount = |text: &str| text.parse::<Amount>().unwrap();
        let rising = ["0", "0.000001", "0.01", "0.049", "0.05", "0.5", "1", "1.05", "9.9", "10"];
        for pair in rising.windows(2) {
            assert!(amount(pair[0]) < amount(pair[1]), "{pair:?}");
        }
        for (left, right) in [("0", "00.000"), ("1", "1.0"), ("010.50", "10.5")] {
            assert_eq!(amount(left), amount(right));
            assert_eq!(amount(left).to_string(), amount(right).to_string());
        }
        let long = format!("{}.{}", "9".repeat(40), "1".repeat(40));
        assert_eq!(amount(&long).to_string(), long);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-1", "+1", "NaN", "1e-3", ".5", "1.", "1.2.3", "1,5", " 1", "0x1"] {
            let error = text.parse::<Amount>().unwrap_err().to_string();
            assert!(error.contains("not an amount of 0 or more"), "{text}: {error}");
        }
    }
}
