//! Random files and patches for them: hunks made from real edits, then bent as models bend them.

/// A file and hunks for it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Case {
    pub(crate) before: String,
    pub(crate) diff: String,
}

/// Splitmix64: small, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Less than `end`; 0 when that is 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or(0)
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

const LINES: [&str; 22] = [
    "class A:",
    "class B(A):",
    "  def f(x):",
    "  def g(x):",
    "    return x",
    "    return 1",
    "    x = 1",
    "    x = \"1\"",
    "    # it's \u{2014} \u{201c}so\u{201d}",
    "",
    "",
    "  ",
    "}",
    "{",
    "a",
    "b",
    "c ",
    "\td",
    "- item",
    "+ item",
    "@@ x",
    "end",
];
const NEW: [&str; 8] =
    ["new", "  new", "", "a", "    return 2", "class A:", "}", "\u{201c}new\u{201d}"];

/// The next case: half of them exact, half of them bent.
pub(crate) fn case(random: &mut Random) -> Case {
    let count = random.below(16);
    let file: Vec<String> = (0..count).map(|_| line(random)).collect();
    let mut hunks = hunks(random, &file);
    if random.percent(50) {
        bend(random, &mut hunks);
    }
    let line_end = if random.percent(10) { "\r\n" } else { "\n" };
    let is_mixed = random.percent(3);
    let mut before = String::new();
    for line in &file {
        before.push_str(line);
        before.push_str(if is_mixed && random.percent(50) { "\r\n" } else { line_end });
    }
    if random.percent(20) {
        before.truncate(before.trim_end_matches(['\n', '\r']).len());
    }
    let mut diff: Vec<String> = hunks.into_iter().flatten().collect();
    if diff.is_empty() {
        diff.push("+new".to_owned());
    }
    let line_end = if random.percent(5) { "\r\n" } else { "\n" };
    Case { before, diff: diff.join(line_end) }
}

fn line(random: &mut Random) -> String {
    match random.percent(60) {
        true => random.pick(&LINES).to_owned(),
        false => format!("line {}", random.below(100)),
    }
}

type Hunk = Vec<String>;

/// Hunks in the order of the file, each with a header and up to three lines of context.
fn hunks(random: &mut Random, file: &[String]) -> Vec<Hunk> {
    let mut hunks = Vec::new();
    let mut at = 0;
    while at <= file.len() && hunks.len() < 4 {
        let start = at + random.below(file.len() + 1 - at);
        let removed = random.below(4).min(file.len() - start);
        let added = random.below(4);
        if removed + added == 0 {
            at = start + 1;
            continue;
        }
        // Few hunks without anything to find them by.
        let around = if removed == 0 && random.percent(80) { 1 } else { 0 } + random.below(4);
        let first = start.saturating_sub(around).max(at);
        let last = (start + removed + around).min(file.len());
        let mut hunk = header(random, file, at, first, hunks.is_empty());
        hunk.extend(file[first..start].iter().map(|line| format!(" {line}")));
        let mut body: Vec<String> = Vec::new();
        body.extend(file[start..start + removed].iter().map(|line| format!("-{line}")));
        body.extend((0..added).map(|_| format!("+{}", random.pick(&NEW))));
        hunk.extend(body);
        hunk.extend(file[start + removed..last].iter().map(|line| format!(" {line}")));
        if last == file.len() && random.percent(40) {
            hunk.push("*** End of File".to_owned());
        }
        hunks.push(hunk);
        at = last;
        if random.percent(40) {
            break;
        }
    }
    hunks
}

/// The lines before a hunk whose first line is `first`.
fn header(random: &mut Random, file: &[String], from: usize, first: usize, is_first: bool) -> Hunk {
    let named = |at: usize| match file[at].trim() {
        "" => "@@".to_owned(),
        _ => format!("@@ {}", file[at]),
    };
    match random.below(10) {
        0 if is_first => Vec::new(),
        1..=3 if first > from => vec![named(from + random.below(first - from))],
        4 if first > from + 1 => {
            let outer = from + random.below(first - from - 1);
            vec![named(outer), named(outer + 1 + random.below(first - outer - 1))]
        }
        5 if !file.is_empty() && random.percent(30) => vec![named(random.below(file.len()))],
        _ => vec!["@@".to_owned()],
    }
}

/// One to three changes of the kind that models make.
fn bend(random: &mut Random, hunks: &mut Vec<Hunk>) {
    for _ in 0..=random.below(3) {
        if hunks.is_empty() {
            return;
        }
        let which = random.below(hunks.len());
        if random.percent(15) {
            match random.below(3) {
                0 => hunks.push(hunks[which].clone()),
                1 => hunks.swap(0, which),
                _ => drop(hunks.remove(which)),
            }
            continue;
        }
        let hunk = &mut hunks[which];
        let at = random.below(hunk.len());
        bend_line(random, hunk, at);
    }
}

fn bend_line(random: &mut Random, hunk: &mut Hunk, at: usize) {
    let Some(line) = hunk.get(at).cloned() else { return };
    let text = line.get(1..).unwrap_or_default();
    let sign = line.chars().next().unwrap_or(' ');
    match random.below(14) {
        0 => hunk[at] = format!("{line} "),
        1 => hunk[at] = line.trim_end().to_owned(),
        2 if !line.starts_with('@') => hunk[at] = format!("{sign}  {text}"),
        3 if !line.starts_with('@') => hunk[at] = format!("{sign}{}", text.trim_start()),
        4 => hunk[at] = typographic(&line),
        5 => hunk[at] = line.replace(['\u{201c}', '\u{201d}'], "\"").replace('\u{2014}', "-"),
        6 => drop(hunk.remove(at)),
        7 => hunk.insert(at, line),
        8 => hunk.insert(at, String::new()),
        9 => hunk.push(String::new()),
        10 => hunk.push("*** End of File".to_owned()),
        11 => hunk[at] = format!("@@ {}", random.pick(&LINES)),
        12 => hunk[at] = format!("{}{}", random.pick(&[" ", "-", "+"]), random.pick(&LINES)),
        _ if line.starts_with("@@ ") => {
            hunk[at].truncate(line.char_indices().nth(8).map_or(line.len(), |(at, _)| at));
        }
        _ => hunk.insert(0, "@@".to_owned()),
    }
}

fn typographic(line: &str) -> String {
    line.replace('"', "\u{201d}").replace('\'', "\u{2019}").replace("- ", "\u{2013} ")
}
