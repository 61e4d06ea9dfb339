//! Prices of models, and the cost of what a request used (specification: Limits). Pure arithmetic in exact integers,
//! rounded up once for each request.

mod asked;
mod units;

use serde::{Deserialize, Serialize};

pub use asked::{Asked, Reported, Sells};
pub use units::UnitPrice;

use crate::tenants::MicroDollars;

/// The tools of servers whose calls have prices, in the order of [`Quantities::calls`].
pub const TOOLS: [&str; 4] = ["web_search", "file_search", "code_interpreter", "image_generation"];

/// The service tier that a request without one has, and its other names.
const STANDARD: [&str; 5] = ["default", "standard", "standard_only", "on_demand", "batch"];

/// Prices of tokens, each in millionths of a micro-dollar, so that a price in USD per million tokens converts exactly,
/// up to six decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Rates {
    pub input: u64,
    /// Of input that was read from a cache.
    pub cached_input: u64,
    /// Of input that was written to a cache for five minutes.
    pub cache_write: u64,
    /// Of input that was written to a cache for an hour.
    pub cache_write_1h: u64,
    pub output: u64,
    pub input_audio: u64,
    pub input_image: u64,
    pub output_audio: u64,
    pub output_image: u64,
}

/// The prices of tokens in one service tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenPrices {
    /// Up to [`Price::long_above`] tokens of input.
    pub short: Rates,
    /// Above, if that has other prices: none is lower.
    pub long: Option<Rates>,
}

/// Everything that one model sells, at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    /// Tokens, in the standard service tier.
    pub tokens: TokenPrices,
    /// The same in other service tiers, by their names.
    pub tiers: Vec<(Box<str>, TokenPrices)>,
    /// An input of more tokens has the prices of a long context.
    pub long_above: Option<u64>,
    /// True if input tokens have a price, or are free by name.
    pub sells_input: bool,
    /// The same of output tokens.
    pub sells_output: bool,
    /// Of each request, in micro-dollars.
    pub request: Option<MicroDollars>,
    /// Of each image. They replace the price of output tokens.
    pub images: Vec<UnitPrice>,
    /// Of each minute of audio input, in micro-dollars.
    pub audio_minute: Option<MicroDollars>,
    /// Of each second of video. They replace the price of output tokens.
    pub videos: Vec<UnitPrice>,
    /// Of each token that a fine-tuning job trains, in millionths of a micro-dollar.
    pub training: Option<u64>,
    /// Of each call of a tool of the server, by [`TOOLS`].
    pub calls: [Option<MicroDollars>; TOOLS.len()],
}

/// The quantities that a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantities {
    /// All input tokens: the five kinds below are parts of it.
    pub input: u64,
    /// Of these, read from a cache.
    pub cached: u64,
    /// Of these, written to a cache for five minutes.
    pub cache_write: u64,
    /// Of these, written to a cache for an hour.
    pub cache_write_1h: u64,
    /// Of these, audio.
    pub input_audio: u64,
    /// Of these, images.
    pub input_image: u64,
    /// Output tokens, with reasoning.
    pub output: u64,
    /// Of these, audio.
    pub output_audio: u64,
    /// Of these, images.
    pub output_image: u64,
    /// Calls of the server's own tools, by [`TOOLS`].
    pub calls: [u64; TOOLS.len()],
    /// Images made.
    pub images: u64,
    /// Audio input, in milliseconds.
    pub audio_milliseconds: u64,
    /// Video made, in milliseconds.
    pub video_milliseconds: u64,
    /// Tokens that a fine-tuning job has trained, which no limit of tokens counts.
    pub trained: u64,
}

impl Quantities {
    /// These numbers of tokens, nothing of them cached.
    #[must_use]
    pub fn of_tokens(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Input and output tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Web searches of the server.
    #[must_use]
    pub fn web_searches(&self) -> u64 {
        self.calls[0]
    }
}

impl From<Rates> for Price {
    /// A price of tokens alone.
    fn from(short: Rates) -> Self {
        let tokens = TokenPrices { short, long: None };
        Self { tokens, sells_input: true, sells_output: true, ..Self::default() }
    }
}

impl Rates {
    /// The cost in millionths of a micro-dollar.
    fn cost(&self, used: &Quantities, asked: &Asked) -> u128 {
        let cached = used.cached.min(used.input);
        let write_1h = used.cache_write_1h.min(used.input - cached);
        let write = used.cache_write.min(used.input - cached - write_1h);
        let plain = used.input - cached - write_1h - write;
        let heard = used.input_audio.min(plain);
        let seen = used.input_image.min(plain - heard);
        let spoken = used.output_audio.min(used.output);
        let drawn = used.output_image.min(used.output - spoken);
        let is_told = spoken + drawn > 0;
        let written = used.output - spoken - drawn;
        let output = match asked.sells {
            Sells::Images if !is_told => self.output.max(self.output_image),
            Sells::Speech if !is_told => self.output.max(self.output_audio),
            _ => self.output,
        };
        let parts = [
            (plain - heard - seen, self.input),
            (heard, self.input_audio),
            (seen, self.input_image),
            (cached, self.cached_input),
            (write, self.cache_write),
            (write_1h, self.cache_write_1h),
            (written, output),
            (spoken, self.output_audio),
            (drawn, self.output_image),
        ];
        let part = |(count, price): (u64, u64)| u128::from(count) * u128::from(price);
        parts.map(part).iter().fold(0_u128, |sum, part| sum.saturating_add(*part))
    }

    /// The dearest that input and output tokens of such a request can be.
    fn dearest(&self, asked: &Asked) -> Self {
        let mut input = self.input.max(self.cached_input);
        let mut output = self.output;
        if asked.marks_cache {
            input = input.max(self.cache_write);
        }
        if asked.marks_hour {
            input = input.max(self.cache_write_1h);
        }
        if asked.has_audio || matches!(asked.sells, Sells::Audio | Sells::Speech) {
            input = input.max(self.input_audio);
            output = output.max(self.output_audio);
        }
        if asked.sells == Sells::Images {
            input = input.max(self.input_image);
            output = output.max(self.output_image);
        }
        Self { input, output, ..Self::default() }
    }
}

impl TokenPrices {
    /// The prices for that much input.
    fn of(&self, input: u64, long_above: Option<u64>) -> &Rates {
        let is_long = long_above.is_some_and(|most| input > most);
        self.long.as_ref().filter(|_| is_long).unwrap_or(&self.short)
    }
}

impl Price {
    /// The cost of these quantities, rounded up: in the service tier, size and quality that the answer reported, if the
    /// request allows them.
    #[must_use]
    pub fn cost_of(&self, used: &Quantities, asked: &Asked, reported: &Reported) -> MicroDollars {
        let used = self.billed(used, asked);
        let reported_tier = reported.tier.as_deref().map(tier_name);
        let possible = self.possible_tiers(asked);
        let cost = |name: &str| self.tier(name).of(used.input, self.long_above).cost(&used, asked);
        let tokens = match (reported_tier, &asked.tier) {
            (Some(reported), _) if possible.contains(&reported) => cost(reported),
            // A tier that was not asked for and has no price.
            (Some(_), _) => possible.iter().map(|name| cost(name)).max().unwrap_or(0),
            (None, Some(asked)) => cost(tier_name(asked)),
            (None, None) => cost(STANDARD[0]),
        };
        self.total(tokens, &used, asked, reported)
    }

    /// The most that a request may cost that uses at most these quantities, of which only the sums of input and output
    /// tokens count: all of them at the dearest price that may apply.
    #[must_use]
    pub fn most(&self, bound: &Quantities, asked: &Asked) -> MicroDollars {
        let tokens = |rates: &Rates| {
            let sums = Quantities::of_tokens(bound.input, bound.output);
            rates.dearest(asked).cost(&self.billed(&sums, asked), asked)
        };
        let is_long = self.long_above.is_some_and(|most| bound.input > most);
        let of_tier = |name: &&str| {
            let prices = self.tier(name);
            let long = prices.long.as_ref().filter(|_| is_long).map_or(0, tokens);
            tokens(&prices.short).max(long)
        };
        let most = self.possible_tiers(asked).iter().map(of_tier).max().unwrap_or(0);
        self.total(most, bound, asked, &Reported::default())
    }

    /// The most that such a request may still cost, once its input is known.
    #[must_use]
    pub fn most_with_input(
        &self,
        known: &Quantities,
        bound: &Quantities,
        asked: &Asked,
    ) -> MicroDollars {
        let still = Quantities {
            output: bound.output,
            output_audio: 0,
            output_image: 0,
            calls: std::array::from_fn(|tool| known.calls[tool].max(bound.calls[tool])),
            images: bound.images,
            audio_milliseconds: bound.audio_milliseconds,
            video_milliseconds: bound.video_milliseconds,
            trained: bound.trained,
            ..*known
        };
        let still = self.billed(&still, asked);
        let of_tier = |name: &&str| {
            let rates = self.tier(name).of(still.input, self.long_above);
            let output = rates.dearest(asked).output;
            Rates { output, ..*rates }.cost(&still, asked)
        };
        let most = self.possible_tiers(asked).iter().map(of_tier).max().unwrap_or(0);
        self.total(most, &still, asked, &Reported::default())
    }

    /// The quantities of these that are charged by the token.
    fn billed(&self, used: &Quantities, asked: &Asked) -> Quantities {
        match self.is_by_unit(asked.sells) {
            false => *used,
            true => Quantities { output: 0, output_audio: 0, output_image: 0, ..*used },
        }
    }

    /// Returns whether images or seconds of video have prices, in place of the tokens of the output.
    #[must_use]
    pub fn is_by_unit(&self, sells: Sells) -> bool {
        match sells {
            Sells::Images => !self.images.is_empty(),
            Sells::Video => !self.videos.is_empty(),
            _ => false,
        }
    }

    /// The service tiers in which such a request may be answered.
    fn possible_tiers<'a>(&'a self, asked: &'a Asked) -> Vec<&'a str> {
        match asked.tier.as_deref().map(tier_name) {
            // The server decides.
            None => {
                let named = self.tiers.iter().map(|(name, _)| &**name);
                std::iter::once(STANDARD[0]).chain(named).collect()
            }
            Some(name) if name == STANDARD[0] => vec![name],
            Some(name) => vec![STANDARD[0], name],
        }
    }

    fn tier(&self, name: &str) -> &TokenPrices {
        let named = self.tiers.iter().find(|(known, _)| **known == *name);
        named.map_or(&self.tokens, |(_, prices)| prices)
    }

    /// The sum of the cost of tokens, in millionths of a micro-dollar, and of everything else.
    fn total(
        &self,
        tokens: u128,
        used: &Quantities,
        asked: &Asked,
        reported: &Reported,
    ) -> MicroDollars {
        const MILLION: u128 = 1_000_000;
        const MINUTE: u128 = 60_000;
        let product = |count: u64, price: u64| u128::from(count).saturating_mul(price.into());
        let mut whole = u128::from(self.request.unwrap_or(0));
        for (count, price) in used.calls.into_iter().zip(self.calls) {
            whole = whole.saturating_add(product(count, price.unwrap_or(0)));
        }
        if asked.sells == Sells::Images {
            let price = units::price(&self.images, asked, reported).unwrap_or(0);
            whole = whole.saturating_add(product(used.images, price));
        }
        let audio = product(used.audio_milliseconds, self.audio_minute.unwrap_or(0));
        let video =
            units::price(&self.videos, asked, reported).filter(|_| asked.sells == Sells::Video);
        // A price per second is sixty of those per minute.
        let video = product(used.video_milliseconds, video.unwrap_or(0)).saturating_mul(60);
        let trained = product(used.trained, self.training.unwrap_or(0));
        let parts = [
            tokens.saturating_add(trained).saturating_mul(MINUTE),
            audio.saturating_add(video).saturating_mul(MILLION),
            whole.saturating_mul(MILLION * MINUTE),
        ];
        let sum = parts.iter().fold(0_u128, |sum, part| sum.saturating_add(*part));
        u64::try_from(sum.div_ceil(MILLION * MINUTE)).unwrap_or(u64::MAX)
    }

    /// The key of the price that such a request needs, where it has none. `calls` are the tools that it offers.
    #[must_use]
    pub fn missing(&self, asked: &Asked, calls: &[bool; TOOLS.len()]) -> Option<String> {
        if let Some(tool) =
            (0..TOOLS.len()).find(|tool| calls[*tool] && self.calls[*tool].is_none())
        {
            return Some(format!("tool_calls.{}", TOOLS[tool]));
        }
        if let Some(tier) = asked.tier.as_deref().map(tier_name)
            && tier != STANDARD[0]
            && !self.tiers.iter().any(|(name, _)| **name == *tier)
        {
            return Some(format!("service_tiers.{tier}"));
        }
        let is_flat = self.request.is_some() && !self.sells_input && !self.sells_output;
        let has_units = |list: &[UnitPrice]| match list {
            [] => is_flat || self.sells_output,
            list => units::price(list, asked, &Reported::default()).is_some(),
        };
        let (is_there, key) = match asked.sells {
            Sells::Text if !self.sells_input => (is_flat, "input"),
            Sells::Text => (self.sells_output, "output"),
            Sells::Input => (is_flat || self.sells_input, "input"),
            Sells::Speech => (is_flat || self.sells_output, "output"),
            Sells::Audio => {
                let by_token = self.sells_input && self.sells_output;
                (is_flat || by_token || self.audio_minute.is_some(), "audio_minute")
            }
            Sells::Images => (has_units(&self.images), "image"),
            Sells::Video => (has_units(&self.videos), "video_second"),
            Sells::Training => (self.training.is_some(), "training"),
        };
        (!is_there).then(|| key.to_owned())
    }
}

/// The name by which a service tier has its price: some have several.
#[must_use]
pub fn tier_name(name: &str) -> &str {
    match name {
        "fast" => "priority",
        name if STANDARD.contains(&name) => STANDARD[0],
        name => name,
    }
}

#[cfg(test)]
#[path = "price/price_tests.rs"]
mod tests;
