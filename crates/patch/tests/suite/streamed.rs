//! Patches that stream in: the same operations as when they are read at once, wherever the pieces
//! are cut.

use patch::{Operation, StreamedPatch, parse};
use proptest::prelude::*;

fn pushed(pieces: &[&str]) -> StreamedPatch {
    let mut streamed = StreamedPatch::default();
    pieces.iter().for_each(|piece| streamed.push(piece));
    streamed
}

#[test]
fn operations_grow_with_complete_lines() {
    let shown = |text: &str| -> Vec<String> {
        let operations = pushed(&[text]).operations();
        operations
            .iter()
            .map(|operation| match operation {
                Operation::Add { path, contents } => format!("add {path} {contents:?}"),
                Operation::Delete { path } => format!("delete {path}"),
                Operation::Update { path, move_to, hunks } => {
                    format!("update {path} {move_to:?} {}", hunks.len())
                }
            })
            .collect()
    };
    let check = |text: &str, expected: &[&str]| assert_eq!(shown(text), expected, "{text:?}");
    check("", &[]);
    check("*** Begin Patch\n", &[]);
    check("*** Begin Patch\n*** Add File: a", &[]);
    check("*** Begin Patch\n*** Add File: ab\n", &["add ab \"\""]);
    check("*** Begin Patch\n*** Add File: a\n+x\n+y", &["add a \"x\\n\""]);
    check("*** Begin Patch\n*** Update File: a\n", &["update a None 0"]);
    check("*** Begin Patch\n*** Update File: a\n@@\n", &["update a None 0"]);
    check(
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n@@ fn\n",
        &["update a Some(\"b\") 1"],
    );
    check("*** Begin Patch\n*** Delete File: a\n*** End Patch", &["delete a"]);
    check("*** Begin Patch\n*** Delete File: a\nnonsense\n", &["delete a"]);
    check("nothing of the kind\nat all\n", &[]);
    check("  *** Begin Patch\n  *** Add File: a\n  +x\n", &["add a \"x\\n\""]);
}

#[test]
fn the_text_is_found_in_json() {
    let check = |arguments: &str, expected: &str| {
        for at in (0..=arguments.len()).filter(|at| arguments.is_char_boundary(*at)) {
            let (first, second) = arguments.split_at(at);
            assert_eq!(pushed(&[first, second]).text(), expected, "{arguments} at {at}");
        }
    };
    check(r#"{"input":"a\nb\u00e9\ud83d\ude00\"\\\/"}"#, "a\nbé😀\"\\/");
    check(r#" { "x" : [1,{"input":"no"}], "patch" : "yes" , "input":"late"}"#, "yes");
    check(r#"{"input":null,"patch":"p"}"#, "p");
    check(r#""a\tb" rest"#, "a\tb");
    check("\n*** Begin {\"input\":1}", "\n*** Begin {\"input\":1}");
    check(r#"{"input":"\ud83dx\u12"#, "x");
    check("{}}}}{\"input\":\"x\"}", "");
}

fn valid_patch() -> impl Strategy<Value = String> {
    let word =
        || prop::sample::select(vec!["a", "b c", "é", "", "*** x", "@@ y", "-z", "\u{1f600}"]);
    let added = prop::collection::vec(word(), 0..4).prop_map(|lines| {
        lines.iter().fold("*** Add File: n\n".to_owned(), |text, line| text + "+" + line + "\n")
    });
    let sign = prop::sample::select(vec![" ", "-", "+"]);
    let hunk = prop::collection::vec((sign, word()), 1..5).prop_map(|lines| {
        lines.iter().fold("@@\n".to_owned(), |text, (sign, line)| text + sign + line + "\n")
    });
    let updated =
        (prop::bool::ANY, prop::collection::vec(hunk, 1..3)).prop_map(|(moves, hunks)| {
            let to = if moves { "*** Move to: m\n" } else { "" };
            format!("*** Update File: u\n{to}{}", hunks.concat())
        });
    let operation = prop_oneof![added, Just("*** Delete File: d\n".to_owned()), updated];
    prop::collection::vec(operation, 1..5)
        .prop_map(|all| format!("*** Begin Patch\n{}*** End Patch\n", all.concat()))
}

proptest! {
    /// Whatever the pieces and the form of the arguments, the last operations are those of the patch.
    #[test]
    fn a_whole_patch_is_read_as_at_once(
        patch in valid_patch(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        is_json in prop::bool::ANY,
    ) {
        let arguments = match is_json {
            true => serde_json::json!({ "input": patch }).to_string(),
            false => patch.clone(),
        };
        let chars: Vec<char> = arguments.chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len())).collect();
        cuts.extend([0, chars.len()]);
        cuts.sort_unstable();
        let mut streamed = StreamedPatch::default();
        let mut last = 0;
        for ends in cuts.windows(2) {
            streamed.push(&chars[ends[0]..ends[1]].iter().collect::<String>());
            let operations = streamed.operations();
            prop_assert!(operations.len() >= last);
            last = operations.len();
        }
        prop_assert_eq!(streamed.text(), &patch);
        prop_assert_eq!(streamed.operations(), parse(&patch).unwrap().operations);
    }
}
