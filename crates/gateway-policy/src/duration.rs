//! Durations as clients read them: in Go's format in headers, in seconds in messages.

use std::fmt;

use ratelimit::Micros;

/// For `x-ratelimit-reset-*`: `12ms`, `1s`, `6m0s`, `14h29m11.04s`; `0s` for zero. Rounded up to
/// the millisecond.
#[derive(Clone, Copy, Debug)]
pub struct InHeader(pub Micros);

/// For messages: `12ms` below one second, else `345.6s`. Rounded up to the millisecond.
#[derive(Clone, Copy, Debug)]
pub struct InMessage(pub Micros);

impl fmt::Display for InHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.div_ceil(1000);
        match milliseconds {
            0 => return f.write_str("0s"),
            1..1000 => return write!(f, "{milliseconds}ms"),
            _ => {}
        }
        let (hours, rest) = (milliseconds / 3_600_000, milliseconds % 3_600_000);
        let (minutes, rest) = (rest / 60_000, rest % 60_000);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        seconds(f, rest)
    }
}

impl fmt::Display for InMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.div_ceil(1000) {
            milliseconds @ ..1000 => write!(f, "{milliseconds}ms"),
            milliseconds => seconds(f, milliseconds),
        }
    }
}

/// Seconds with up to three decimals and no trailing zeros.
fn seconds(f: &mut fmt::Formatter<'_>, milliseconds: u64) -> fmt::Result {
    let (whole, part) = (milliseconds / 1000, milliseconds % 1000);
    match part {
        0 => write!(f, "{whole}s"),
        _ if part % 100 == 0 => write!(f, "{whole}.{}s", part / 100),
        _ if part % 10 == 0 => write!(f, "{whole}.{:02}s", part / 10),
        _ => write!(f, "{whole}.{part:03}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let check = |micros, header: &str, message: &str| {
            assert_eq!(InHeader(micros).to_string(), header);
            assert_eq!(InMessage(micros).to_string(), message);
        };
        check(0, "0s", "0ms");
        check(1, "1ms", "1ms");
        check(12_000, "12ms", "12ms");
        check(999_000, "999ms", "999ms");
        check(999_001, "1s", "1s");
        check(1_500_000, "1.5s", "1.5s");
        check(59_999_900, "1m0s", "60s");
        check(345_600_000, "5m45.6s", "345.6s");
        check(360_000_000, "6m0s", "360s");
        check(52_151_040_000, "14h29m11.04s", "52151.04s");
        check(3_600_007_000, "1h0m0.007s", "3600.007s");
    }
}
