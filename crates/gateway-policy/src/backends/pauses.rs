//! Models that a backend does not serve for a while, because it answered that it has too many requests. Other models of
//! the backend are not concerned: servers limit each by itself.

use std::time::Duration;

use ratelimit::SteadyTime;

/// Most models with a pause. When full, the one that ends first makes room.
const MOST: usize = 256;
/// The pause of an answer that names none.
const USUAL: Duration = Duration::from_secs(1);
/// The longest pause, whatever the backend asks for: after it, one more request finds out.
const LONGEST: Duration = Duration::from_secs(60);

/// The pauses of a backend's models.
#[derive(Clone, Debug, Default)]
pub struct Pauses(Vec<(Box<str>, SteadyTime)>);

impl Pauses {
    /// The end of a model's pause, if it has one.
    #[must_use]
    pub fn of(&self, model: &str, now: SteadyTime) -> Option<SteadyTime> {
        let found = self.0.iter().find(|(paused, _)| **paused == *model);
        found.map(|(_, until)| *until).filter(|until| *until > now)
    }

    /// Pauses a model for as long as the backend asks. Returns for how long.
    pub fn begin(&mut self, model: &str, asked: Option<Duration>, now: SteadyTime) -> Duration {
        let time = asked.unwrap_or(USUAL).min(LONGEST);
        let until = now.after(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        self.0.retain(|(paused, end)| *end > now && **paused != *model);
        if self.0.len() >= MOST
            && let Some((first, _)) = self.0.iter().enumerate().min_by_key(|(_, (_, end))| *end)
        {
            self.0.swap_remove(first);
        }
        self.0.push((model.into(), until));
        time
    }

    /// The model was served.
    pub fn end(&mut self, model: &str) {
        self.0.retain(|(paused, _)| **paused != *model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> SteadyTime {
        SteadyTime::from_micros(micros)
    }

    #[test]
    fn a_pause_is_of_one_model_and_bounded() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.begin("a", Some(Duration::from_secs(7)), at(0)), Duration::from_secs(7));
        assert_eq!(pauses.begin("b", None, at(0)), USUAL);
        assert_eq!(pauses.begin("c", Some(Duration::MAX), at(0)), LONGEST);
        assert_eq!(pauses.of("a", at(6_999_999)), Some(at(7_000_000)));
        assert_eq!((pauses.of("a", at(7_000_000)), pauses.of("d", at(0))), (None, None));
        assert_eq!(pauses.of("c", at(59_999_999)), Some(at(60_000_000)));
        pauses.end("c");
        assert_eq!(pauses.of("c", at(0)), None);
        for number in 0..2 * MOST {
            pauses.begin(&number.to_string(), Some(Duration::from_secs(5)), at(0));
        }
        assert_eq!(pauses.0.len(), MOST);
        pauses.begin("last", None, at(10_000_000));
        assert_eq!(pauses.0.len(), 1, "what is over makes room");
    }
}
