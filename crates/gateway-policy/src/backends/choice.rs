//! Chooses the backend of a request: those of the lowest priority number that are available, among them by weight and
//! load, or always the same one for the same prompt cache key.

use ratelimit::SteadyTime;

use super::Health;

/// A backend that may serve a request.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its name, which decides with a key about its share of the keys.
    pub name: &'a str,
    /// Its share, relative to the others of its priority; at least 1.
    pub weight: u32,
    /// Smaller numbers come first.
    pub priority: u32,
    /// Requests that it is serving for this node.
    pub in_flight: u32,
    /// True if it has a place for the request.
    pub has_room: bool,
    /// Its availability.
    pub health: Health,
}

/// The preference among backends of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By weight and load; the number is random.
    Balanced(u64),
    /// Always the same one for the same key of [`sticky_key`], as long as it is available.
    Sticky(u64),
    /// The first one of the list.
    First,
}

/// The chosen backend, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Use(usize),
    /// None that is available has room.
    Full,
    /// None is available; this one is the first to be tried again, and has room.
    Away(usize),
    /// There is none, or those that are not available are full as well.
    Nothing,
}

/// Chooses one of `candidates`.
#[must_use]
pub fn choose(candidates: &[Candidate<'_>], order: Order) -> Choice {
    let available = |candidate: &Candidate<'_>| !matches!(candidate.health, Health::Away(_));
    let open: Vec<usize> = (0..candidates.len())
        .filter(|at| available(&candidates[*at]) && candidates[*at].has_room)
        .collect();
    let Some(first) = open.iter().map(|at| candidates[*at].priority).min() else {
        return match candidates.iter().any(available) {
            true => Choice::Full,
            false => earliest(candidates).map_or(Choice::Nothing, Choice::Away),
        };
    };
    let mut group: Vec<usize> = open;
    group.retain(|at| candidates[*at].priority == first);
    Choice::Use(match order {
        Order::First => group[0],
        Order::Sticky(key) => sticky(candidates, &group, key),
        Order::Balanced(random) => balanced(candidates, &group, random),
    })
}

/// The key of an owner's requests with the same prompt cache key, the same on all nodes.
#[must_use]
pub fn sticky_key(owner: &str, prompt_cache_key: &str) -> u64 {
    mixed(hashed(owner), hashed(prompt_cache_key))
}

fn earliest(candidates: &[Candidate<'_>]) -> Option<usize> {
    let until = |at: &usize| -> SteadyTime {
        match candidates[*at].health {
            Health::Away(until) => until,
            Health::Ready | Health::Trial => SteadyTime::default(),
        }
    };
    let rest = (0..candidates.len()).filter(|at| candidates[*at].has_room);
    rest.min_by_key(|at| (until(at), candidates[*at].priority))
}

/// Weighted rendezvous hashing: when a backend comes or goes, only its own keys move.
fn sticky(candidates: &[Candidate<'_>], group: &[usize], key: u64) -> usize {
    let score = |at: usize| {
        let hash = mixed(hashed(candidates[at].name), key);
        // 53 bits, the precision of the type; never 0, whose logarithm is infinite.
        #[allow(clippy::cast_precision_loss)]
        let unit = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -f64::from(candidates[at].weight) / unit.ln()
    };
    let best = group.iter().copied().max_by(|one, other| score(*one).total_cmp(&score(*other)));
    best.unwrap_or(group[0])
}

/// Two are drawn by weight; the one with less load for its weight serves. Without load, the shares are the weights.
fn balanced(candidates: &[Candidate<'_>], group: &[usize], random: u64) -> usize {
    let one = drawn(candidates, group, mixed(random, 1));
    let other = drawn(candidates, group, mixed(random, 2));
    let load = |of: usize, weight_of: usize| {
        u64::from(candidates[of].in_flight) * u64::from(candidates[weight_of].weight)
    };
    match load(other, one) < load(one, other) {
        true => other,
        false => one,
    }
}

fn drawn(candidates: &[Candidate<'_>], group: &[usize], random: u64) -> usize {
    let total: u64 = group.iter().map(|at| u64::from(candidates[*at].weight)).sum();
    let mut left = random % total.max(1);
    for at in group {
        let weight = u64::from(candidates[*at].weight);
        if left < weight {
            return *at;
        }
        left -= weight;
    }
    group[0]
}

/// FNV-1a.
fn hashed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finalizer of `SplitMix64`.
fn mixed(one: u64, other: u64) -> u64 {
    let mut word = one.wrapping_add(other.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    fn ready(name: &str, weight: u32, priority: u32) -> Candidate<'_> {
        Candidate { name, weight, priority, in_flight: 0, has_room: true, health: Health::Ready }
    }

    #[test]
    fn shares_follow_the_weights() {
        let candidates = [ready("a", 3, 0), ready("b", 1, 0), ready("c", 9, 1)];
        let orders: [fn(u64) -> Order; 2] = [Order::Balanced, |key| Order::Sticky(mixed(key, 7))];
        for order in orders {
            let mut shares = [0; 3];
            for number in 0..4000 {
                let Choice::Use(at) = choose(&candidates, order(number)) else { panic!("one") };
                shares[at] += 1;
            }
            assert!((2800..3200).contains(&shares[0]) && shares[2] == 0, "{shares:?}");
        }
    }

    #[test]
    fn load_for_its_weight_decides() {
        let busy = Candidate { in_flight: 30, ..ready("a", 2, 0) };
        let less = Candidate { in_flight: 10, ..ready("b", 1, 0) };
        let chosen = |random| choose(&[busy, less], Order::Balanced(random));
        // `a` serves only where it was drawn twice.
        let of_a = (0..900).filter(|random| chosen(*random) == Choice::Use(0)).count();
        assert!((330..470).contains(&of_a), "{of_a}");
    }

    #[test]
    fn the_next_priority_serves_when_the_first_is_full_or_away() {
        let full = Candidate { in_flight: 2, has_room: false, ..ready("a", 1, 0) };
        let away =
            Candidate { health: Health::Away(SteadyTime::from_micros(9)), ..ready("b", 1, 0) };
        let sooner =
            Candidate { health: Health::Away(SteadyTime::from_micros(7)), ..ready("c", 1, 5) };
        let trial = Candidate { health: Health::Trial, ..ready("d", 1, 2) };
        for (candidates, expected) in [
            (&[full, away, ready("c", 1, 1)][..], Choice::Use(2)),
            (&[full, away, trial], Choice::Use(2)),
            (&[full, away], Choice::Full),
            (&[away, sooner], Choice::Away(1)),
            (
                &[Candidate { health: Health::Away(SteadyTime::from_micros(9)), ..full }],
                Choice::Nothing,
            ),
            (&[], Choice::Nothing),
        ] {
            for order in [Order::Balanced(1), Order::Sticky(1), Order::First] {
                assert_eq!(choose(candidates, order), expected);
            }
        }
    }

    fn candidate() -> impl Strategy<Value = Candidate<'static>> {
        let health = prop_oneof![
            3 => Just(Health::Ready),
            1 => Just(Health::Trial),
            1 => (1..100u64).prop_map(|at| Health::Away(SteadyTime::from_micros(at))),
        ];
        (1..1000u32, 0..3u32, 0..4u32, any::<bool>(), health).prop_map(
            |(weight, priority, in_flight, has_room, health)| Candidate {
                name: "",
                weight,
                priority,
                in_flight,
                has_room,
                health,
            },
        )
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate<'static>>> {
        proptest::collection::vec(candidate(), 0..NAMES.len()).prop_map(|mut candidates| {
            for (candidate, name) in candidates.iter_mut().zip(NAMES) {
                candidate.name = name;
            }
            candidates
        })
    }

    proptest! {
        #[test]
        fn the_chosen_one_is_available_has_room_and_is_of_the_first_priority(
            candidates in candidates(), number in any::<u64>(), which in 0..3,
        ) {
            let order = [Order::Balanced(number), Order::Sticky(number), Order::First][which as usize];
            let usable = |candidate: &&Candidate<'_>| {
                candidate.has_room && !matches!(candidate.health, Health::Away(_))
            };
            let first = candidates.iter().filter(usable).map(|one| one.priority).min();
            match choose(&candidates, order) {
                Choice::Use(at) => {
                    prop_assert!(usable(&&candidates[at]));
                    prop_assert_eq!(Some(candidates[at].priority), first);
                }
                Choice::Full => {
                    prop_assert_eq!(first, None);
                    prop_assert!(candidates.iter().any(|one| !matches!(one.health, Health::Away(_))));
                }
                Choice::Away(at) => {
                    prop_assert_eq!(first, None);
                    prop_assert!(candidates[at].has_room);
                }
                Choice::Nothing => prop_assert!(!candidates.iter().any(|one| one.has_room)),
            }
        }

        /// A backend that goes moves its own keys only.
        #[test]
        fn keys_stay_when_another_backend_goes(
            mut candidates in candidates(), key in any::<u64>(), gone in any::<prop::sample::Index>(),
        ) {
            let Choice::Use(before) = choose(&candidates, Order::Sticky(key)) else { return Ok(()) };
            let gone = gone.index(candidates.len());
            prop_assume!(gone != before);
            candidates[gone].health = Health::Away(SteadyTime::from_micros(1));
            prop_assert_eq!(choose(&candidates, Order::Sticky(key)), Choice::Use(before));
        }
    }

    #[test]
    fn keys_are_of_their_owner() {
        assert_eq!(sticky_key("proj_1", "k"), sticky_key("proj_1", "k"));
        assert_ne!(sticky_key("proj_1", "k"), sticky_key("proj_2", "k"));
        assert_ne!(sticky_key("k", "proj_1"), sticky_key("proj_1", "k"));
    }
}
