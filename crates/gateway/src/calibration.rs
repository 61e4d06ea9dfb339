//! The number of tokens of a model's text: learnt from complete answers that report a usage, and used for those that end
//! without one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gateway_body::{Outcome, Usage};

/// Answers that are remembered of a model.
const REMEMBERED: usize = 64;
/// Shorter answers, in eighths of an estimated token, say too little.
const SHORTEST: u64 = 16 * 8;
/// Ratios are in these parts of one.
const ONE: u64 = 1024;
/// Of the remembered answers, this part needs at most the ratio that is used, so that few are charged too little.
const QUANTILE: (usize, usize) = (9, 10);

/// Tokens of a model's text for each token by the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio(u32);

impl Default for Ratio {
    /// The estimate as it is.
    fn default() -> Self {
        Self(ONE as u32)
    }
}

impl Ratio {
    /// The ratio of an answer, from a half to four; `None` where it would be mere chance.
    fn of(usage: &Usage, outcome: &Outcome) -> Option<Self> {
        // Reasoning is output, but most servers do not show it.
        let is_long = outcome.output_eighths >= SHORTEST && outcome.eighths_after_usage == 0;
        if !is_long || usage.reasoning_tokens > 0 {
            return None;
        }
        let ratio = u64::from(usage.output_tokens) * 8 * ONE / outcome.output_eighths;
        let ratio = ratio.clamp(ONE / 2, ONE * 4);
        Some(Self(u32::try_from(ratio).unwrap_or(u32::MAX)))
    }

    /// Tokens of a text that was estimated, in eighths; rounded up.
    pub(crate) fn tokens(self, eighths: u64) -> u64 {
        let whole = u128::from(eighths) * u128::from(self.0);
        u64::try_from(whole.div_ceil(u128::from(8 * ONE))).unwrap_or(u64::MAX)
    }
}

/// The ratios of all models.
#[derive(Debug, Default)]
pub(crate) struct Calibration {
    models: Mutex<HashMap<Box<str>, Remembered>>,
}

/// The ratios of a model's last answers.
#[derive(Debug, Default)]
struct Remembered {
    ring: Vec<Ratio>,
    next: usize,
    used: Ratio,
}

impl Calibration {
    /// Learns from a complete answer.
    pub(crate) fn learn(&self, model: &str, outcome: &Outcome) {
        let Some(ratio) = outcome.usage.and_then(|usage| Ratio::of(&usage, outcome)) else {
            return;
        };
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        match models.get_mut(model) {
            Some(remembered) => remembered.add(ratio),
            None => models.entry(model.into()).or_default().add(ratio),
        }
    }

    /// The ratio of a model; that of the estimate before its first long answer with a usage.
    pub(crate) fn ratio(&self, model: &str) -> Ratio {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        models.get(model).map(|remembered| remembered.used).unwrap_or_default()
    }
}

impl Remembered {
    fn add(&mut self, ratio: Ratio) {
        match self.ring.get_mut(self.next) {
            Some(place) => *place = ratio,
            None => self.ring.push(ratio),
        }
        self.next = (self.next + 1) % REMEMBERED;
        let mut sorted: Vec<u32> = self.ring.iter().map(|ratio| ratio.0).collect();
        sorted.sort_unstable();
        let at = (sorted.len() * QUANTILE.0).div_ceil(QUANTILE.1) - 1;
        self.used = Ratio(sorted[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(eighths: u64, output: u32, reasoning: u32) -> Outcome {
        let usage =
            Usage { output_tokens: output, reasoning_tokens: reasoning, ..Usage::default() };
        Outcome { usage: Some(usage), output_eighths: eighths, ..Outcome::default() }
    }

    #[test]
    fn texts_count_as_the_model_counts_them() {
        let calibration = Calibration::default();
        assert_eq!(calibration.ratio("a").tokens(800), 100);
        // Each character is a token.
        for _ in 0..3 {
            calibration.learn("a", &answer(800, 400, 0));
        }
        assert_eq!(calibration.ratio("a").tokens(800), 400);
        assert_eq!(calibration.ratio("b").tokens(800), 100);
        // Too short, with hidden reasoning, absurd.
        calibration.learn("b", &answer(100, 100, 0));
        calibration.learn("b", &answer(800, 400, 300));
        assert_eq!(calibration.ratio("b").tokens(800), 100);
        calibration.learn("b", &answer(800, 900_000, 0));
        assert_eq!(calibration.ratio("b").tokens(800), 400);
        // The model has changed.
        for _ in 0..REMEMBERED {
            calibration.learn("a", &answer(800, 80, 0));
        }
        assert_eq!(calibration.ratio("a").tokens(800), 80);
    }

    #[test]
    fn of_ten_answers_nine_are_not_charged_too_little() {
        let calibration = Calibration::default();
        for output in 101..=110 {
            calibration.learn("a", &answer(800, output, 0));
        }
        let tokens = calibration.ratio("a").tokens(800);
        assert!((109..=110).contains(&tokens), "{tokens}");
    }
}
