//! Shares of the places of a backend: while others use it as well, no organization and no project can hold all of them.

use std::collections::HashMap;

use ratelimit::SteadyTime;

/// Time for which one that has asked for a place counts as using the backend.
const RECENT: u64 = 60_000_000;
/// Most places that one may hold for each that is free, while others use the backend as well.
const FOR_EACH_FREE: u64 = 7;

/// The organization and the project of a request that asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester<'a> {
    /// The organization's id.
    pub organization: &'a str,
    /// The project's id.
    pub project: &'a str,
}

/// The places that organizations and projects hold at a backend, and which of them have asked for one of late.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    organizations: Holders,
    projects: Holders,
}

/// The places of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// All of them.
    pub all: u32,
    /// Those that requests hold.
    pub held: u32,
}

impl Shares {
    /// Notes that `requester` looks for a place.
    pub fn ask(&mut self, requester: Requester<'_>, now: SteadyTime) {
        self.organizations.ask(requester.organization, now);
        self.projects.ask(requester.project, now);
    }

    /// Returns whether `requester` may take one more of `places`. The first one is always allowed where one is free.
    /// Further ones are while no other organization and no other project uses the backend, and otherwise while seven
    /// for each free place are more than it holds.
    #[must_use]
    pub fn allow(&self, requester: Requester<'_>, places: Places, now: SteadyTime) -> bool {
        self.organizations.allow(requester.organization, places, now)
            && self.projects.allow(requester.project, places, now)
    }

    /// Notes that `requester` has taken a place.
    pub fn take(&mut self, requester: Requester<'_>) {
        self.organizations.take(requester.organization);
        self.projects.take(requester.project);
    }

    /// Notes that `requester` has given a place back.
    pub fn give_back(&mut self, requester: Requester<'_>) {
        self.organizations.give_back(requester.organization);
        self.projects.give_back(requester.project);
    }
}

/// Holders of places of one kind.
#[derive(Clone, Debug, Default)]
struct Holders {
    held: HashMap<Box<str>, u32>,
    /// The two that asked last, the last one first: one of them is another than any given one.
    recent: Vec<(Box<str>, SteadyTime)>,
}

impl Holders {
    fn ask(&mut self, id: &str, now: SteadyTime) {
        match self.recent.iter().position(|(known, _)| **known == *id) {
            Some(at) => {
                self.recent[at].1 = now;
                self.recent.swap(0, at);
            }
            None => {
                self.recent.insert(0, (id.into(), now));
                self.recent.truncate(2);
            }
        }
    }

    fn allow(&self, id: &str, places: Places, now: SteadyTime) -> bool {
        let free = u64::from(places.all.saturating_sub(places.held));
        let own = self.held.get(id).copied().unwrap_or_default();
        let is_alone = own == places.held && !self.others_ask(id, now);
        free > 0 && (own == 0 || is_alone || (free > 1 && u64::from(own) < FOR_EACH_FREE * free))
    }

    fn others_ask(&self, id: &str, now: SteadyTime) -> bool {
        let mut others = self.recent.iter().filter(|(known, _)| **known != *id);
        others.any(|(_, at)| now < at.after(RECENT))
    }

    fn take(&mut self, id: &str) {
        match self.held.get_mut(id) {
            Some(held) => *held += 1,
            None => drop(self.held.insert(id.into(), 1)),
        }
    }

    fn give_back(&mut self, id: &str) {
        match self.held.get_mut(id) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.held.remove(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Requester<'_> = Requester { organization: "a", project: "a1" };
    const A2: Requester<'_> = Requester { organization: "a", project: "a2" };
    const B: Requester<'_> = Requester { organization: "b", project: "b1" };

    struct Backend {
        shares: Shares,
        places: Places,
        now: SteadyTime,
    }

    impl Backend {
        fn new(all: u32) -> Self {
            let places = Places { all, held: 0 };
            Self { shares: Shares::default(), places, now: SteadyTime::from_micros(1) }
        }

        fn ask(&mut self, requester: Requester<'_>) -> bool {
            self.shares.ask(requester, self.now);
            let is_allowed = self.shares.allow(requester, self.places, self.now);
            if is_allowed {
                self.shares.take(requester);
                self.places.held += 1;
            }
            is_allowed
        }

        fn end(&mut self, requester: Requester<'_>) {
            self.shares.give_back(requester);
            self.places.held -= 1;
        }

        /// Asks until it is refused; returns how many places it got.
        fn fill(&mut self, requester: Requester<'_>) -> u32 {
            (0..).take_while(|_| self.ask(requester)).count().try_into().expect("few")
        }
    }

    #[test]
    fn one_that_is_alone_gets_all_places() {
        for all in [1, 2, 8, 100] {
            assert_eq!(Backend::new(all).fill(A), all);
        }
    }

    #[test]
    fn others_that_use_it_find_a_place() {
        for (all, most) in [(1, 0), (2, 1), (3, 2), (12, 11), (100, 88)] {
            for other in [A2, B] {
                let mut backend = Backend::new(all);
                assert!(backend.ask(other));
                if all > 1 {
                    backend.end(other);
                }
                assert_eq!(backend.fill(A), most, "of {all}");
                assert!(all == 1 || backend.ask(other));
            }
        }
    }

    #[test]
    fn one_that_has_asked_finds_a_place_once_others_end() {
        let mut backend = Backend::new(12);
        assert_eq!(backend.fill(A), 12);
        assert!(!backend.ask(B));
        backend.end(A);
        assert!(!backend.ask(A));
        assert!(backend.ask(B));
    }

    #[test]
    fn shares_of_two_that_want_all_become_equal() {
        let mut backend = Backend::new(64);
        backend.fill(A);
        let mut held = [64, 0];
        for round in 0..2000 {
            // What ends is of either by its share.
            let at = usize::from(round * 7919 % (held[0] + held[1]) >= held[0]);
            backend.end([A, B][at]);
            held[at] -= 1;
            for (at, one) in [A, B].into_iter().enumerate() {
                held[at] += usize::try_from(backend.fill(one)).expect("few");
            }
        }
        assert!(held.iter().all(|one| (24..=40).contains(one)), "{held:?}");
    }

    #[test]
    fn one_that_has_not_asked_for_a_minute_counts_no_longer() {
        let mut backend = Backend::new(12);
        assert!(backend.ask(B));
        backend.end(B);
        backend.now = backend.now.after(RECENT - 1);
        assert_eq!(backend.fill(A), 11);
        backend.now = backend.now.after(1);
        assert!(backend.ask(A));
    }

    proptest! {
        /// No matter who asks and ends in which order: one that holds nothing gets a free place, no place is given
        /// twice, and nothing is remembered of those that hold nothing but the last two that asked.
        #[test]
        fn free_places_are_for_those_without(
            all in 1..40_u32, steps in proptest::collection::vec((0..6_u8, any::<bool>(), 0..90_u64), 1..300),
        ) {
            let ids: Vec<String> = (0..6).map(|one| format!("o{one}")).collect();
            let mut backend = Backend::new(all);
            let mut held = [0_u32; 6];
            for (who, ends, seconds) in steps {
                let id = &ids[usize::from(who)];
                let one = Requester { organization: id, project: id };
                let held = &mut held[usize::from(who)];
                backend.now = backend.now.after(seconds * 1_000_000);
                if ends && *held > 0 {
                    backend.end(one);
                    *held -= 1;
                } else {
                    let is_free = backend.places.held < all;
                    let is_allowed = backend.ask(one);
                    prop_assert!(is_free || !is_allowed);
                    prop_assert!(!is_free || *held > 0 || is_allowed);
                    *held += u32::from(is_allowed);
                }
            }
            prop_assert_eq!(backend.places.held, held.iter().sum::<u32>());
            let holding = held.iter().filter(|one| **one > 0).count();
            prop_assert_eq!(backend.shares.organizations.held.len(), holding);
            prop_assert!(backend.shares.projects.recent.len() <= 2);
        }
    }
}
