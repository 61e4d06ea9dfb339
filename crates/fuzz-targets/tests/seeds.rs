//! Every target with its seeds, with the words of its dictionary, and with inputs near those: cut short, with
//! a byte changed, with a word put in. The fuzzer goes on from there (`cargo xtask fuzz`).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::{Run, TARGETS};

/// Most variants of each kind of one seed.
const VARIANTS: usize = 24;
/// Longest input that is varied; longer ones are only replayed.
const MAX_VARIED: usize = 4096;
/// Scripts, one a line, that the shell's target begins with.
const SCRIPTS: &str = "crates/sandbox/src/rules/tests";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A test for each target.
macro_rules! replayed {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name), fuzz_targets::$name::run);
        })*

        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

replayed!(
    catalog,
    gateway_answer,
    gateway_body,
    gateway_multipart,
    hooks,
    images,
    limits,
    markdown,
    migration,
    output,
    patch,
    plugins,
    realtime,
    rules,
    search,
    shell,
    skill,
    token,
    tool_schema,
    websocket,
    wire,
);

#[test]
fn every_target_is_replayed_and_has_seeds() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, REPLAYED);
    let mut files: Vec<String> = fs::read_dir(root().join("crates/fuzz-targets/src"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| !["input", "lib"].contains(&name.as_str()))
        .collect();
    files.sort_unstable();
    assert_eq!(names, files);
    assert!(names.iter().all(|name| !seeds(name).is_empty()));
}

fn replay(name: &str, run: Run) {
    let words = words(name);
    run(b"");
    words.iter().for_each(|word| run(word));
    for seed in seeds(name) {
        run(&seed);
        if seed.len() <= MAX_VARIED {
            variants(&seed, &words).iter().for_each(|input| run(input));
        }
    }
}

/// Inputs near `seed`, the same in each run.
fn variants(seed: &[u8], words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let step = (seed.len() / VARIANTS).max(1);
    let mut inputs = Vec::new();
    for (number, at) in (0..seed.len()).step_by(step).enumerate() {
        inputs.push(seed[..at].to_vec());
        let mut changed = seed.to_vec();
        changed[at] ^= 1 << (number % 8);
        inputs.push(changed);
        if !words.is_empty() {
            let word = &words[number % words.len()];
            inputs.push([&seed[..at], word, &seed[at..]].concat());
        }
    }
    inputs
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    if name == "shell" {
        return scripts();
    }
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("fuzz/seeds").join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort_unstable();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// The scripts of the tables that tests judge.
fn scripts() -> Vec<Vec<u8>> {
    let folder = root().join(SCRIPTS);
    let tables = ["safe.txt", "unsafe.txt", "ordinary.txt"];
    let texts = tables.iter().map(|table| fs::read_to_string(folder.join(table)).unwrap());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let script = |line: &String| {
        line.split_once('\t').map_or(line.as_str(), |(_, script)| script).as_bytes().to_vec()
    };
    lines.iter().map(script).collect()
}

/// The words of the target's dictionary, if it has one: a quoted text a line, in which `\x41` is a byte.
fn words(name: &str) -> Vec<Vec<u8>> {
    let path = root().join("fuzz/dictionaries").join(format!("{name}.dict"));
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let quoted = |line: &str| Some(line.split_once('"')?.1.rsplit_once('"')?.0.to_owned());
    text.lines().filter_map(quoted).map(|word| unescaped(&word)).collect()
}

fn unescaped(word: &str) -> Vec<u8> {
    let bytes = word.as_bytes();
    let mut read = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'\\', b'x', high, low, ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                read.push(u8::from_str_radix(digits, 16).unwrap());
                at += 4;
            }
            [b'\\', escaped, ..] => {
                read.push(*escaped);
                at += 2;
            }
            _ => {
                read.push(bytes[at]);
                at += 1;
            }
        }
    }
    read
}
