//! A hundred turns of real commands, such as agents run, and the way back from any of them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::picture;
use undo::{Turn, Undo};

/// Commands of turns. `$N` is a number of the turn's own.
const COMMANDS: [&str; 14] = [
    "sed -i \"s/line/line $N/\" src/*.txt",
    "rm -rf src",
    "git checkout -q -f other",
    "git checkout -q -f main",
    "git clean -qfd",
    "mkdir -p build/obj/$N && for i in 1 2 3; do cat README > build/obj/$N/$i.o; done",
    "rm -rf build && mkdir build && cp -r src build/ && chmod -R go-rwx build",
    "find . -name \"*.txt\" -not -path \"./.git/*\" -exec chmod u=rw,go= {} +",
    "ln -sfn README link-$N && ln -sf missing src/dangling",
    "mv src moved-$N; mkdir -p src; cp README src/again.txt",
    "printf \"\\000\\377 $N\" > binary; truncate -s 100000 sparse",
    "printf %s \"*** $N\" >> README; tac README > README.new && mv README.new README",
    "tar cf - README | (mkdir -p unpacked && cd unpacked && tar xf -)",
    "chmod 555 src; touch src/refused; chmod 755 src; rmdir empty 2>/dev/null; mkdir -p empty",
];

fn shell(folder: &Path, number: u64, script: &str) {
    // Some of them fail, as those of agents do.
    Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .env("N", number.to_string())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

/// A reproducible sequence of numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[test]
fn a_hundred_turns_of_commands_are_undone() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("work");
    std::fs::create_dir(&root).unwrap();
    shell(
        &root,
        0,
        "git init -q -b main . && git config user.name n && git config user.email e && mkdir src empty &&
         for i in 1 2 3 4 5; do echo \"line of $i\" > src/$i.txt; done && echo read > README &&
         git add -A && git commit -qm one && git checkout -q -b other && git mv src/1.txt src/one.txt &&
         echo other > README && git commit -qam two && git checkout -q main",
    );
    assert!(root.join("src/1.txt").exists(), "git is needed");
    let undo = Undo::open(&place.path().join("undo.sqlite")).unwrap();
    let mut numbers = Numbers(7);
    let mut before = Vec::new();
    let mut undone = 0;
    for number in 0..100 {
        let turn = Turn { tree: "t".into(), thread: "t".into(), turn: number.to_string() };
        before.push((turn.clone(), picture(&root)));
        for _ in 0..=numbers.below(3) {
            let window = undo.begin(&root, &turn).unwrap();
            let command = COMMANDS[usize::try_from(numbers.below(14)).unwrap()];
            shell(&root, number, command);
            undo.end(window).unwrap();
        }
        if numbers.below(4) == 0 {
            let back = numbers.below(before.len().min(8) as u64);
            let at = before.len() - 1 - usize::try_from(back).unwrap();
            let (since, wanted) = before[at].clone();
            before.truncate(at);
            let outcome = undo.restore(&since, false).unwrap().unwrap();
            assert!(outcome.failed.is_empty(), "turn {number}, back {back}: {outcome:?}");
            assert_eq!(picture(&root), wanted, "turn {number}, back {back}");
            undone += back + 1;
        }
    }
    // And all that is left.
    let (since, wanted) = &before[0];
    let outcome = undo.restore(since, false).unwrap().unwrap();
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    assert_eq!(&picture(&root), wanted);
    assert_eq!(undone + before.len() as u64, 100);
}
