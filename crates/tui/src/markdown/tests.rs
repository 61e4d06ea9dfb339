//! What texts look like, however they arrive.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn context(columns: usize) -> Context {
    Context { columns, opener: Some("x".to_owned()), ..Context::default() }
}

fn plain(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

fn rendered(text: &str, context: &Context) -> Vec<Line> {
    let mut stream = Stream::default();
    stream.push(text);
    stream.end();
    stream.finished(context)
}

fn check(columns: usize, text: &str, expect: &str) {
    let shown = plain(&rendered(text, &context(columns)));
    let shown: Vec<_> = shown.lines().map(str::trim_end).collect();
    assert_eq!(shown.join("\n"), expect.trim_matches('\n'), "{text}");
}

#[test]
fn paragraphs_and_headings() {
    check(
        20,
        "# Ti*t*le\ntext **bold** `code` ~~no~~\nmore\n\nnext",
        "
Title

text bold code no
more

next",
    );
    check(
        20,
        "Title\n===\na  \nb\\\nc\n***\nd",
        "
Title

a
b
c

────────────────────

d",
    );
    check(12, "wörter die umbrechen", "wörter die\numbrechen");
}

#[test]
fn lists_and_quotations() {
    check(
        16,
        "- one is rather long\n- [x] done it\n  with more text\n  1. a\n  2. b\n\n- [ ] loose\n",
        "
• one is rather
  long
• ☑ done it with
    more text
  1. a
  2. b

• ☐ loose",
    );
    check(
        16,
        "9. a\n10. b\n\n    c\n1) d\n-\n- e",
        "
9. a
10. b

    c
1. d
•
• e",
    );
    check(
        16,
        "> quoted text is lazy\nhere\n>\n> - a\n>   > b\n\nout",
        "
│ quoted text is
│ lazy here
│
│ • a
│   │ b

out",
    );
}

#[test]
fn code_is_not_wrapped() {
    check(
        10,
        "a\n```rust\nfn a() { long(); }\n\n\tx\n```\nb",
        "
a

fn a() { long(); }

    x

b",
    );
    check(
        10,
        "1. a\n   ~~~\n   x\n     y\n   ~~~\n2. b\n\n    code\n    more",
        "
1. a
   x
     y
2. b

   code
   more",
    );
    check(10, "> ```\n> a\nb", "│ a\n\nb");
}

#[test]
fn tables() {
    check(
        30,
        "| a | b |\n|---|--:|\n| long *cell* | 1 |\n| x |\n\nafter",
        "
a         │ b
──────────┼──
long cell │ 1
x         │

after",
    );
    check(
        20,
        "| a | b |\n|---|---|\n| some words here | other words here |",
        "
a        │ b
─────────┼─────────
some     │ other
words    │ words
here     │ here",
    );
    check(
        8,
        "|a|b|\n|-|-|\n|some words|x|\n|y|z|",
        "
a: some
  words
b: x
────────
a: y
b: z",
    );
}

#[test]
fn links_say_where_they_go() {
    check(
        80,
        "[a](https://b.org/x) https://c.org. <https://d.org> ![i](e.png) [f]\n\n[f]: https://f.org",
        "
a (b.org) https://c.org. https://d.org i (e.png) [f]

[f]: https://f.org",
    );
    let lines = rendered("[a](https://b.org) `src/a.rs:3` https://c.org", &context(80));
    let links: Vec<_> =
        lines[0].spans.iter().filter_map(|span| Some((span.text(), &**span.link()?))).collect();
    assert_eq!(
        links,
        [
            ("a", "https://b.org"),
            ("src/a.rs:3", "x://file/src/a.rs:3"),
            ("https://c.org", "https://c.org")
        ]
    );
}

#[test]
fn what_is_hidden_is_shown() {
    check(
        80,
        "a\u{1b}[2Jb <b>x</b> &#27;\n<!-- c -->",
        "a\\u{1b}[2Jb <b>x</b> \\u{1b}\n<!-- c -->",
    );
    check(80, "<div>\n*a*\n</div>", "<div>\n*a*\n</div>");
}

#[test]
fn source_text_is_given_line_by_line() {
    let context = Context { raw: true, ..context(10) };
    let text = "# a\n\n```\n  *b* and more";
    assert_eq!(plain(&rendered(text, &context)), text.to_owned() + "\n");
    let mut stream = Stream::default();
    for part in ["a\r", "\nb", "\r\n"] {
        stream.push(part);
    }
    assert_eq!(plain(&stream.finished(&context)), "a\nb\n");
}

#[test]
fn only_the_open_block_is_open() {
    let context = context(20);
    let mut stream = Stream::default();
    stream.push("a\n\n```\nb\nc");
    assert_eq!(plain(&stream.finished(&context)), "a\n\nb\n");
    assert_eq!(plain(&stream.open(&context, 5)), "c\n");
    stream.push("\n```\nd *e");
    assert_eq!(plain(&stream.finished(&context)), "c\n");
    assert_eq!(plain(&stream.open(&context, 5)), "\nd *e\n");
    stream.push("* f\n--");
    assert_eq!(plain(&stream.open(&context, 1)), "d e f\n");
    assert!(stream.open(&context, 0).is_empty());
}

/// Large texts of every kind in small deltas.
#[test]
fn the_cost_does_not_grow_with_the_message() {
    let word = "word ";
    let size = 200_000;
    for text in [
        word.repeat(size / 5),
        "```rust\n".to_owned() + &"let a = 1;\n".repeat(size / 11),
        "```\n".to_owned() + &word.repeat(size / 5),
        "|a|b|\n|-|-|\n".to_owned() + &"|c|d|\n".repeat(size / 6),
        "> ".repeat(size / 2),
        "- ".repeat(size / 2),
        "*[".repeat(size / 2),
        "\u{4e00}".repeat(size / 3),
        "|".repeat(size),
    ] {
        let context = context(2);
        let start = Instant::now();
        let mut stream = Stream::default();
        let mut rest = text.as_str();
        let mut count = 0;
        while !rest.is_empty() {
            let (delta, left) = rest.split_at(rest.floor_char_boundary(6));
            stream.push(delta);
            count += stream.finished(&context).len();
            rest = left;
        }
        stream.end();
        count += stream.finished(&context).len();
        assert!(count > 0);
        // A bound far above what it takes, and far below what growing costs would.
        assert!(start.elapsed() < Duration::from_secs(20), "{:.20}: {:?}", text, start.elapsed());
    }
}

/// Texts that are likely to have structure.
fn markdown() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("\n"),
        Just("\n\n"),
        Just("- "),
        Just("1. "),
        Just("> "),
        Just("  "),
        Just("    "),
        Just("```"),
        Just("~~~"),
        Just("`"),
        Just("*"),
        Just("**"),
        Just("_"),
        Just("|"),
        Just("|-|-|\n"),
        Just("# "),
        Just("---"),
        Just("==="),
        Just("[a](b)"),
        Just("["),
        Just("]: "),
        Just("<"),
        Just("\t"),
        Just("\r\n"),
        Just("word "),
        Just("日本"),
        Just("\\"),
        Just("https://a.b"),
        Just("a.rs:1 "),
        Just("&#27;"),
        Just("\u{200b}"),
    ];
    prop_oneof![
        9 => prop::collection::vec(part.clone(), 0..60).prop_map(|parts| parts.concat()),
        1 => (prop::collection::vec(part, 1..8), 500..3000_usize)
            .prop_map(|(parts, times)| parts.concat().repeat(times)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn parts_are_rendered_as_the_whole(text in markdown(), cuts in prop::collection::vec(1..200_usize, 1..20), columns in 0..40_usize, raw in prop::bool::weighted(0.1)) {
        let context = Context { raw, ..context(columns) };
        let whole = rendered(&text, &context);
        let mut stream = Stream::default();
        let mut lines = Vec::new();
        let mut rest = text.as_str();
        let mut cuts = cuts.iter().cycle();
        let mut opened = 0;
        while !rest.is_empty() {
            let size = *cuts.next().unwrap();
            let (delta, left) = rest.split_at(rest.ceil_char_boundary(size));
            stream.push(delta);
            lines.extend(stream.finished(&context));
            if opened < 20 {
                let open = stream.open(&context, 3);
                prop_assert!(open.len() <= 3);
                opened += 1;
            }
            rest = left;
        }
        stream.end();
        lines.extend(stream.finished(&context));
        prop_assert_eq!(lines, whole);
    }
}

#[test]
fn emoji_of_several_characters_and_joined_letters_stay_whole() {
    let text = "**👩\u{200d}🚀** `❤\u{fe0f}` می\u{200c}خواهم 1\u{fe0f}\u{20e3}";
    check(80, text, "👩\u{200d}🚀 ❤\u{fe0f} می\u{200c}خواهم 1\u{fe0f}\u{20e3}");
}
