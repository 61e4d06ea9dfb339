//! Reads the prices of a model: amounts in USD, each above zero or the word `free`, so that no price is zero by mistake.

use ratelimit::Micros;
use toml::{Table, Value};

use super::date::midnight;
use super::error::Fault;
use crate::price::{Price, Rates, TOOLS, TokenPrices, UnitPrice, tier_name};

/// Largest amount, in USD.
const MOST: f64 = 1_000_000.0;
/// Most entries of a list.
const MANY: usize = 64;
/// Prices of tokens, without those of a long context.
const TOKENS: [&str; 9] = [
    "input",
    "cached_input",
    "cache_write",
    "cache_write_1h",
    "output",
    "input_audio",
    "input_image",
    "output_audio",
    "output_image",
];

/// Values outside of its table that a price refers to.
#[derive(Clone, Copy)]
pub(super) struct Around {
    /// `long_context_tokens` of the model.
    pub(super) long_above: Option<u64>,
    /// `[defaults] tool_calls`.
    pub(super) calls: [Option<u64>; TOOLS.len()],
}

/// The prices of a model from one date on.
pub(super) struct Dated {
    pub(super) from: Micros,
    pub(super) price: Price,
    /// Of lines of batches, by the service tier `batch`.
    pub(super) batch: Option<Price>,
}

/// A table, and its place in the file.
struct Place<'a> {
    key: Vec<String>,
    table: &'a Table,
}

impl<'a> Place<'a> {
    fn new(key: Vec<String>, value: &'a Value) -> Result<Self, Fault> {
        match value {
            Value::Table(table) => Ok(Self { key, table }),
            _ => Err(Fault { key, message: "must be a table, such as { input = 1.25 }".into() }),
        }
    }

    fn key(&self, name: &str) -> Vec<String> {
        self.key.iter().cloned().chain([name.to_owned()]).collect()
    }

    fn fault(&self, name: &str, message: impl Into<String>) -> Fault {
        Fault { key: self.key(name), message: message.into() }
    }

    /// Refuses members that are not among `known`.
    fn only(&self, known: &[&str]) -> Result<(), Fault> {
        match self.table.keys().find(|name| !known.contains(&name.as_str())) {
            Some(other) => {
                Err(self.fault(other, format!("is not known here; known are {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// An amount in millionths; `None` if it is absent.
    fn amount(&self, name: &str) -> Result<Option<u64>, Fault> {
        self.table.get(name).map(|value| amount(value, || self.key(name))).transpose()
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.table.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if (1..=100).contains(&text.len()) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "must be a text of 1 to 100 bytes")),
        }
    }

    fn table(&self, name: &str) -> Result<Option<Place<'a>>, Fault> {
        self.table.get(name).map(|value| Place::new(self.key(name), value)).transpose()
    }
}

/// An amount in millionths of a dollar. `key` names its place.
fn amount(value: &Value, key: impl Fn() -> Vec<String>) -> Result<u64, Fault> {
    let fault = |message: String| Fault { key: key(), message };
    #[allow(clippy::cast_precision_loss, reason = "larger numbers are refused")]
    let usd = match value {
        Value::String(word) if word == "free" => return Ok(0),
        Value::Integer(usd) => *usd as f64,
        Value::Float(usd) => *usd,
        _ => {
            let message = "must be an amount in USD, such as 1.25, or \"free\"";
            return Err(fault(message.into()));
        }
    };
    if usd == 0.0 {
        let message = "0 is not a price: write \"free\" if it costs nothing, or leave it out if the \
                       model does not have it";
        return Err(fault(message.into()));
    }
    if !(0.000_001..=MOST).contains(&usd) {
        let message = format!("{usd} is not a valid price: it must be 0.000001 to {MOST} USD");
        return Err(fault(message));
    }
    // Checked to be in range, so that the cast is exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok((usd * 1_000_000.0).round() as u64)
}

/// The price in the value at `key`, such as `{ input = 1.25, output = 10.0 }`, and that of lines of batches.
///
/// # Errors
/// The first mistake.
pub(super) fn resolve(
    key: &[&str],
    value: &Value,
    around: Around,
) -> Result<(Price, Option<Price>), Fault> {
    let key = key.iter().map(|part| (*part).to_owned()).collect();
    let place = Place::new(key, value)?;
    if place.table.contains_key("from") {
        return Err(place.fault("from", "belongs into an entry of `prices`"));
    }
    of_table(&place, around)
}

/// The prices in the list at `key`, in the order of their dates.
///
/// # Errors
/// The first mistake.
pub(super) fn dated(key: &[&str], value: &Value, around: Around) -> Result<Vec<Dated>, Fault> {
    let entries = match value {
        Value::Array(entries) if (1..=MANY).contains(&entries.len()) => entries,
        _ => {
            let message =
                "must be a list of prices, such as [{ from = \"2026-09-01\", input = 1.25 }]";
            return Err(Fault::new(key, message));
        }
    };
    let mut all: Vec<Dated> = Vec::new();
    for entry in entries {
        let place = Place::new(key.iter().map(|part| (*part).to_owned()).collect(), entry)?;
        let Some(date) = place.text("from")? else {
            return Err(
                place.fault("from", "is missing: each entry needs the date of its beginning")
            );
        };
        let names: Vec<String> = place.key("from");
        let from = midnight(date, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        if all.last().is_some_and(|last| last.from >= from) {
            let message = format!("{date} is not after the entry before it");
            return Err(place.fault("from", message));
        }
        let (price, batch) = of_table(&place, around)?;
        all.push(Dated { from, price, batch });
    }
    Ok(all)
}

fn of_table(place: &Place<'_>, around: Around) -> Result<(Price, Option<Price>), Fault> {
    const OTHERS: [&str; 10] = [
        "from",
        "long_context",
        "service_tiers",
        "request",
        "image",
        "audio_minute",
        "video_second",
        "training",
        "web_search",
        "tool_calls",
    ];
    let known: Vec<&str> = TOKENS.into_iter().chain(OTHERS).collect();
    place.only(&known)?;
    let mut price = Price {
        tokens: tokens(place, around)?,
        long_above: around.long_above,
        sells_input: place.table.contains_key("input"),
        sells_output: ["output", "output_audio", "output_image"]
            .iter()
            .any(|name| place.table.contains_key(*name)),
        request: place.amount("request")?,
        images: units(place, "image", &["size", "quality", "usd"])?,
        audio_minute: place.amount("audio_minute")?,
        videos: units(place, "video_second", &["size", "usd"])?,
        training: place.amount("training")?,
        calls: calls(place, around)?,
        tiers: Vec::new(),
    };
    let sells = price.sells_input
        || price.sells_output
        || price.request.is_some()
        || price.audio_minute.is_some()
        || !price.images.is_empty()
        || !price.videos.is_empty()
        || price.training.is_some();
    if !sells {
        let message = "has no price: give `input` and `output`, or what else the model sells (image, \
                       audio_minute, video_second, training, request); `free = true` in the model says that \
                       all of it costs nothing";
        return Err(Fault { key: place.key.clone(), message: message.into() });
    }
    let mut batch = None;
    for (name, value) in place.table("service_tiers")?.iter().flat_map(|tiers| tiers.table) {
        let key = || [place.key("service_tiers"), vec![name.clone()]].concat();
        let prices = service_tier(value, key, &price.tokens, around)?;
        match tier_name(name) {
            _ if name == "batch" => batch = Some(prices),
            "default" => {
                let message = "is the tier of the prices outside of `service_tiers`";
                return Err(Fault { key: key(), message: message.into() });
            }
            tier if price.tiers.iter().any(|(known, _)| **known == *tier) => {
                let message = format!("is another name of `{tier}`, which has prices already");
                return Err(Fault { key: key(), message });
            }
            tier => price.tiers.push((tier.into(), prices)),
        }
    }
    let batch = batch.map(|tokens| Price { tokens, tiers: Vec::new(), ..price.clone() });
    Ok((price, batch))
}

/// The prices of tokens in a table, with those of a long context.
fn tokens(place: &Place<'_>, around: Around) -> Result<TokenPrices, Fault> {
    let short = rates(place)?;
    let Some(long) = place.table("long_context")? else {
        return Ok(TokenPrices { short, long: None });
    };
    long.only(&TOKENS)?;
    if around.long_above.is_none() {
        let message = "needs `long_context_tokens` of the model: from there on it applies";
        return Err(place.fault("long_context", message));
    }
    for name in TOKENS.iter().filter(|name| place.table.contains_key(**name)) {
        if !long.table.contains_key(*name) {
            return Err(
                long.fault(name, "is missing, though it has a price outside of `long_context`")
            );
        }
    }
    let long_rates = rates(&long)?;
    for (name, (low, high)) in TOKENS.iter().zip(all(&short).into_iter().zip(all(&long_rates))) {
        if high < low {
            let message = "is below the price of a shorter input";
            return Err(long.fault(name, message));
        }
    }
    Ok(TokenPrices { short, long: Some(long_rates) })
}

/// In the order of [`TOKENS`].
fn all(rates: &Rates) -> [u64; TOKENS.len()] {
    [
        rates.input,
        rates.cached_input,
        rates.cache_write,
        rates.cache_write_1h,
        rates.output,
        rates.input_audio,
        rates.input_image,
        rates.output_audio,
        rates.output_image,
    ]
}

fn rates(place: &Place<'_>) -> Result<Rates, Fault> {
    let input = place.amount("input")?.unwrap_or(0);
    let output = place.amount("output")?.unwrap_or(0);
    let or = |name, default| place.amount(name).map(|amount| amount.unwrap_or(default));
    Ok(Rates {
        input,
        cached_input: or("cached_input", input)?,
        // Without a price of its own, input that is written to a cache costs what servers of Messages ask for it.
        cache_write: or("cache_write", (input * 5).div_ceil(4))?,
        cache_write_1h: or("cache_write_1h", input * 2)?,
        output,
        input_audio: or("input_audio", input)?,
        input_image: or("input_image", input)?,
        output_audio: or("output_audio", output)?,
        output_image: or("output_image", output)?,
    })
}

/// Prices of tokens in a service tier: of its own, or a factor of the usual ones.
fn service_tier(
    value: &Value,
    key: impl Fn() -> Vec<String>,
    usual: &TokenPrices,
    around: Around,
) -> Result<TokenPrices, Fault> {
    #[allow(clippy::cast_precision_loss, reason = "larger numbers are refused")]
    let factor = match value {
        Value::Integer(factor) => *factor as f64,
        Value::Float(factor) => *factor,
        value => {
            let place = Place::new(key(), value)?;
            let known: Vec<&str> = TOKENS.into_iter().chain(["long_context"]).collect();
            place.only(&known)?;
            let prices = tokens(&place, around)?;
            if usual.long.is_some() && prices.long.is_none() {
                let message = "is missing, though there is one outside of `service_tiers`";
                return Err(place.fault("long_context", message));
            }
            return Ok(prices);
        }
    };
    if !(0.001..=1000.0).contains(&factor) {
        let message = format!("{factor} is not a valid factor: it must be 0.001 to 1000");
        return Err(Fault { key: key(), message });
    }
    // A factor in millionths is exact for up to six decimals.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let millionths = (factor * 1_000_000.0).round() as u128;
    let scaled = |price: u64| {
        let product = (u128::from(price) * millionths).div_ceil(1_000_000);
        u64::try_from(product).unwrap_or(u64::MAX)
    };
    let scale = |rates: &Rates| Rates {
        input: scaled(rates.input),
        cached_input: scaled(rates.cached_input),
        cache_write: scaled(rates.cache_write),
        cache_write_1h: scaled(rates.cache_write_1h),
        output: scaled(rates.output),
        input_audio: scaled(rates.input_audio),
        input_image: scaled(rates.input_image),
        output_audio: scaled(rates.output_audio),
        output_image: scaled(rates.output_image),
    };
    Ok(TokenPrices { short: scale(&usual.short), long: usual.long.as_ref().map(scale) })
}

/// Prices by size and quality: one amount for all, or a list.
fn units(place: &Place<'_>, name: &str, known: &[&str]) -> Result<Vec<UnitPrice>, Fault> {
    let entries = match place.table.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) if (1..=MANY).contains(&entries.len()) => entries,
        Some(Value::Array(_)) => {
            return Err(place.fault(name, format!("must have 1 to {MANY} entries")));
        }
        Some(value) => {
            let price = amount(value, || place.key(name))?;
            return Ok(vec![UnitPrice { price, ..UnitPrice::default() }]);
        }
    };
    let mut all: Vec<UnitPrice> = Vec::new();
    for entry in entries {
        let entry = Place::new(place.key(name), entry)?;
        entry.only(known)?;
        let Some(price) = entry.amount("usd")? else {
            return Err(entry.fault("usd", "is missing: it is the price of one"));
        };
        let (size, quality) = (entry.text("size")?, entry.text("quality")?);
        let one = UnitPrice { size: size.map(Into::into), quality: quality.map(Into::into), price };
        if all.iter().any(|known| known.size == one.size && known.quality == one.quality) {
            let message = "has two prices for the same size and quality";
            return Err(place.fault(name, message));
        }
        all.push(one);
    }
    Ok(all)
}

fn calls(place: &Place<'_>, around: Around) -> Result<[Option<u64>; TOOLS.len()], Fault> {
    let mut all = match place.table("tool_calls")? {
        Some(table) => tool_calls(&table)?,
        None => Default::default(),
    };
    if let Some(search) = place.amount("web_search")?
        && all[0].replace(search).is_some()
    {
        let message = "is given twice: it is `tool_calls.web_search`, too";
        return Err(place.fault("web_search", message));
    }
    for (own, usual) in all.iter_mut().zip(around.calls) {
        *own = own.or(usual);
    }
    Ok(all)
}

/// `[defaults] tool_calls`.
///
/// # Errors
/// The first mistake.
pub(super) fn default_calls(value: Option<&Value>) -> Result<[Option<u64>; TOOLS.len()], Fault> {
    let Some(value) = value else { return Ok(Default::default()) };
    tool_calls(&Place::new(vec!["defaults".to_owned(), "tool_calls".to_owned()], value)?)
}

fn tool_calls(place: &Place<'_>) -> Result<[Option<u64>; TOOLS.len()], Fault> {
    place.only(&TOOLS)?;
    let mut all = [None; TOOLS.len()];
    for (own, name) in all.iter_mut().zip(TOOLS) {
        *own = place.amount(name)?;
    }
    Ok(all)
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
