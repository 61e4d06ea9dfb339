//! Numbers that tell the connections of one address apart. A client that opens another connection for each request gets
//! the number of its earlier connection again, so that its retries are known as such.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers in use, of all addresses. Bounded by the number of connections.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<IpAddr, Vec<u64>>>);

/// The number of an open connection: the lowest that no other one of its address has.
pub(super) struct Slot {
    slots: Arc<Slots>,
    address: IpAddr,
    number: u32,
}

impl Slots {
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Slot {
        let mut all = self.lock();
        let used = all.entry(address).or_default();
        let word = used.iter().position(|word| *word != u64::MAX).unwrap_or(used.len());
        if word == used.len() {
            used.push(0);
        }
        let bit = used[word].trailing_ones();
        used[word] |= 1 << bit;
        Slot { slots: Arc::clone(self), address, number: word as u32 * u64::BITS + bit }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Vec<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The address of its client.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// A slot of another client.
    pub(super) fn of(&self, address: IpAddr) -> Self {
        self.slots.take(address)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.slots.lock();
        let Some(used) = all.get_mut(&self.address) else { return };
        used[(self.number / u64::BITS) as usize] &= !(1 << (self.number % u64::BITS));
        if used.iter().all(|word| *word == 0) {
            all.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken() {
        let slots = Arc::<Slots>::default();
        let [one, two] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let mut open: Vec<Slot> = (0..130).map(|_| slots.take(one)).collect();
        assert!(open.iter().map(Slot::number).eq(0..130));
        assert_eq!(slots.take(two).number(), 0);
        drop(open.remove(70));
        drop(open.remove(3));
        assert_eq!([slots.take(one), slots.take(one)].map(|slot| slot.number()), [3, 70]);
        // One after the other, they are the same.
        let again = || slots.take(one).number();
        let numbers = [again(), again()];
        assert_eq!(numbers, [3, 3]);
        drop(open);
        assert!(slots.lock().is_empty());
    }
}
