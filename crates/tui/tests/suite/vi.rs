//! The keys of Vi.

use tui::terminal::input::{Code, Key};

use crate::harness::Bench;

#[test]
fn vi_keys_are_switched_on_and_off_and_their_mode_is_shown() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let mut bench = Bench::open(columns, rows);
        bench.send("/vim");
        assert!(bench.shown().contains("Vi keys, until the program ends"), "{}", bench.shown());
        assert!(
            bench.shown().contains("\n  INSERT · gpt-x high · asks before edi"),
            "{}",
            bench.shown()
        );
        bench.type_text("one two");
        bench.key(Key::plain(Code::Esc));
        assert!(
            bench.shown().contains("\n  NORMAL · gpt-x high · asks before edi"),
            "{}",
            bench.shown()
        );
        bench.type_text("0dw");
        assert!(bench.shown().contains("› two"), "{}", bench.shown());
        bench.key(Key::plain(Code::Enter));
        assert_eq!(bench.call("turn/start").1["input"][0]["text"], "two");
        assert!(bench.shown().contains("INSERT"), "{}", bench.shown());
        bench.send("/vim");
        assert!(bench.shown().contains("Emacs keys."), "{}", bench.shown());
        assert!(!bench.shown().contains("INSERT"), "{}", bench.shown());
    }
}

#[test]
fn escape_leaves_the_inserting_first_and_interrupts_then() {
    let mut bench = Bench::open(80, 24);
    bench.send("/vim");
    bench.begin_turn("go");
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty());
    bench.key(Key::plain(Code::Esc));
    bench.call("turn/interrupt");
}
