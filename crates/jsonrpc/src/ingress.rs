//! What all connections of a server may have waiting together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;

/// A budget that the inboxes of many connections share. A transport that refuses instead of waiting
/// charges each message to it, from the moment it is queued to the moment it is taken.
#[derive(Debug)]
pub struct Ingress {
    messages: Budget,
    bytes: Budget,
}

#[derive(Debug)]
struct Budget {
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
    /// A budget of so many messages and bytes.
    #[must_use]
    pub fn new(messages: usize, bytes: usize) -> Self {
        let budget = |most| Budget { used: AtomicUsize::new(0), most };
        Self { messages: budget(messages), bytes: budget(bytes) }
    }

    /// Takes one message of so many bytes out of the budget; `None` when it does not fit.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        if !self.messages.take(1) {
            return None;
        }
        if !self.bytes.take(bytes) {
            self.messages.give_back(1);
            return None;
        }
        Some(Charge { ingress: self.clone(), messages: 1, bytes })
    }

    /// Takes bytes alone out of the budget, for a message that is not whole yet.
    pub(crate) fn charge_bytes(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let taken = self.bytes.take(bytes);
        taken.then(|| Charge { ingress: self.clone(), messages: 0, bytes })
    }
}

impl Budget {
    fn take(&self, wanted: usize) -> bool {
        let add = |used: usize| used.checked_add(wanted).filter(|sum| *sum <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn give_back(&self, taken: usize) {
        self.used.fetch_sub(taken, Ordering::Relaxed);
    }
}

/// What was taken out of the budget; dropping it gives it back.
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
    fn what_is_taken_comes_back() {
        let ingress = Arc::new(Ingress::new(2, 100));
        let first = ingress.charge(60).unwrap();
        assert!(ingress.charge(41).is_none(), "too many bytes");
        let second = ingress.charge(40).unwrap();
        assert!(ingress.charge(0).is_none(), "too many messages");
        drop(first);
        let part = ingress.charge_bytes(60).unwrap();
        assert!(ingress.charge_bytes(1).is_none());
        drop((second, part));
        assert!(ingress.charge(100).is_some());
    }
}
