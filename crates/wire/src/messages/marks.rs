//! Marks for the prompt cache of Messages. A mark asks the provider to keep the prompt up to a block, and to read what it
//! kept up to one of the blocks before it.
//!
//! A request has at most four. One is on the instructions, or else on the tools. The others are in the messages, in
//! this order of importance: on the last block, where the next request reads; on what is stable
//! ([`crate::CacheHints`]), where it reads when the latest turns have expired; on the end of the last user's turn but one,
//! which is the end of the request before; and on a block between, if the last turn is longer than
//! the provider looks back.

use crate::conversation::{Conversation, Heard, Parts};
use crate::json::Members;
use crate::target::{CacheMarks, Target};

const SHORT: &str = "{\"type\":\"ephemeral\"}";
const LONG: &str = "{\"type\":\"ephemeral\",\"ttl\":\"1h\"}";

/// Most marks in the messages; the API takes one more.
const MAX_MARKS: usize = 3;
/// Number of blocks before a mark in which the provider looks for what it kept.
const LOOK_BACK: usize = 20;

/// The marks of a request.
pub(super) struct Marks {
    first: Option<&'static str>,
    places: Vec<(Place, &'static str)>,
}

/// A part of a user's turn: the positions of turn and part.
type Place = (usize, usize);

/// A part that may have a mark.
#[derive(Clone, Copy)]
struct Candidate {
    place: Place,
    /// Number of items of the input up to its end.
    end: usize,
    /// Number of blocks of user's turns up to its end.
    blocks: usize,
}

impl Marks {
    /// `items`: number of items of the input.
    pub(super) fn new(conversation: &Conversation<'_>, items: usize, target: &Target) -> Self {
        let hints = &target.cache;
        let is_long = match target.messages.cache {
            CacheMarks::None => return Self { first: None, places: Vec::new() },
            CacheMarks::Short => false,
            CacheMarks::Long => true,
            CacheMarks::Adaptive => hints.is_long,
        };
        let candidates = candidates(conversation, items.saturating_sub(hints.passing));
        let up_to = |end: usize| candidates.iter().rfind(|it| it.end <= end).map(|it| it.place);
        let stable: Vec<Place> = hints.stable.iter().filter_map(|end| up_to(*end)).collect();
        let last = candidates.last();
        let before = last.and_then(|last| candidates.iter().rfind(|it| it.place.0 < last.place.0));
        let between = last.and_then(|last| {
            let mut turn = candidates.iter().filter(|it| it.place.0 == last.place.0);
            turn.next().filter(|first| first.blocks + LOOK_BACK < last.blocks)?;
            turn.find(|it| it.blocks + LOOK_BACK >= last.blocks)
        });
        let places = last
            .map(|last| last.place)
            .into_iter()
            .chain(stable.iter().copied())
            .chain([before, between].into_iter().flatten().map(|it| it.place));
        let mut chosen: Vec<Place> = Vec::with_capacity(MAX_MARKS);
        for place in places {
            if chosen.len() < MAX_MARKS && !chosen.contains(&place) {
                chosen.push(place);
            }
        }
        chosen.sort_unstable();
        // The API takes no long mark after a short one.
        let stays = stable.into_iter().max().filter(|_| is_long);
        let mark = |place: Place| if Some(place) <= stays { LONG } else { SHORT };
        let places = chosen.into_iter().map(|place| (place, mark(place))).collect();
        Self { first: Some(if is_long { LONG } else { SHORT }), places }
    }

    /// The mark of the instructions, or else of the tools.
    pub(super) fn first(&self) -> Option<&'static str> {
        self.first
    }

    /// The mark of a part of a user's turn.
    pub(super) fn of(&self, turn: usize, part: usize) -> Option<&'static str> {
        let place = self.places.iter().find(|(place, _)| *place == (turn, part));
        place.map(|(_, mark)| *mark)
    }
}

/// The parts of user's turns among the first `items` of the input.
fn candidates(conversation: &Conversation<'_>, items: usize) -> Vec<Candidate> {
    let (mut candidates, mut blocks) = (Vec::new(), 0);
    for (turn, it) in conversation.turns.iter().enumerate() {
        let Parts::User(parts) = &it.parts else { continue };
        for (part, (heard, end)) in parts.iter().zip(&it.ends).enumerate() {
            blocks += match heard {
                Heard::Message(content) | Heard::Instruction(content) => content.len(),
                Heard::Output(_) | Heard::GeneratedImage(_) => 1,
            };
            if *end <= items {
                candidates.push(Candidate { place: (turn, part), end: *end, blocks });
            }
        }
    }
    candidates
}

pub(super) fn write_mark(mark: Option<&str>, block: &mut Members<'_>) {
    if let Some(mark) = mark {
        block.raw("cache_control", mark);
    }
}
