//! A map whose changes can be undone until they are kept.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

#[derive(Debug)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// The row at a key before each change since the last [`Table::keep`].
    before: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), before: Vec::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub(super) fn range(
        &self,
        keys: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(keys)
    }

    pub(super) fn insert(&mut self, key: K, row: V) {
        let before = self.rows.insert(key.clone(), row);
        self.before.push((key, before));
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(before) = self.rows.remove(key) {
            self.before.push((key.clone(), Some(before)));
        }
    }

    /// Changes the row at a key, if there is one.
    pub(super) fn edit(&mut self, key: &K, change: impl FnOnce(&mut V)) {
        if let Some(row) = self.rows.get_mut(key) {
            self.before.push((key.clone(), Some(row.clone())));
            change(row);
        }
    }

    /// The changes can no longer be undone.
    pub(super) fn keep(&mut self) {
        self.before.clear();
    }

    /// Undoes all changes since the last [`Table::keep`].
    pub(super) fn undo(&mut self) {
        for (key, before) in self.before.drain(..).rev() {
            match before {
                Some(row) => drop(self.rows.insert(key, row)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_undone_back_to_what_was_kept() {
        let mut table = Table::default();
        table.insert(1, "one");
        table.insert(2, "two");
        table.keep();
        table.edit(&1, |row| *row = "changed");
        table.edit(&9, |row| *row = "nothing");
        table.remove(&1);
        table.insert(1, "again");
        table.insert(3, "three");
        table.remove(&2);
        table.undo();
        assert_eq!(table.iter().collect::<Vec<_>>(), [(&1, &"one"), (&2, &"two")]);
    }
}
