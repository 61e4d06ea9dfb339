//! Images by paste, by path and from the clipboard.

use std::path::PathBuf;

use tui::app::{Effect, Event};
use tui::image::{FoundImage, ImageSource, NoImage};
use tui::terminal::input::{Code, Input, Key};

use crate::harness::Bench;

fn sought(bench: &mut Bench) -> ImageSource {
    match bench.others.pop() {
        Some(Effect::FindImage(source)) => source,
        other => panic!("no image is looked for: {other:?}"),
    }
}

fn paste(bench: &mut Bench, text: &str) {
    bench.event(Event::Input(Input::Paste(text.to_owned())));
}

fn found(path: &str) -> Result<FoundImage, NoImage> {
    Ok(FoundImage { path: PathBuf::from(path), size: Some((640, 480)) })
}

#[test]
fn a_pasted_path_becomes_the_image() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        for (text, path) in [
            ("/tmp/a.png", "/tmp/a.png"),
            ("'/tmp/a b.png'", "/tmp/a b.png"),
            ("/tmp/a\\ b.png ", "/tmp/a b.png"),
            ("/tmp/a b.png", "/tmp/a b.png"),
            ("file:///tmp/a%20b.png", "/tmp/a b.png"),
            ("shots/a.jpeg", "/work/shots/a.jpeg"),
        ] {
            let mut bench = Bench::open(columns, rows);
            bench.type_text("see ");
            paste(&mut bench, text);
            let source = sought(&mut bench);
            let expected = ImageSource::Pasted { text: text.to_owned(), path: PathBuf::from(path) };
            assert_eq!(source, expected);
            bench.event(Event::Image(source, found(path)));
            let shown = bench.shown();
            assert!(shown.contains("› see [Image #1 640×480 a"), "{shown}");
            bench.key(Key::plain(Code::Enter));
            let (_, params) = bench.call("turn/start");
            assert_eq!(params["input"][0]["type"], "localImage");
            assert_eq!(params["input"][0]["path"], path);
        }
    }
}

#[test]
fn what_is_no_image_stays_text_with_the_reason() {
    for (why, notice) in [
        (NoImage::Missing, None),
        (
            NoImage::Because("a.png: it is a FIFO".to_owned()),
            Some("Sent as text: a.png: it is a FIFO"),
        ),
    ] {
        let mut bench = Bench::open(80, 24);
        paste(&mut bench, "/tmp/a.png");
        let source = sought(&mut bench);
        bench.event(Event::Image(source, Err(why)));
        assert!(bench.shown().contains("› /tmp/a.png"), "{}", bench.shown());
        assert_eq!(bench.shown().contains("Sent as text"), notice.is_some());
        assert!(notice.is_none_or(|notice| bench.shown().contains(notice)), "{}", bench.shown());
    }
}

#[test]
fn what_is_typed_behind_a_path_comes_behind_the_image() {
    let mut bench = Bench::open(80, 24);
    paste(&mut bench, "/tmp/a.png");
    let first = sought(&mut bench);
    bench.type_text(" and ");
    paste(&mut bench, "/tmp/b.png");
    bench.type_text(" differ");
    bench.key(Key::plain(Code::Enter));
    assert!(bench.calls.is_empty() && bench.others.is_empty());
    bench.event(Event::Image(first, found("/tmp/a.png")));
    let second = sought(&mut bench);
    assert!(bench.calls.is_empty());
    bench.event(Event::Image(second, found("/tmp/b.png")));
    let (_, params) = bench.call("turn/start");
    assert_eq!(
        params["input"][2]["text"],
        "[Image #1 640×480 a.png] and [Image #2 640×480 b.png] differ"
    );
}

#[test]
fn a_path_whose_file_system_hangs_is_given_up_after_many_keys() {
    let mut bench = Bench::open(80, 24);
    paste(&mut bench, "/tmp/a.png");
    let source = sought(&mut bench);
    for _ in 0..4_096 {
        bench.app.handle(Event::Input(Input::Key(Key::plain(Code::Char('x')))), bench.now);
    }
    bench.now += 1_000;
    bench.type_text("y");
    bench.event(Event::Image(source, found("/tmp/a.png")));
    let text = bench.app.unsent().text;
    assert!(text.starts_with("/tmp/a.pngxxx") && text.ends_with("xy"), "{text}");
}

#[test]
fn a_named_file_is_added_or_the_reason_printed() {
    let mut bench = Bench::open(80, 24);
    bench.send("/image ~/x.png");
    let source = sought(&mut bench);
    assert_eq!(source, ImageSource::Named(PathBuf::from("/work/~/x.png")));
    bench.event(Event::Image(source.clone(), found("/home/u/x.png")));
    assert!(bench.shown().contains("[Image #1 640×480 x.png]"), "{}", bench.shown());
    assert_eq!(bench.app.images_in_use(), [PathBuf::from("/home/u/x.png")]);
    bench.event(Event::Image(source, Err(NoImage::Missing)));
    assert!(bench.printed.contains("There is no file /work/~/x.png"), "{}", bench.printed);
}

#[test]
fn the_image_of_the_clipboard_is_asked_for_once() {
    let mut bench = Bench::open(80, 24);
    bench.key(Key::ctrl('v'));
    bench.key(Key::ctrl('v'));
    assert_eq!(sought(&mut bench), ImageSource::Clipboard);
    assert!(bench.others.is_empty());
    assert!(bench.shown().contains("Reading the clipboard"), "{}", bench.shown());
    bench.type_text("quick ");
    bench.event(Event::Image(ImageSource::Clipboard, found("/home/u/c.png")));
    assert!(bench.shown().contains("› quick [Image #1"), "{}", bench.shown());
    bench.key(Key::ctrl('v'));
    let why = NoImage::Because("install wl-clipboard".to_owned());
    bench.event(Event::Image(ImageSource::Clipboard, Err(why)));
    assert!(bench.printed.contains("install wl-clipboard"), "{}", bench.printed);
    bench.key(Key::ctrl('v'));
    bench.event(Event::Image(ImageSource::Clipboard, Err(NoImage::Missing)));
    assert!(bench.shown().contains("There is no image in the clipboard"), "{}", bench.shown());
}
