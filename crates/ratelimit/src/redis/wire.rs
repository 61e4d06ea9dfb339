//! Encodes calls of the library's functions, and decodes their replies. No I/O.

use crate::{Bound, Decision, Draw, Error, Micros, Remedy, State};

/// Larger amounts and limits count as this: the store's numbers are doubles.
pub(super) const LARGEST: u64 = 1 << 50;
/// The date of a draw that no loss of the store's data can have taken: later than all dates, and exact there.
pub(super) const UNDATED: u64 = 1 << 52;
/// Upper bound of windows, exclusive.
const LONGEST: Micros = 1 << 37;

/// The lease terms of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) id: u64,
    /// Units that are released.
    pub(super) back: u64,
    /// Units that are requested.
    pub(super) want: u64,
    /// Smallest useful grant.
    pub(super) least: u64,
    /// The number of the call, or the last one that a report of open reservations includes.
    pub(super) number: u64,
}

/// An unconditional change to one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) bound: Bound,
    pub(super) refund: u64,
    pub(super) since: Micros,
    pub(super) month: u32,
    pub(super) owe: u64,
    pub(super) used: u64,
    /// For spend, all open reservations of this node.
    pub(super) open: u64,
    pub(super) terms: Terms,
}

impl Change {
    /// A change without an effect.
    pub(super) fn none(bound: Bound) -> Self {
        let terms = Terms::default();
        Self { bound, refund: 0, since: 0, month: 0, owe: 0, used: 0, open: 0, terms }
    }
}

/// The reply about one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeterReply {
    pub(super) helps: i64,
    pub(super) state: State,
    pub(super) granted: u64,
    /// True if the store knew the lease already.
    pub(super) known: bool,
}

/// The key of an organization's data. The braces are the hash tag of a cluster, which keeps all of
/// it on one server.
pub(super) fn key(organization: &str, what: &str) -> String {
    let mut key = String::with_capacity(organization.len() + what.len() + 16);
    key.push_str("limits:{");
    for letter in organization.chars() {
        match letter {
            '%' => key.push_str("%25"),
            '{' => key.push_str("%7B"),
            '}' => key.push_str("%7D"),
            other => key.push(other),
        }
    }
    key.push_str("}:");
    key.push_str(what);
    key
}

/// Checks that the store can count within this bound.
pub(super) fn check(bound: Bound) -> Result<(), Error> {
    match bound {
        Bound::Rate { limit, .. } if limit.window == 0 || limit.window >= LONGEST => {
            Err(Error::full(format_args!(
                "the store cannot count over a window of {} µs",
                limit.window
            )))
        }
        _ => Ok(()),
    }
}

/// Appends the eleven arguments of a draw.
pub(super) fn push_draw(args: &mut Vec<Vec<u8>>, node: u64, draw: &Draw<'_>, terms: Terms) {
    push_bound(args, draw.meter, draw.bound);
    // The number of the set, negative where refusals do not count.
    let set = i64::from(draw.set) + 1;
    let counts = matches!(draw.bound, Bound::Rate { counts_refusals: true, .. });
    push(args, draw.amount.min(LARGEST));
    args.push(if counts { set } else { -set }.to_string().into_bytes());
    args.push(lease(node, terms.id));
    push(args, terms.back);
    push(args, terms.want);
    push(args, terms.least);
    push(args, terms.number);
}

/// Appends the fifteen arguments of a change.
pub(super) fn push_change(args: &mut Vec<Vec<u8>>, node: u64, meter: &str, change: &Change) {
    push_bound(args, meter, change.bound);
    push(args, change.refund.min(LARGEST));
    push(args, change.since);
    push(args, change.owe.min(LARGEST));
    args.push(lease(node, change.terms.id));
    push(args, change.used);
    push(args, change.terms.back);
    push(args, change.terms.want);
    push(args, change.terms.least);
    push(args, u64::from(change.month));
    push(args, change.open.min(LARGEST));
    push(args, change.terms.number);
}

pub(super) fn push(args: &mut Vec<Vec<u8>>, number: u64) {
    args.push(number.to_string().into_bytes());
}

fn lease(node: u64, id: u64) -> Vec<u8> {
    format!("{node:x}.{id:x}").into_bytes()
}

/// Kind, name, limit and window; for spend, the month takes the place of the window.
pub(super) fn push_bound(args: &mut Vec<Vec<u8>>, meter: &str, bound: Bound) {
    let (kind, most, window) = match bound {
        Bound::Rate { limit, .. } => (0, Some(limit.amount), limit.window),
        Bound::Spend { most, month } => (1, most, u64::from(month)),
        Bound::Held { most } => (2, Some(most), 0),
    };
    push(args, kind);
    args.push(meter.as_bytes().to_vec());
    args.push(most.map_or_else(|| b"-1".to_vec(), |most| most.min(LARGEST).to_string().into()));
    push(args, window);
}

/// Decodes five numbers per draw.
pub(super) fn read_replies(reply: &[i64]) -> Vec<MeterReply> {
    let one = |five: &[i64]| MeterReply {
        helps: five[0],
        state: state(five[1], five[2], five[3]),
        granted: granted(five[4]),
        known: five[4] >= 0,
    };
    reply.chunks_exact(5).map(one).collect()
}

/// Decodes four numbers per change.
pub(super) fn read_changed(reply: &[i64]) -> Vec<MeterReply> {
    let one = |four: &[i64]| MeterReply {
        helps: -3,
        state: state(four[1], four[2], four[3]),
        granted: granted(four[0]),
        known: four[0] >= 0,
    };
    reply.chunks_exact(4).map(one).collect()
}

/// Units added to a lease. For a new lease the number is negative and one larger in size.
fn granted(number: i64) -> u64 {
    if number < 0 { (number + 1).unsigned_abs() } else { number.unsigned_abs() }
}

fn state(used: i64, remaining: i64, until_full: i64) -> State {
    let used = used.try_into().unwrap_or(0);
    State {
        used,
        remaining: remaining.try_into().unwrap_or(u64::MAX - used),
        until_full: until_full.try_into().unwrap_or(Micros::MAX),
    }
}

/// The refusal that is reported for all draws.
pub(super) fn refused(replies: &[MeterReply]) -> Decision {
    let remedy = |helps: i64| match helps {
        -1 => Remedy::NothingSoon,
        -2 => Remedy::GiveBack,
        -4 => Remedy::AskForLess,
        -5 => Remedy::Reserved,
        wait => Remedy::Wait(wait.try_into().unwrap_or(0)),
    };
    let refusals = replies.iter().enumerate().filter(|(_, reply)| reply.helps != -3);
    let all = refusals.map(|(at, reply)| (at, remedy(reply.helps)));
    // Among equals, the first.
    let worst =
        all.reduce(|worst, one| if one.1.severity() > worst.1.severity() { one } else { worst });
    let (which, remedy) = worst.unwrap_or((0, Remedy::Wait(0)));
    Decision::Refused { which, remedy, states: replies.iter().map(|reply| reply.state).collect() }
}
