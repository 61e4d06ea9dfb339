//! The keys of rows: the key of the job, and the number of the row in its low bits.

use crate::{MAX_JOB_ITEMS, StoreError};

/// Bits of a row's key that hold its number.
pub(super) const NUMBER_BITS: u32 = 20;

const _: () = assert!(MAX_JOB_ITEMS == (1 << NUMBER_BITS) - 1);

/// The key of a row.
pub(super) fn item_key(job: i64, number: u32) -> Result<i64, StoreError> {
    let key = job.checked_mul(1 << NUMBER_BITS).filter(|_| number <= MAX_JOB_ITEMS);
    let key = key.and_then(|first| first.checked_add(i64::from(number)));
    key.ok_or(StoreError::TooMany {
        what: "the number of rows in a job",
        limit: i64::from(MAX_JOB_ITEMS),
    })
}

/// The key of the job of a row.
pub(crate) fn job_of(item: i64) -> i64 {
    item >> NUMBER_BITS
}
