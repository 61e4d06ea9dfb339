//! The cost of tokens: exact decimal arithmetic on integers, in millionths of a millionth of a US
//! dollar (*picodollars*).
//!
//! A price of one dollar for a million tokens is a million picodollars for one token, so every
//! product of tokens and a price with six decimals is an integer.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use crate::Usage;

/// Decimals of a price.
const DECIMALS: usize = 6;
/// Largest price, in dollars for a million tokens: bounds the products.
const MAX_DOLLARS: u64 = 1_000_000;
/// Picodollars of a dollar.
const DOLLAR: u128 = 1_000_000_000_000;

/// Dollars for a million tokens, with six decimals: picodollars for one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Price(u64);

/// The prices of a model's tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: Price,
    /// Input read from the provider's prompt cache; by default as other input.
    pub cached_input: Option<Price>,
    /// Input written to the provider's prompt cache; by default as other input.
    pub cache_write: Option<Price>,
    /// Input that the prompt cache keeps for an hour; by default 1.6 times `cache_write`.
    pub cache_write_1h: Option<Price>,
    /// Reasoning included.
    pub output: Price,
    /// Prices of service tiers that have others.
    #[serde(default)]
    pub tiers: BTreeMap<String, TierPrices>,
}

/// The prices of tokens in a service tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierPrices {
    pub input: Price,
    pub cached_input: Option<Price>,
    pub cache_write: Option<Price>,
    pub cache_write_1h: Option<Price>,
    pub output: Price,
}

/// The prices of input that the prompt cache has.
struct CachePrices {
    read: Option<Price>,
    write: Option<Price>,
    write_1h: Option<Price>,
}

impl Prices {
    /// Returns the cost of a response in picodollars. `None`: the tier has no price here, or the
    /// numbers are absurd.
    ///
    /// `tier` is the one that the provider names in its response, or the one that was requested.
    #[must_use]
    pub fn cost(&self, usage: &Usage, tier: Option<&str>) -> Option<i64> {
        let base = [self.input, self.output];
        let cached = CachePrices {
            read: self.cached_input,
            write: self.cache_write,
            write_1h: self.cache_write_1h,
        };
        match tier {
            None | Some("auto" | "default" | "standard") => cost(usage, base, cached),
            Some(tier) => {
                // Requests ask for `fast` what responses call `priority`.
                let other = if tier == "fast" { "priority" } else { tier };
                let prices = self.tiers.get(tier).or_else(|| self.tiers.get(other))?;
                let cached = CachePrices {
                    read: prices.cached_input,
                    write: prices.cache_write,
                    write_1h: prices.cache_write_1h,
                };
                cost(usage, [prices.input, prices.output], cached)
            }
        }
    }
}

fn cost(usage: &Usage, [input, output]: [Price; 2], cached: CachePrices) -> Option<i64> {
    let fresh = usage.input.checked_sub(usage.cached_input)?.checked_sub(usage.cache_write)?;
    let short = usage.cache_write.checked_sub(usage.cache_write_1h)?;
    let write = cached.write.unwrap_or(input);
    // Of a provider that keeps the cache for two lifetimes, the prices are 1.25 and 2 times that of the input.
    let long = |Price(write)| Price(write.saturating_mul(8).div_ceil(5));
    let write_1h = cached.write_1h.or(cached.write.map(long)).unwrap_or(input);
    let parts = [
        (fresh, input),
        (usage.cached_input, cached.read.unwrap_or(input)),
        (short, write),
        (usage.cache_write_1h, write_1h),
        (usage.output, output),
    ];
    // Each product is below 2^104.
    let sum: u128 =
        parts.into_iter().map(|(tokens, Price(one))| u128::from(tokens) * u128::from(one)).sum();
    i64::try_from(sum).ok()
}

/// Picodollars as dollars, exactly: `0.0125`, `-3`.
#[must_use]
pub fn dollars(pico: i128) -> String {
    let sign = if pico < 0 { "-" } else { "" };
    let (whole, rest) = (pico.unsigned_abs() / DOLLAR, pico.unsigned_abs() % DOLLAR);
    if rest == 0 {
        return format!("{sign}{whole}");
    }
    let digits = format!("{rest:012}");
    format!("{sign}{whole}.{}", digits.trim_end_matches('0'))
}

impl Price {
    /// A decimal number of dollars for one token, such as `0.00000125`.
    pub(crate) fn of_token(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 2 * DECIMALS {
            return None;
        }
        // The price of a million tokens is at most MAX_DOLLARS, that of one a dollar.
        let whole: u64 = whole.parse().ok().filter(|dollars| *dollars <= 1)?;
        let decimals: u64 = format!("{decimals:0<width$}", width = 2 * DECIMALS).parse().ok()?;
        let pico = whole * 10_u64.pow(2 * DECIMALS as u32) + decimals;
        (pico <= MAX_DOLLARS * 10_u64.pow(DECIMALS as u32)).then_some(Self(pico))
    }

    /// A decimal number of dollars for a million tokens, such as `1.25`.
    fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS {
            return None;
        }
        let whole: u64 = whole.parse().ok().filter(|dollars| *dollars <= MAX_DOLLARS)?;
        let decimals: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
        Some(Self(whole * 10_u64.pow(DECIMALS as u32) + decimals))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&dollars(i128::from(self.0) * 1_000_000))
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Price {
    /// From a string or a number, whose digits are read as they are written.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        Self::parse(text).ok_or_else(|| {
            D::Error::custom(format!(
                "a price is a decimal number of US dollars for a million tokens with at most \
                 {DECIMALS} decimals, such as \"1.25\", up to {MAX_DOLLARS}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prices(json: &str) -> Prices {
        serde_json::from_str(json).unwrap()
    }

    fn usage(input: u64, cached_input: u64, cache_write: u64, output: u64) -> Usage {
        Usage { input, cached_input, cache_write, output, ..Usage::default() }
    }

    #[test]
    fn costs_are_exact() {
        let prices = prices(
            r#"{"input": "1.25", "cached_input": 0.125, "cache_write": "1.5625", "output": 10,
                "tiers": {"flex": {"input": "0.625", "output": "5"},
                          "priority": {"input": "2.5", "output": "20"}}}"#,
        );
        let check = |usage: Usage, tier: Option<&str>, expected: Option<&str>| {
            let cost = prices.cost(&usage, tier).map(|pico| dollars(pico.into()));
            assert_eq!(cost.as_deref(), expected, "{usage:?} {tier:?}");
        };
        check(usage(0, 0, 0, 0), None, Some("0"));
        check(usage(1, 0, 0, 0), None, Some("0.00000125"));
        check(usage(1_000_000, 0, 0, 1_000_000), Some("default"), Some("11.25"));
        check(usage(1000, 900, 0, 10), None, Some("0.0003375"));
        check(usage(1000, 0, 1000, 0), None, Some("0.0015625"));
        // Of the written tokens 600 stay for an hour: 400 · 1.5625 + 600 · 2.5.
        let hour = Usage { cache_write_1h: 600, ..usage(1000, 0, 1000, 0) };
        check(hour, None, Some("0.002125"));
        check(Usage { cache_write_1h: 1001, ..hour }, None, None);
        check(hour, Some("flex"), Some("0.000625"));
        check(usage(1000, 500, 0, 10), Some("flex"), Some("0.000675"));
        check(usage(1000, 0, 0, 0), Some("fast"), Some("0.0025"));
        check(usage(1000, 0, 0, 0), Some("scale"), None);
        check(usage(1, 2, 0, 0), None, None);
        check(usage(u64::MAX, 0, 0, u64::MAX), None, None);
    }

    #[test]
    fn prices_are_decimals_of_bounded_size() {
        for bad in
            [r#""""#, r#""-1""#, "-1", "1e3", r#""1.0000001""#, "1000001", "null", "[]", "true"]
        {
            let json = format!(r#"{{"input": {bad}, "output": 1}}"#);
            let error = serde_json::from_str::<Prices>(&json).unwrap_err().to_string();
            assert!(error.contains("such as \"1.25\""), "{bad}: {error}");
        }
        assert!(serde_json::from_str::<Prices>(r#"{"input": 1}"#).is_err());
        assert!(
            serde_json::from_str::<Prices>(r#"{"input": 1, "output": 1, "outptu": 1}"#).is_err()
        );
        assert_eq!(
            prices(r#"{"input": 0.000001, "output": "1000000"}"#).input.to_string(),
            "0.000001"
        );
    }

    #[test]
    fn a_price_for_one_token_is_that_of_a_million() {
        let check = |text: &str, expect: Option<&str>| {
            let price = Price::of_token(text).map(|price| price.to_string());
            assert_eq!(price.as_deref(), expect, "{text}");
        };
        check("0.00000125", Some("1.25"));
        check("0", Some("0"));
        check("0.0000000001", Some("0.0001"));
        check("1", Some("1000000"));
        for bad in ["-1", "", ".", "1e-7", "0.0000000000001", "1.000001", "2", "x", "0."] {
            check(bad, None);
        }
        let prices =
            prices(r#"{"input": "1.25", "output": 3, "tiers": {"a": {"input": 1, "output": 2}}}"#);
        let text = serde_json::to_string(&prices).unwrap();
        assert_eq!(serde_json::from_str::<Prices>(&text).unwrap(), prices);
    }

    proptest! {
        #[test]
        fn a_price_is_shown_as_it_was_written(whole in 0..=1_000_000_u64, rest in 0..1_000_000_u64) {
            let text = format!("{whole}.{rest:06}");
            let shown = Price::parse(&text).map(|price| price.to_string());
            if whole < 1_000_000 || rest == 0 {
                let expected = text.trim_end_matches('0').trim_end_matches('.');
                prop_assert_eq!(shown.as_deref(), Some(expected));
            }
        }

        #[test]
        fn a_sum_of_costs_is_the_cost_of_the_sum(
            a in 0..1_000_000_u64, b in 0..1_000_000_u64, out in 0..1_000_000_u64,
        ) {
            let prices = prices(r#"{"input": "1.234567", "output": "9.876543"}"#);
            let one = |tokens| prices.cost(&usage(tokens, 0, 0, out), None).unwrap();
            let both = prices.cost(&usage(a + b, 0, 0, 2 * out), None).unwrap();
            prop_assert_eq!(one(a) + one(b), both);
        }
    }
}
