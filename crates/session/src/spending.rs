//! The usage and cost of a thread's responses, in total and for the running turn. Money is in
//! picodollars (10^-12 US dollars), so that sums are exact.

use crate::Id;
use crate::port::model::{Cost, ModelNotice, ResponseUsage, Usage};
use crate::port::thread::Restored;

/// The usage and cost of a thread's responses.
pub(crate) struct Spending {
    usage: Usage,
    cost: Option<i64>,
    /// The turn that `turn_cost` and `notices` are of.
    turn: Id,
    turn_cost: Option<i64>,
    /// The notices that clients were sent about the model of the turn: each once.
    notices: Vec<ModelNotice>,
    /// Those that are sent once in the thread.
    lasting: Vec<ModelNotice>,
}

/// Different notices that are sent of a turn, and different lasting ones of a thread.
const MAX_NOTICES: usize = 16;

impl Spending {
    pub(crate) fn new(restored: &Restored) -> Self {
        Self {
            usage: restored.usage,
            cost: restored.cost,
            turn: Id::default(),
            turn_cost: Some(0),
            notices: Vec::new(),
            lasting: Vec::new(),
        }
    }

    /// Tokens so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Counts a response of a turn. Returns what has been spent.
    pub(crate) fn add(&mut self, turn: &Id, response: &ResponseUsage) -> (Usage, Cost) {
        self.begin(turn);
        self.usage.add(response.tokens);
        self.cost = sum(self.cost, response.cost);
        self.turn_cost = sum(self.turn_cost, response.cost);
        let cost = Cost { last: response.cost, turn: self.turn_cost, thread: self.cost };
        (self.usage, cost)
    }

    /// Returns whether a notice is new in its turn, or in the thread if it is about the provider's wire. Each wait is.
    pub(crate) fn is_new(&mut self, turn: &Id, notice: &ModelNotice) -> bool {
        if matches!(notice, ModelNotice::Queued { .. }) {
            return true;
        }
        self.begin(turn);
        let is_same = |earlier: &ModelNotice| match notice {
            ModelNotice::Contradiction { .. } => {
                matches!(earlier, ModelNotice::Contradiction { .. })
            }
            notice => earlier == notice,
        };
        let notices = match notice {
            ModelNotice::LeftOut { .. } => &mut self.lasting,
            _ => &mut self.notices,
        };
        let is_new = notices.len() < MAX_NOTICES && !notices.iter().any(is_same);
        if is_new {
            notices.push(notice.clone());
        }
        is_new
    }

    fn begin(&mut self, turn: &Id) {
        if self.turn != *turn {
            self.turn = turn.clone();
            self.turn_cost = Some(0);
            self.notices.clear();
        }
    }
}

/// Unknown when a part is unknown, or when the sum is absurd.
fn sum(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one?.checked_add(other?)
}
