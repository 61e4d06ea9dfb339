//! Gives memory back that only starting needed: the program's own code and constants, which the
//! system reads again, from the file or its cache, when they are wanted.

#![cfg_attr(
    target_os = "linux",
    allow(unsafe_code, reason = "pages cannot be given back without it")
)]

/// Gives the pages of the program's file back. Those that are needed come again one by one; what
/// parses arguments, reads configuration and makes tables does not. A system that does not say what
/// it has mapped keeps them.
#[cfg(target_os = "linux")]
pub(crate) fn give_start_up_back() {
    let (Ok(program), Ok(maps)) =
        (std::env::current_exe(), std::fs::read_to_string("/proc/self/smaps"))
    else {
        return;
    };
    let Some(program) = program.to_str() else { return };
    for range in unchanged(&maps, program) {
        let start = std::ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: nothing in the range was ever written, so what comes back is what was there.
        let given = unsafe {
            rustix::mm::madvise(start, range.len(), rustix::mm::Advice::LinuxDontNeed)
        };
        // It is only a hint: where it is not taken, the pages stay.
        drop(given);
    }
}

/// Other systems look after this themselves.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give_start_up_back() {}

/// Where the file `program` is mapped and not one page was changed.
#[cfg(target_os = "linux")]
fn unchanged(maps: &str, program: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    let mut is_within = false;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some(range) = range(first) {
            let is_read_only = words.next().is_some_and(|rights| !rights.contains('w'));
            is_within = is_read_only && line.ends_with(program);
            if is_within {
                found.push(range);
            }
            continue;
        }
        let is_changed = matches!(first, "Private_Dirty:" | "Anonymous:" | "Swap:")
            && words.next() != Some("0");
        if is_within && is_changed {
            is_within = false;
            found.pop();
        }
    }
    found
}

#[cfg(target_os = "linux")]
fn range(text: &str) -> Option<std::ops::Range<usize>> {
    let (start, end) = text.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    Some(number(start)?..number(end)?)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::unchanged;

    #[test]
    fn only_what_was_never_written_is_given_back() {
        let map = |head: &str, dirty: u32, swapped: u32| {
            format!(
                "{head}\nSize: 8 kB\nRss: 8 kB\nPrivate_Dirty: {dirty} kB\nAnonymous: {dirty} kB\n\
                 Swap: {swapped} kB\nVmFlags: rd ex mr\n"
            )
        };
        let maps = [
            map("1000-2000 r--p 00000000 fe:00 7     /usr/bin/agentd", 0, 0),
            map("2000-4000 r-xp 00001000 fe:00 7     /usr/bin/agentd", 0, 0),
            map("4000-5000 r--p 00003000 fe:00 7     /usr/bin/agentd", 4, 0),
            map("5000-6000 r--p 00004000 fe:00 7     /usr/bin/agentd", 0, 4),
            map("6000-7000 rw-p 00005000 fe:00 7     /usr/bin/agentd", 0, 0),
            map("7000-8000 r-xp 00000000 fe:00 9     /usr/lib/libc.so.6", 0, 0),
            map("8000-9000 rw-p 00000000 00:00 0", 0, 0),
        ];
        assert_eq!(unchanged(&maps.concat(), "/usr/bin/agentd"), [0x1000..0x2000, 0x2000..0x4000]);
    }

    #[test]
    fn the_program_goes_on() {
        super::give_start_up_back();
        assert_eq!("still here".len(), 10);
    }
}
