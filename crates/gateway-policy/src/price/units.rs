//! Prices of units, by size and quality: of an image, of a second of video.

use serde::{Deserialize, Serialize};

use super::{Asked, Reported};
use crate::tenants::MicroDollars;

/// The price of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitPrice {
    /// Of this size; `None`: of any.
    pub size: Option<Box<str>>,
    /// In this quality; `None`: in any.
    pub quality: Option<Box<str>>,
    /// In micro-dollars.
    pub price: MicroDollars,
}

/// The price of what was asked for; where the server decides on the size or the quality, of what the answer tells if
/// that has a price, and else the dearest. `None`: there is none.
pub(super) fn price(
    list: &[UnitPrice],
    asked: &Asked,
    reported: &Reported,
) -> Option<MicroDollars> {
    let narrowed = find(
        list,
        asked.size.as_deref().or(reported.size.as_deref()),
        asked.quality.as_deref().or(reported.quality.as_deref()),
    );
    narrowed.or_else(|| find(list, asked.size.as_deref(), asked.quality.as_deref()))
}

/// The price of that size and quality; where either is `None`, the dearest of all that it may be. `None`: there is none.
fn find(list: &[UnitPrice], size: Option<&str>, quality: Option<&str>) -> Option<MicroDollars> {
    let sizes = possible(size, list.iter().map(|one| one.size.as_deref()));
    let qualities = possible(quality, list.iter().map(|one| one.quality.as_deref()));
    let of_size = |size: &Wanted<'_>| {
        qualities.iter().filter_map(|quality| of_both(list, *size, *quality)).max()
    };
    sizes.iter().filter_map(of_size).max()
}

/// A size or a quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted<'a> {
    Named(&'a str),
    /// One that no price names.
    Other,
}

/// All that a size or quality may be; only itself if it is known.
fn possible<'a>(
    known: Option<&'a str>,
    named: impl Iterator<Item = Option<&'a str>>,
) -> Vec<Wanted<'a>> {
    if let Some(known) = known {
        return vec![Wanted::Named(known)];
    }
    let mut all: Vec<_> = named.flatten().map(Wanted::Named).chain([Wanted::Other]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The price of the entry that names most of them; of two, the dearer.
fn of_both(list: &[UnitPrice], size: Wanted<'_>, quality: Wanted<'_>) -> Option<MicroDollars> {
    let fits = |own: &Option<Box<str>>, wanted: Wanted<'_>| {
        own.as_deref().is_none_or(|own| Wanted::Named(own) == wanted)
    };
    let fitting = list.iter().filter(|one| fits(&one.size, size) && fits(&one.quality, quality));
    let names = |one: &UnitPrice| u8::from(one.size.is_some()) + u8::from(one.quality.is_some());
    fitting.max_by_key(|one| (names(one), one.price)).map(|one| one.price)
}
