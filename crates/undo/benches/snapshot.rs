//! What a call costs in a folder of 20,000 files that does not change: two comparisons with the index.
//! Prints the wall time and the processor time of one comparison, the best and the middle of many.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its figures")]

use std::time::{Duration, Instant};

use undo::{Turn, Undo};

const FILES: usize = 20_000;
const FILES_A_FOLDER: usize = 20;
const ROUNDS: usize = 100;

fn main() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("work");
    for number in 0..FILES {
        let folder = number / FILES_A_FOLDER;
        let folder = root.join(format!("{}/{folder}", folder % 37));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("file-{number}.rs")), number.to_string()).unwrap();
    }
    let undo = Undo::open(&place.path().join("undo.sqlite")).unwrap();
    let turn = Turn { tree: "t".into(), thread: "t".into(), turn: "1".into() };
    let compare = || {
        let (wall, cpu) = (Instant::now(), processor_time());
        let window = undo.begin(&root, &turn).unwrap();
        let taken = (wall.elapsed(), processor_time().saturating_sub(cpu));
        undo.end(window).unwrap();
        taken
    };
    // The first reads all files; the stamps of the next are settled.
    compare();
    // tidy: sleep until the clock of stamps has moved on, as it has between calls.
    std::thread::sleep(Duration::from_millis(50));
    compare();
    let mut all: Vec<_> = (0..ROUNDS).map(|_| compare()).collect();
    all.sort_unstable();
    let (best, middle) = (all[0], all[ROUNDS / 2]);
    all.sort_unstable_by_key(|(_, cpu)| *cpu);
    println!("wall: best {:?}, middle {:?}", best.0, middle.0);
    println!("processor: best {:?}, middle {:?}", all[0].1, all[ROUNDS / 2].1);
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}
