use proptest::prelude::*;
use serde_json::json;

use super::*;

fn context(columns: usize) -> Context {
    Context { columns, ..Context::default() }
}

fn message(id: &str, text: &str) -> ThreadItem {
    serde_json::from_value(json!({ "type": "agentMessage", "id": id, "text": text })).unwrap()
}

fn numbered(from: usize, to: usize) -> Vec<Block> {
    (from..to)
        .map(|n| Block::Item(Box::new(message(&n.to_string(), &format!("message {n}")))))
        .collect()
}

fn press(pager: &mut Pager, keys: &str, context: &Context) -> Outcome {
    let key = |c: char| match c {
        '\n' => Key::plain(Code::Enter),
        '^' => Key::plain(Code::Esc),
        '<' => Key::plain(Code::Backspace),
        c => Key::plain(Code::Char(c)),
    };
    keys.chars().map(|c| pager.key(key(c), context)).last().unwrap()
}

#[test]
fn the_end_stays_on_the_screen_until_the_reader_scrolls() {
    let context = context(40);
    let mut pager = Pager::new("Transcript");
    pager.prepend(numbered(0, 5), false);
    let shown = "Transcript\nmessage 3\n\nmessage 4\n\nend  ↑↓ Space b scroll, g G ends, / sea…\n";
    assert_eq!(pager.view(&context, 6).text(), shown);
    pager.push(numbered(5, 6).remove(0));
    assert!(pager.view(&context, 6).text().contains("message 4\n\nmessage 5"));
    press(&mut pager, "k", &context);
    pager.push(numbered(6, 7).remove(0));
    assert!(!pager.view(&context, 6).text().contains("message 6"));
    press(&mut pager, "G", &context);
    assert!(pager.view(&context, 6).text().contains("message 6"));
    press(&mut pager, "g", &context);
    assert!(pager.view(&context, 6).text().starts_with("Transcript\nmessage 0\n"));
    assert_eq!(press(&mut pager, "q", &context), Outcome::Closed);
}

#[test]
fn what_comes_earlier_is_asked_for_once_and_moves_nothing() {
    let context = context(40);
    let mut pager = Pager::new("Transcript");
    pager.set_has_earlier();
    assert!(pager.needs_earlier() && !pager.needs_earlier());
    assert!(pager.view(&context, 6).text().contains("loading …"));
    pager.prepend(numbered(20, 30), true);
    pager.view(&context, 6);
    assert!(!pager.needs_earlier());
    press(&mut pager, "bbbbbbbb", &context);
    let before = pager.view(&context, 6).text();
    assert!(pager.needs_earlier());
    pager.prepend(numbered(10, 20), true);
    assert_eq!(pager.view(&context, 6).lines[1..5], view_lines(&before));
    press(&mut pager, "g", &context);
    assert!(pager.needs_earlier());
    pager.prepend(numbered(0, 10), false);
    assert!(pager.view(&context, 6).text().contains("message 0\n"));
    assert!(!pager.needs_earlier());
}

fn view_lines(text: &str) -> Vec<Line> {
    text.lines()
        .skip(1)
        .take(4)
        .map(|line| match line {
            "" => Line::default(),
            line => Line::plain(line.to_owned()),
        })
        .collect()
}

#[test]
fn a_search_goes_on_before_what_is_there() {
    let context = context(80);
    let mut pager = Pager::new("Transcript");
    pager.prepend(numbered(20, 40), true);
    pager.view(&context, 6);
    press(&mut pager, "/message 3\n", &context);
    assert!(pager.view(&context, 6).text().starts_with("Transcript\nmessage 3"));
    assert!(!pager.needs_earlier());
    press(&mut pager, "/message 7\n", &context);
    assert!(pager.view(&context, 6).text().contains("was not found; earlier turns are being read"));
    assert!(pager.needs_earlier());
    pager.prepend(numbered(10, 20), true);
    pager.go_on_searching(&context);
    assert!(pager.needs_earlier());
    pager.prepend(numbered(0, 10), false);
    pager.go_on_searching(&context);
    assert!(pager.view(&context, 6).text().starts_with("Transcript\nmessage 7\n"));
    press(&mut pager, "N", &context);
    assert!(!pager.needs_earlier());
    assert!(pager.view(&context, 6).text().contains("was not found."));
}

#[test]
fn every_match_is_reached_up_to_the_last_row() {
    let context = context(40);
    let lines = (0..30).map(|n| Line::plain((if n % 9 == 2 { "here" } else { "-" }).to_string()));
    let mut pager = Pager::of_lines("Lines", lines.collect());
    pager.view(&context, 12);
    press(&mut pager, "/HERE\n", &context);
    assert!(pager.view(&context, 12).text().contains("was not found"));
    press(&mut pager, "/here\n", &context);
    let mut places = vec![pager.search_place()];
    for _ in 0..2 {
        press(&mut pager, "n", &context);
        pager.view(&context, 12);
        places.push(pager.search_place());
    }
    assert_eq!(places, [Some(2), Some(11), Some(20)]);
    press(&mut pager, "nnn", &context);
    pager.view(&context, 12);
    assert_eq!(pager.search_place(), Some(29));
    press(&mut pager, "N", &context);
    assert_eq!(pager.search_place(), Some(20));
}

#[test]
fn running_items_grow_in_their_place() {
    let context = context(40);
    let mut pager = Pager::new("Transcript");
    pager.set_item(&message("a", "Hel"));
    pager.set_item(&message("b", "other"));
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "a", "delta": "lo" });
    let params = serde_json::value::to_raw_value(&params).unwrap();
    let delta = Delta::read("item/agentMessage/delta", &params).unwrap().unwrap();
    assert!(pager.delta(&delta));
    assert!(pager.view(&context, 9).text().contains("Hello\n\nother"));
    pager.set_item(&message("a", "Hello!"));
    assert!(pager.view(&context, 9).text().contains("Hello!\n\nother"));
}

impl Pager {
    fn search_place(&self) -> Option<usize> {
        self.search.found_row()
    }
}

fn steps() -> impl Strategy<Value = (char, usize, usize)> {
    let keys = prop::sample::select("kj bfudgGnN/q^\n<ae".chars().collect::<Vec<_>>());
    (keys, 0usize..50, 0usize..20)
}

proptest! {
    #[test]
    fn any_keys_and_sizes_leave_a_view_that_fits(steps in prop::collection::vec(steps(), 0..60)) {
        let mut pager = Pager::new("Transcript of a thread");
        let mut next = 100;
        for (key, columns, rows) in steps {
            let context = context(columns);
            let view = pager.view(&context, rows);
            prop_assert!(view.lines.len() <= rows.max(1));
            prop_assert!(view.lines.iter().all(|line| line.width() <= columns.max(2)));
            press(&mut pager, &key.to_string(), &context);
            match rows % 4 {
                0 => { pager.prepend(numbered(next, next + 3), columns > 25); next += 3; }
                1 => { pager.push(numbered(next, next + 1).remove(0)); next += 1; }
                _ => {}
            }
        }
    }
}
