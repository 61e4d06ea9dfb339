//! Background work: it gives way to work that somebody waits for.

use std::io;
use std::thread;

/// The increment of the niceness of a thread that gives way.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Has the scheduler prefer other threads to this one until it ends. Without effect on systems where
/// only whole processes have a priority.
pub fn give_way() {
    // The thread does the same without it, only not as kindly.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

/// Runs `work` on a thread of its own that gives way to others, and waits for it.
///
/// # Errors
/// No thread can be started.
pub fn in_background<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.to_owned());
        let done = thread.spawn_scoped(scope, || {
            give_way();
            work()
        })?;
        done.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_of_the_work_gives_way() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let during = in_background("background", niceness).unwrap();
        assert_eq!((during, niceness()), ((before + NICENESS).min(19), before));
    }
}
