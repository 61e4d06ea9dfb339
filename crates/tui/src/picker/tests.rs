use super::*;
use crate::palette::Palette;

fn row(index: usize) -> Row {
    Row {
        id: index.to_string(),
        title: format!("Thread {index}"),
        detail: "fix\nmore".to_owned(),
        has_hit: false,
        columns: vec!["main".to_owned(), format!("{} h", index % 24)],
    }
}

/// Answers every need as a server with `total` rows does.
fn serve(picker: &mut Picker, total: usize, says_total: bool) -> usize {
    let mut count = 0;
    while let Some(need) = picker.need() {
        let start = need.page * PAGE;
        let rows = (start..total.min(start + PAGE)).map(row).collect();
        picker.set_page(need.token, need.page, rows, says_total.then_some(total));
        count += 1;
    }
    count
}

fn press(picker: &mut Picker, codes: &[Code]) -> Outcome {
    codes.iter().map(|code| picker.key(Key::plain(*code))).last().unwrap()
}

#[test]
fn views_of_all_sizes() {
    let mut picker = Picker::new("Resume").with_folder_filter(true);
    let loading =
        "Resume  this folder\nsearch:\n  loading …\nEnter chooses, Esc cancels, Tab all folders\n";
    assert_eq!(picker.view(80, 24).text(), loading);
    serve(&mut picker, 3, true);
    let text = "\
Resume  1 of 3  this folder
search:
› Thread 0  fix                main  0 h
  Thread 1  fix                main  1 h
  Thread 2  fix                main  2 h
Enter chooses, Esc cancels, Tab all fol…
";
    assert_eq!(picker.view(40, 12).text(), text);
    assert_eq!(picker.view(10, 3).text(), "search:\n› Th…  0 h\n  Th…  1 h\n");
    assert!(picker.needs_preview());
    picker.set_preview("0", vec![Line::plain("What was said"), Line::plain("and done")]);
    assert!(!picker.needs_preview());
    let beside = picker.view(120, 40);
    assert_eq!(beside.lines.len(), 40);
    assert!(beside.lines[2].text().ends_with("│ What was said"), "{}", beside.text());
    let below = picker.view(80, 24);
    assert_eq!(below.lines[16].text().trim_end(), "What was said", "{}", below.text());
    for columns in 0..30 {
        for rows in 0..30 {
            let view = picker.view(columns, rows);
            assert!(view.lines.len() <= rows, "{columns}x{rows}");
            assert!(view.lines.iter().all(|line| line.width() <= columns), "{columns}x{rows}");
        }
    }
}

#[test]
fn a_hundred_thousand_rows_hold_a_few_pages() {
    for says_total in [true, false] {
        let mut picker = Picker::new("Resume");
        let mut asked = serve(&mut picker, 100_000, says_total);
        for _ in 0..500 {
            press(&mut picker, &[Code::PageDown]);
            let _ = picker.view(80, 24);
            asked += serve(&mut picker, 100_000, says_total);
            assert!(picker.pages.held() <= 4 * PAGE, "{}", picker.pages.held());
            assert!(picker.selected().is_some());
        }
        assert!(picker.selected > 9_000 && asked < 240, "{} {asked}", picker.selected);
        press(&mut picker, &[Code::Home]);
        let _ = picker.view(80, 24);
        serve(&mut picker, 100_000, says_total);
        assert_eq!(picker.selected().unwrap().id, "0");
    }
    let mut picker = Picker::new("Resume");
    serve(&mut picker, 100_000, true);
    press(&mut picker, &[Code::End]);
    assert!(picker.view(80, 24).text().contains("› …"));
    assert_eq!(press(&mut picker, &[Code::Enter]), Outcome::Changed);
    serve(&mut picker, 100_000, true);
    assert!(picker.view(80, 24).text().contains("› Thread 99999"));
    assert_eq!(press(&mut picker, &[Code::Enter]), Outcome::Chosen(row(99_999)));
}

#[test]
fn a_search_keeps_the_old_rows_until_the_new_ones_come() {
    let mut picker = Picker::new("Resume").with_folder_filter(false);
    serve(&mut picker, 250, false);
    let old = picker.pages.token();
    press(&mut picker, &[Code::Char('x')]);
    let need = picker.need().unwrap();
    assert_eq!((need.search.as_str(), need.page, need.only_folder), ("x", 0, false));
    assert_eq!(picker.need(), None);
    let quiet = |picker: &Picker| {
        picker.view(80, 24).lines[3].spans.iter().all(|span| span.style() == Palette::QUIET)
    };
    assert!(picker.view(80, 24).text().contains("Thread 1 ") && !quiet(&picker));
    picker.show_stale();
    press(&mut picker, &[Code::Char('y'), Code::Backspace]);
    assert!(picker.view(80, 24).text().contains("Thread 1 ") && quiet(&picker));
    let need = picker.need().unwrap();
    assert_eq!(press(&mut picker, &[Code::Enter]), Outcome::Changed);
    picker.set_page(old, 0, vec![row(7)], None);
    assert!(picker.pages.is_stale());
    picker.set_page(need.token, 0, vec![], None);
    assert!(picker.view(80, 24).text().contains("nothing found"));
    press(&mut picker, &[Code::Tab]);
    assert!(picker.need().unwrap().only_folder);
    picker.set_failure(picker.pages.token(), "the server is gone");
    assert!(picker.view(40, 12).text().contains("the server is gone"));
    assert_eq!(press(&mut picker, &[Code::Esc]), Outcome::Cancelled);
    assert_eq!(press(&mut picker, &[Code::F(1)]), Outcome::Ignored);
}

#[test]
fn short_lists_are_searched_at_once() {
    let mut picker = Picker::fixed("Model", (0..300).map(row).collect());
    assert_eq!(picker.need(), None);
    picker.select("250");
    assert_eq!(picker.selected().unwrap().id, "250");
    picker.paste("thread 12 main");
    assert_eq!(picker.pages.len(), 24);
    assert_eq!(press(&mut picker, &[Code::Down, Code::Enter]), Outcome::Chosen(row(36)));
    press(&mut picker, &[Code::Char('#')]);
    assert!(picker.view(80, 24).text().contains("nothing found"));
    press(&mut picker, &[Code::Backspace]);
    assert_eq!(picker.pages.len(), 24);
}

proptest::proptest! {
    #[test]
    fn any_keys_and_answers_in_any_order_keep_the_list_whole(
        total in 0usize..700,
        says_total in proptest::bool::ANY,
        steps in proptest::collection::vec((0usize..14, 0usize..40), 0..120),
    ) {
        let mut picker = Picker::new("Resume").with_folder_filter(true);
        let mut needs = Vec::new();
        for (step, size) in steps {
            let code = [
                Code::Up, Code::Down, Code::PageUp, Code::PageDown, Code::Home, Code::End, Code::Tab,
                Code::Backspace, Code::Char('a'), Code::Enter,
            ];
            match (code.get(step), step) {
                (Some(code), _) => {
                    picker.key(Key::plain(*code));
                }
                (None, 10 | 11) => needs.extend(picker.need()),
                _ if needs.is_empty() => {}
                _ => {
                    let need: Need = needs.swap_remove(size % needs.len());
                    let start = (need.page * PAGE).min(total);
                    let rows = (start..total.min(start + PAGE)).map(row).collect();
                    picker.set_page(need.token, need.page, rows, says_total.then_some(total));
                }
            }
            let view = picker.view(size * 4, size);
            proptest::prop_assert!(view.lines.len() <= size);
            proptest::prop_assert!(picker.selected < picker.pages.len().max(1));
            proptest::prop_assert!(picker.pages.held() <= pages::MAX_PAGES * PAGE);
        }
    }
}
