//! The bound on messages that wait in all connections of a server together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;

/// A budget that the inboxes of many connections share. A transport that refuses instead of waiting
/// charges each message to it, from the moment the message is queued to the moment it is taken.
///
/// A connection never gets more than it leaves free for another. Connections that take as much as
/// they can converge to equal shares, and a connection that needs little finds room.
#[derive(Debug)]
pub struct Ingress {
    messages: Budget,
    bytes: Budget,
}

/// An amount shared by several takers.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    most: usize,
}

impl Default for Ingress {
    /// 4,096 messages and 128 MiB.
    fn default() -> Self {
        Self::new(4096, 128 * MIB)
    }
}

impl Ingress {
    /// Creates a budget of this many messages and bytes.
    #[must_use]
    pub fn new(messages: usize, bytes: usize) -> Self {
        Self { messages: Budget::new(messages), bytes: Budget::new(bytes) }
    }

    /// Messages and bytes that wait.
    #[must_use]
    pub fn used(&self) -> (usize, usize) {
        let used = |budget: &Budget| budget.used.load(Ordering::Relaxed);
        (used(&self.messages), used(&self.bytes))
    }

    /// Charges one message of `bytes` bytes, for a connection that already has `waiting` messages
    /// and bytes in the budget; `None` when it does not fit.
    pub(crate) fn charge(
        self: &Arc<Self>,
        bytes: usize,
        waiting: (usize, usize),
    ) -> Option<Charge> {
        if !self.messages.take(1, waiting.0) {
            return None;
        }
        if !self.bytes.take(bytes, waiting.1) {
            self.messages.give_back(1);
            return None;
        }
        Some(Charge { ingress: self.clone(), messages: 1, bytes })
    }

    /// Charges only bytes, for a message that is not complete yet.
    pub(crate) fn charge_bytes(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let taken = self.bytes.take(bytes, 0);
        taken.then(|| Charge { ingress: self.clone(), messages: 0, bytes })
    }
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self { used: AtomicUsize::new(0), most }
    }

    /// Takes `wanted` if at least `own`, the amount that the taker already has, is then still free.
    pub(crate) fn take(&self, wanted: usize, own: usize) -> bool {
        let fits = |sum: &usize| sum.saturating_add(own) <= self.most;
        let add = |used: usize| used.checked_add(wanted).filter(fits);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    pub(crate) fn give_back(&self, taken: usize) {
        self.used.fetch_sub(taken, Ordering::Relaxed);
    }
}

/// An amount taken from the budget; dropping it returns the amount.
#[derive(Debug)]
pub(crate) struct Charge {
    ingress: Arc<Ingress>,
    messages: usize,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ingress.messages.give_back(self.messages);
        self.ingress.bytes.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_permits_are_returned() {
        let ingress = Arc::new(Ingress::new(2, 100));
        let none = (0, 0);
        let first = ingress.charge(60, none).unwrap();
        assert!(ingress.charge(41, none).is_none(), "too many bytes");
        let second = ingress.charge(40, none).unwrap();
        assert!(ingress.charge(0, none).is_none(), "too many messages");
        drop(first);
        let part = ingress.charge_bytes(60).unwrap();
        assert!(ingress.charge_bytes(1).is_none());
        drop((second, part));
        assert!(ingress.charge(100, none).is_some());
    }

    #[test]
    fn one_connection_cannot_take_the_whole_budget() {
        let ingress = Arc::new(Ingress::new(30, 3000));
        let fill = |charges: &mut Vec<Charge>, bytes: usize| {
            let bytes_waiting = |charges: &[Charge]| charges.iter().map(|c| c.bytes).sum();
            while let Some(charge) = ingress.charge(bytes, (charges.len(), bytes_waiting(charges)))
            {
                charges.push(charge);
            }
        };
        let (mut first, mut second) = (Vec::new(), Vec::new());
        fill(&mut first, 1);
        assert_eq!(first.len(), 15, "as many are left");
        fill(&mut second, 1);
        assert_eq!(second.len(), 8);
        for _ in 0..20 {
            for greedy in [&mut first, &mut second] {
                greedy.pop();
                fill(greedy, 1);
            }
        }
        assert_eq!((first.len(), second.len()), (10, 10), "equal shares in the end");
        assert!(ingress.charge(1, (0, 0)).is_some(), "and room for somebody else");
        drop((first, second));
        let mut bytes = Vec::new();
        fill(&mut bytes, 500);
        assert_eq!(bytes.len(), 3, "the same with bytes");
    }
}
