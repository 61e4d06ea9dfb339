use proptest::prelude::*;
use protocol::UserInput;

use super::*;

/// Keys in a notation: characters as they are, others in `<…>`, as in `<C-a>`, `<A-b>`, `<S-Enter>`.
fn keys(text: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let name = rest.strip_prefix('<').and_then(|it| it.split_once('>'));
        let Some((name, after)) = name else {
            keys.push(Key::plain(if c == '\n' { Code::Enter } else { Code::Char(c) }));
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = after;
        let (ctrl, name) = name.strip_prefix("C-").map_or((false, name), |name| (true, name));
        let (alt, name) = name.strip_prefix("A-").map_or((false, name), |name| (true, name));
        let (shift, name) = name.strip_prefix("S-").map_or((false, name), |name| (true, name));
        let code = match name {
            "Enter" => Code::Enter,
            "Tab" => Code::Tab,
            "Esc" => Code::Esc,
            "BS" => Code::Backspace,
            "Del" => Code::Delete,
            "Left" => Code::Left,
            "Right" => Code::Right,
            "Up" => Code::Up,
            "Down" => Code::Down,
            "Home" => Code::Home,
            "End" => Code::End,
            name => Code::Char(name.chars().next().unwrap()),
        };
        keys.push(Key { code, ctrl, alt, shift });
    }
    keys
}

/// Types at the pace of a person.
fn press(composer: &mut Composer, text: &str) -> Outcome {
    let mut last = Outcome::Ignored;
    // The clock of one call is far from that of another.
    let start = composer.burst.last_ms().unwrap_or_default() + 1_000;
    for (at, key) in keys(text).into_iter().enumerate() {
        last = composer.key(key, start + at as u64 * 100);
    }
    last
}

/// The text with `|` where the cursor is.
fn shown(composer: &Composer) -> String {
    let buffer = composer.editor.buffer();
    let (at, end) = (composer.editor.cursor(), buffer.end());
    buffer.slice(Pos::default()..at) + "|" + &buffer.slice(at..end)
}

use super::buffer::Pos;

#[test]
fn emacs_keys() {
    for (typed, expect) in [
        ("one two<C-a>x", "x|one two"),
        ("one two<A-b><A-b><C-d>", "|ne two"),
        ("one two<C-Left>x", "one x|two"),
        ("one two<Home><A-f><C-k>", "one|"),
        ("one, two<C-w>", "one, |"),
        ("one-two<A-BS>", "one-|"),
        ("one two<Home><A-d><A-d>", "|"),
        ("one two<Home><A-d><A-d><C-y>", "one two|"),
        ("a<C-w>b<C-w><C-y><A-y>", "a|"),
        ("one two<C-w><C-w><C-y>", "one two|"),
        ("a<C-j>b<C-u><C-u>", "a|"),
        ("a<S-Enter>b<A-Enter>c", "a\nb\nc|"),
        ("a\\\nb", "a\nb|"),
        ("abc<C-t>", "acb|"),
        ("abc<Left><Left><C-t>", "ba|c"),
        ("one<Home>two<C-_>", "|one"),
        ("one<Home>two<C-_><C-_>", "|"),
        ("one<C-_><A-_>", "one|"),
        ("ab<C-h><BS><BS>", "|"),
        (
            "e\u{301}👨\u{200d}👩\u{200d}👧日<Left><Left>x<BS><Left>",
            "|e\u{301}👨\u{200d}👩\u{200d}👧日",
        ),
        ("👨\u{200d}👩\u{200d}👧<BS>", "|"),
        ("ab<C-j>c<Up><End>x", "abx|\nc"),
        ("ab<C-j>c<C-Home>x", "x|ab\nc"),
    ] {
        let mut composer = Composer::new();
        let _ = composer.view(80, 10);
        press(&mut composer, typed);
        assert_eq!(shown(&composer), expect, "{typed}");
    }
}

#[test]
fn what_was_cleared_comes_back() {
    let mut composer = Composer::new();
    press(&mut composer, "one");
    composer.paste("long\n".repeat(20));
    let written = composer.draft();
    composer.clear();
    assert!(composer.is_empty());
    press(&mut composer, "<C-_>");
    assert_eq!(composer.draft(), written);
    press(&mut composer, "<C-_><C-_>");
    assert!(composer.is_empty());
}

#[test]
fn vi_keys() {
    for (text, typed, expect) in [
        ("one two", "0x", "|ne two"),
        ("one two", "0dw", "|two"),
        ("one two three", "02dw", "|three"),
        ("one two three", "0d2w", "|three"),
        ("one two", "0cwx<Esc>", "|x two"),
        ("one two", "bD", "one| "),
        ("one two", "bCx<Esc>", "one |x"),
        ("a\nb\nc", "kdd", "a\n|c"),
        ("a\nb\nc", "dd", "a\n|b"),
        ("a\nb\nc", "gg2dd", "|c"),
        ("a\nb\nc", "ggdG", "|"),
        ("a\nb", "ggyyp", "a\n|a\nb"),
        ("a\nb", "YggP", "|b\na\nb"),
        ("a b", "0ywP", "a| a b"),
        ("abc", "0xp", "b|ac"),
        ("one two", "0wx.", "one |o"),
        ("one two", "0ix<Esc>ll.", "xo|xne two"),
        ("one", "0cwab<Esc>u", "|one"),
        ("one", "ddu<C-r>", "|"),
        ("a(b)c", "0f)x", "a(b|c"),
        ("a,b,c", "0t,x;", ",|b,c"),
        ("a,b,c", "0f,;r-", "a,b|-c"),
        ("a,b,c", "0f,;,", "a|,b,c"),
        ("a,b,c", "dF,", "a,b|c"),
        ("  one", "0^x", "  |ne"),
        ("one", "I  <Esc>Ax<Esc>", "  one|x"),
        ("one", "Oa<Esc>jok<Esc>", "a\none\n|k"),
        ("one.two", "0wx", "one|two"),
        ("one two", "0ee", "one tw|o"),
        ("one two", "ge", "one tw|o"),
        ("one\ntwo", "gg$", "on|e\ntwo"),
        ("one\ntwo\nthree", "2G", "one\n|two\nthree"),
        ("日本語", "0lx", "日|語"),
    ] {
        let mut composer = Composer::new();
        let _ = composer.view(80, 10);
        composer.set_vi(true);
        composer.restore(Draft::plain(text));
        press(&mut composer, "<Esc>");
        press(&mut composer, typed);
        assert_eq!(shown(&composer), expect, "{text:?} {typed}");
    }
}

#[test]
fn the_mode_is_reported_and_escape_twice_is_for_the_application() {
    let mut composer = Composer::new();
    assert_eq!(composer.mode(), None);
    assert_eq!(press(&mut composer, "a<Esc>"), Outcome::Ignored);
    composer.set_vi(true);
    assert_eq!(composer.mode(), Some(Mode::Insert));
    assert_eq!(press(&mut composer, "<Esc>"), Outcome::Changed);
    assert_eq!(composer.mode(), Some(Mode::Normal));
    assert_eq!(press(&mut composer, "<Esc>"), Outcome::Ignored);
    assert_eq!(press(&mut composer, "<Enter>"), Outcome::Submitted(Draft::plain("a")));
    assert_eq!(composer.mode(), Some(Mode::Insert));
}

#[test]
fn keys_without_a_use_are_for_the_application() {
    let mut composer = Composer::new();
    for typed in ["<Enter>", "<Tab>", "<Up>", "<Down>", "<C-d>", "<C-c>", "<Esc>", "<C-r>", "<C-z>"]
    {
        assert_eq!(press(&mut composer, typed), Outcome::Ignored, "{typed}");
    }
    assert_eq!(press(&mut composer, "a<C-d>"), Outcome::Changed);
    assert_eq!(press(&mut composer, "  \n"), Outcome::Submitted(Draft::plain("a  ")));
    assert!(composer.is_empty());
}

#[test]
fn long_pastes_are_one_element_and_sent_whole() {
    let mut composer = Composer::new();
    let pasted = "line\n".repeat(120);
    press(&mut composer, "see ");
    composer.paste(pasted.clone());
    press(&mut composer, "!");
    assert_eq!(composer.view(60, 5).text(), "› see [Pasted text #1, 120 lines]!\n");
    let draft = composer.draft();
    assert_eq!(draft.text, format!("see {pasted}!"));
    assert_eq!(draft.elements[0].range, 4..604);
    press(&mut composer, "<BS><BS>");
    assert_eq!(shown(&composer), "see |");
    press(&mut composer, "<C-_>");
    assert_eq!(composer.draft().text, format!("see {pasted}"));
    // Short ones are text.
    composer.paste("a\nb".to_owned());
    assert!(composer.draft().text.ends_with("a\nb"));
}

#[test]
fn drafts_survive_json_and_come_back_as_they_were() {
    let mut composer = Composer::new();
    composer.paste("x".repeat(2000));
    press(&mut composer, " and ");
    composer.attach_image("/tmp/photo.png", Some((640, 480)));
    press(&mut composer, " \u{10abcd}<C-j>end");
    let draft = composer.draft();
    let json = serde_json::to_string(&draft).unwrap();
    let mut other = Composer::new();
    other.restore(serde_json::from_str(&json).unwrap());
    assert_eq!(other.draft(), draft);
    let view = "› [Pasted text #1, 2000 characters] and
  [Image #1 640×480 photo.png] \\u{10abcd}
  end
";
    assert_eq!(other.view(44, 9).text(), view);
    let inputs = draft.inputs();
    assert_eq!(inputs[0], UserInput::LocalImage { path: "/tmp/photo.png".to_owned() });
    let UserInput::Text { text, text_elements } = &inputs[1] else { panic!("{inputs:?}") };
    assert!(text.ends_with(" and [Image #1 640×480 photo.png] \u{10abcd}\nend"));
    let placeholders: Vec<_> =
        text_elements.iter().map(|it| it.placeholder.clone().unwrap()).collect();
    assert_eq!(placeholders, ["[Pasted text #1, 2000 characters]", "[Image #1 640×480 photo.png]"]);
}

#[test]
fn a_damaged_draft_keeps_its_text() {
    let element = |start, end| DraftElement {
        range: start..end,
        label: "[x]".to_owned(),
        kind: ChipKind::Pasted,
    };
    let elements = vec![element(1, 2), element(0, 3), element(2, 4), element(9, 12), element(7, 5)];
    let draft = Draft { text: "aéb日".to_owned(), elements };
    let mut composer = Composer::new();
    composer.restore(draft.clone());
    assert_eq!(composer.draft().text, draft.text);
}

#[test]
fn unmarked_pastes_are_recognised_and_nothing_is_lost() {
    let mut composer = Composer::new();
    let text = format!("{}\ttab\\\nend", "0123456789 ".repeat(1000));
    for key in keys(&text.replace('\t', "<Tab>")) {
        assert_eq!(composer.key(key, 1000), Outcome::Changed);
        assert!(!composer.is_empty());
    }
    assert_eq!(composer.draft().text, text);
    assert_eq!(composer.tick(1059), Outcome::Ignored);
    assert_eq!(composer.tick(1060), Outcome::Changed);
    assert_eq!(composer.draft().text, text);
    assert_eq!(composer.view(60, 4).text(), "› [Pasted text #1, 2 lines]\n");
    assert_eq!(composer.deadline(), None);
    // A short one is not sent after its first line.
    let mut composer = Composer::new();
    keys("ab\ncd").into_iter().for_each(|key| assert_eq!(composer.key(key, 7), Outcome::Changed));
    assert_eq!(composer.draft().text, "ab\ncd");
    // What a person types is sent, two quick keys or not.
    let mut composer = Composer::new();
    composer.key(Key::plain(Code::Char('o')), 0);
    composer.key(Key::plain(Code::Char('k')), 20);
    assert_eq!(composer.key(Key::plain(Code::Enter), 25), Outcome::Changed);
    assert_eq!(composer.deadline(), Some(85));
    assert_eq!(composer.tick(84), Outcome::Ignored);
    assert_eq!(composer.tick(85), Outcome::Submitted(Draft::plain("ok")));
    // After a pause, at once.
    composer.key(Key::plain(Code::Char('o')), 100);
    let outcome = composer.key(Key::plain(Code::Enter), 161);
    assert_eq!(outcome, Outcome::Submitted(Draft::plain("o")));
    // Switched off.
    composer.set_paste_burst_disabled(true);
    let outcome = keys("abcdef\n").into_iter().map(|key| composer.key(key, 20)).last();
    assert_eq!(outcome, Some(Outcome::Submitted(Draft::plain("abcdef"))));
}

#[test]
fn unmarked_pastes_in_pieces_are_one_element_and_send_nothing() {
    let long = format!("{}\n", "x".repeat(83)).repeat(120);
    let short = "a\n\nb\n".repeat(300);
    for text in [long, short] {
        for piece in [1, 2, 7, 64, 1_000, text.len()] {
            let (mut composer, mut now) = (Composer::new(), 1_000);
            for part in text.as_bytes().chunks(piece) {
                for key in keys(std::str::from_utf8(part).unwrap()) {
                    assert_eq!(composer.tick(now), Outcome::Ignored);
                    assert_eq!(composer.key(key, now), Outcome::Changed, "pieces of {piece}");
                }
                now += 50;
            }
            assert_eq!(composer.tick(now + 60), Outcome::Changed);
            assert_eq!(composer.draft().text, text, "pieces of {piece}");
            let shown = composer.view(60, 4).text();
            assert!(shown.starts_with("› [Pasted text #1, "), "pieces of {piece}: {shown}");
        }
    }
}

fn command(name: &str, hint: Option<&str>, is_available: bool) -> Command {
    let description = format!("Does {name}");
    Command { name: name.to_owned(), description, hint: hint.map(str::to_owned), is_available }
}

#[test]
fn commands_complete() {
    let mut composer = Composer::new();
    let commands = vec![
        command("model", None, true),
        command("rename", Some("<name>"), true),
        command("compact", None, false),
    ];
    composer.set_commands(commands);
    press(&mut composer, "/");
    let list = "› /model          Does model
  /rename <name>  Does rename
  /compact        Does compact (not now)
";
    assert_eq!(composer.completions(60).unwrap().text(), list);
    press(&mut composer, "m");
    let first = composer.completions(60).unwrap().text();
    assert!(first.starts_with("› /model"), "{first}");
    press(&mut composer, "<BS>ren<Enter>");
    assert_eq!(shown(&composer), "/rename |");
    assert!(composer.completions(60).is_none());
    let outcome = press(&mut composer, "x<Enter>");
    assert_eq!(outcome, Outcome::Submitted(Draft::plain("/rename x")));
    assert_eq!(Draft::plain("/rename x y").command(), Some(("rename", "x y")));
    assert_eq!(Draft::plain("/usr/bin x").command(), None);
    assert_eq!(press(&mut composer, "/mo<Enter>"), Outcome::Submitted(Draft::plain("/model ")));
    // Esc closes the list, and what was typed is sent as it is.
    let outcome = press(&mut composer, "/mo<Esc><Enter>");
    assert_eq!(outcome, Outcome::Submitted(Draft::plain("/mo")));
    press(&mut composer, "/tmp/x");
    assert!(composer.completions(60).is_none());
}

#[test]
fn files_and_skills_complete() {
    let file = |path: &str| Candidate {
        label: path.to_owned(),
        detail: String::new(),
        matches: vec![0],
        insertion: Insertion::Text(format!("{path} ")),
    };
    let mut composer = Composer::new();
    press(&mut composer, "see @m");
    let old = composer.query().unwrap();
    press(&mut composer, "a");
    let query = composer.query().unwrap();
    assert_eq!((query.text.as_str(), query.kind), ("ma", QueryKind::Files));
    composer.set_files(old.token, vec![file("old.rs")]);
    assert_eq!(composer.completions(60).unwrap().text(), "searching …\n");
    composer.set_files(query.token, (0..20).map(|it| file(&format!("{it}.rs"))).collect());
    press(&mut composer, "<Up>");
    let list = composer.completions(60).unwrap();
    assert_eq!(list.lines.len(), 8);
    assert_eq!(list.lines[7].text().trim_end(), "› 19.rs");
    press(&mut composer, "<Tab>");
    assert_eq!(shown(&composer), "see 19.rs |");
    assert_eq!(composer.query(), None);
    let skill = Insertion::Skill { name: "review".to_owned(), path: "/s/SKILL.md".to_owned() };
    let skill = Candidate { insertion: skill, ..file("review") };
    composer.set_skills(vec![skill]);
    press(&mut composer, "$rvw<Enter>it");
    assert_eq!(composer.view(60, 1).text(), "› see 19.rs $review it\n");
    let inputs = composer.draft().inputs();
    let expect = UserInput::Skill { name: "review".to_owned(), path: "/s/SKILL.md".to_owned() };
    assert_eq!(inputs[1], expect);
}

#[test]
fn views_of_all_sizes() {
    let mut composer = Composer::new();
    composer.set_placeholder("Ask for anything");
    assert_eq!(composer.view(40, 5).text(), "› Ask for anything\n");
    press(&mut composer, "a long line of words that wraps 日本語");
    composer.paste("\nb\u{1b}[2J\nc".to_owned());
    let view = composer.view(40, 12);
    let expect = "› a long line of words that wraps\n  日本語\n  b\\u{1b}[2J\n  c\n";
    assert_eq!(view.text(), expect);
    assert_eq!(view.cursor, Some((3, 3)));
    assert_eq!(composer.view(120, 40).lines.len(), 3);
    assert_eq!(composer.view(80, 24).lines.len(), 3);
    let view = composer.view(10, 3);
    assert_eq!(view.text(), "  b\\u{1b}\n  [2J\n  c\n");
    assert_eq!(view.cursor, Some((2, 3)));
    composer.key(Key { ctrl: true, ..Key::plain(Code::Home) }, 0);
    assert_eq!(composer.view(10, 1).text(), "› a long\n");
    for columns in 0..12 {
        for rows in 0..5 {
            let view = composer.view(columns, rows);
            assert!(view.lines.len() <= rows, "{columns}x{rows}");
            assert!(view.lines.iter().all(|line| line.width() <= columns), "{columns}x{rows}");
        }
    }
}

#[test]
fn shell_commands_and_paths_of_images() {
    assert_eq!(Draft::plain("! ls -l ").shell(), Some("ls -l"));
    assert_eq!(Draft::plain("!").shell(), None);
    assert_eq!(Draft::plain(" !ls").shell(), None);
    for (text, expect) in [
        ("/a/b.png", Some("/a/b.png")),
        ("'/a/b c.PNG' ", Some("/a/b c.PNG")),
        ("/a/b\\ c.jpg", Some("/a/b c.jpg")),
        ("file:///a/b%20c.webp", Some("/a/b c.webp")),
        ("file:///a/%zz.png", None),
        ("/a/b.rs", None),
        ("see a.png", None),
        ("a.png\nb.png", None),
        (".png", None),
    ] {
        assert_eq!(Composer::pasted_path(text), expect.map(PathBuf::from), "{text}");
    }
}

#[test]
fn a_large_text_stays_quick() {
    let mut composer = Composer::new();
    composer.restore(Draft::plain("0123456789 abcdef\n".repeat(600_000)));
    for at in 0..10_000 {
        composer.key(Key::plain(Code::Char('x')), at * 100);
        if at % 20 == 0 {
            let _ = composer.view(80, 10);
        }
    }
    assert_eq!(composer.draft().text.len(), 600_000 * 18 + 10_000);
}

proptest! {
    #[test]
    fn any_keys_in_any_mode_keep_the_state_whole(
        vi in any::<bool>(),
        presses in proptest::collection::vec((0usize..60, 0u64..30), 0..200),
    ) {
        let names = "a|b| |日|e\u{301}|<Esc>|<Left>|<Right>|<Up>|<Down>|<BS>|<Del>|<C-w>|<C-k>|<C-y>|\
            <A-y>|<C-_>|<A-_>|<C-t>|<C-j>|d|c|y|w|e|$|0|2|G|g|x|p|P|o|O|.|u|f|t|;|,|r|i|A|@|/|<Tab>|\
            \\|\n|<Home>|<End>|<C-u>|<C-d>|<A-d>|k|j|h|l|D|C|S|Y";
        let names: Vec<&str> = names.split('|').collect();
        let mut composer = Composer::new();
        composer.set_vi(vi);
        composer.set_commands(vec![command("abc", None, true)]);
        let mut now = 0;
        for (name, wait) in presses {
            now += wait;
            for key in keys(names[name % names.len()]) {
                composer.key(key, now);
            }
            composer.tick(now);
            let view = composer.view(12, 4);
            prop_assert!(view.lines.len() <= 4 && view.cursor.is_some_and(|(row, _)| row < view.lines.len()));
            let draft = composer.draft();
            let mut other = Composer::new();
            other.restore(draft.clone());
            prop_assert_eq!(other.draft(), draft);
        }
    }
}

#[test]
fn a_message_that_was_sent_is_edited_with_its_parts() {
    let image = |path: &str| UserInput::LocalImage { path: path.to_owned() };
    let file = UserInput::Mention { name: "a.rs".to_owned(), path: "/work/a.rs".to_owned() };
    let skill = UserInput::Skill { name: "prices".to_owned(), path: "/s/SKILL.md".to_owned() };
    // As it was written here.
    let element = |range: std::ops::Range<u64>, label: &str| protocol::TextElement {
        byte_range: protocol::ByteRange { start: range.start, end: range.end },
        placeholder: Some(label.to_owned()),
    };
    let text = UserInput::Text {
        text: "see [Image #1 a.png] and @a.rs, long".to_owned(),
        text_elements: vec![
            element(4..20, "[Image #1 a.png]"),
            element(25..30, "@a.rs"),
            element(32..36, "[Pasted text #1, 4 characters]"),
        ],
    };
    let input = vec![image("/tmp/a.png"), text, file];
    let draft = Draft::received(&input).unwrap();
    assert_eq!(draft.inputs(), input);
    assert_eq!(draft.shown(), "see [Image #1 a.png] and @a.rs, [Pasted text #1, 4 characters]");
    // Parts that the text does not name follow it.
    let draft = Draft::received(&["go".into(), skill.clone(), image("/tmp/b.png")]).unwrap();
    assert_eq!(draft.text, "go $prices [Image #1 b.png]");
    assert!(draft.inputs().contains(&skill) && draft.inputs().contains(&image("/tmp/b.png")));
    // Spans that are none are text.
    for range in [1..1, 5..90] {
        let text_elements = vec![element(range, "x")];
        let text = UserInput::Text { text: "äbc".to_owned(), text_elements };
        assert_eq!(Draft::received(&[text]).unwrap(), Draft::plain("äbc"));
    }
    assert_eq!(Draft::received(&[UserInput::Image { url: "data:".to_owned() }]), None);
}
