//! Reading of Markdown as the checks need it: links with their places, the anchors of headings, and fenced
//! blocks. Renders nothing.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

/// The extensions that both GitHub and mdbook have.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// The parts of a page, in the order of the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub links: Vec<Link>,
    /// The anchors of headings, as GitHub and mdbook make them, and those that HTML in the page names.
    pub anchors: HashSet<String>,
    pub blocks: Vec<Block>,
}

/// A link or an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// From 1.
    pub line: usize,
    pub target: String,
    /// Where the target stands in the text. `None` for a reference, whose target stands elsewhere.
    pub place: Option<Range<usize>>,
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Of its first fence, from 1.
    pub line: usize,
    /// The first word after the fence; may be empty.
    pub language: String,
    pub text: String,
    /// The code span that ends the paragraph right before the block, as in "Save this as `a.py`:".
    pub name: Option<String>,
}

impl Page {
    pub fn parse(text: &str) -> Page {
        let page = Page::default();
        let mut reader = Reader { text, page, heading: None, in_block: false, last_span: None };
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            reader.read(event, range);
        }
        reader.page
    }
}

/// A page while it is read.
struct Reader<'t> {
    text: &'t str,
    page: Page,
    /// The text of the open heading.
    heading: Option<String>,
    /// True if the last block is open.
    in_block: bool,
    /// The code span that has only a colon after it so far.
    last_span: Option<String>,
}

impl Reader<'_> {
    fn read(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.add_link(&dest_url, range);
            }
            Event::Start(Tag::Heading { .. }) => self.heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => self.end_heading(),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                self.start_block(&info, range);
            }
            Event::End(TagEnd::CodeBlock) => self.in_block = false,
            Event::Text(text) => self.add_text(&text),
            Event::Code(span) => {
                self.add_heading_text(&span);
                self.last_span = Some(span.into_string());
            }
            Event::InlineHtml(html) | Event::Html(html) => self.add_html(&html),
            Event::End(TagEnd::Paragraph) => {}
            _ => self.last_span = None,
        }
    }

    fn line(&self, place: usize) -> usize {
        self.text[..place].matches('\n').count() + 1
    }

    fn add_link(&mut self, target: &CowStr<'_>, range: Range<usize>) {
        let source = &self.text[range.clone()];
        // The text of a link may quote its target, so the last occurrence is the target.
        let place = source.rfind(&format!("]({target}")).map(|at| {
            let start = range.start + at + "](".len();
            start..start + target.len()
        });
        let line = self.line(place.as_ref().map_or(range.start, |place| place.start));
        self.page.links.push(Link { line, target: target.to_string(), place });
        self.last_span = None;
    }

    fn start_block(&mut self, info: &str, range: Range<usize>) {
        let language = info.split([' ', ',']).next().unwrap_or_default().to_owned();
        let (line, name) = (self.line(range.start), self.last_span.take());
        self.in_block = true;
        self.page.blocks.push(Block { line, language, text: String::new(), name });
    }

    fn add_text(&mut self, text: &str) {
        if self.in_block {
            self.page.blocks.last_mut().into_iter().for_each(|block| block.text.push_str(text));
            return;
        }
        self.add_heading_text(text);
        if self.last_span.is_none() || text != ":" {
            self.last_span = None;
        }
    }

    fn add_heading_text(&mut self, text: &str) {
        if let Some(heading) = &mut self.heading {
            heading.push_str(text);
        }
    }

    fn end_heading(&mut self) {
        let Some(heading) = self.heading.take() else { return };
        let plain = anchor(&heading);
        let mut unique = plain.clone();
        let mut number = 0;
        while !self.page.anchors.insert(unique) {
            number += 1;
            unique = format!("{plain}-{number}");
        }
    }

    fn add_html(&mut self, html: &str) {
        for attribute in ["id=\"", "name=\""] {
            let values = html.split(attribute).skip(1).filter_map(|rest| rest.split_once('"'));
            self.page.anchors.extend(values.map(|(value, _)| value.to_owned()));
        }
        self.last_span = None;
    }
}

/// The anchor of a heading that is the first of its name.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c => c.is_whitespace().then_some('-'),
    });
    kept.collect()
}

/// Returns whether a target names a place outside of the checkout.
pub fn is_external(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|start| target.starts_with(start))
}

/// The file that a relative target names, from the root, and its anchor. `None` when it is external or
/// leaves the checkout.
pub fn resolve(from: &Path, target: &str) -> Option<(PathBuf, Option<String>)> {
    if is_external(target) {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor.to_owned())),
        None => (target, None),
    };
    if file.is_empty() {
        return Some((from.to_owned(), anchor));
    }
    let mut path = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some((path, anchor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_with_their_places() {
        for (text, expected) in [
            ("[a](b.md) and [c](d.md#e)", vec!["b.md", "d.md#e"]),
            ("[`code`](b.md)", vec!["b.md"]),
            ("`[a](b.md)`", vec![]),
            ("```\n[a](b.md)\n```\n[c](d)", vec!["d"]),
            ("[a](b.md \"title\") ![i](p.png)", vec!["b.md", "p.png"]),
            ("| a |\n|---|\n| [x](y.md) |", vec!["y.md"]),
            ("[b.md](b.md), [two\nlines](c.md)", vec!["b.md", "c.md"]),
            ("a[0](", vec![]),
        ] {
            let links = Page::parse(text).links;
            let found: Vec<&str> = links.iter().map(|link| link.target.as_str()).collect();
            assert_eq!(found, expected, "{text}");
            for link in &links {
                let place = link.place.clone().unwrap();
                assert_eq!(text[place.clone()], link.target);
                assert!(text[..place.start].ends_with("]("), "{text}");
            }
        }
        let reference = &Page::parse("\n[a][b]\n\n[b]: c.md").links[0];
        assert_eq!((reference.line, reference.place.is_none()), (2, true));
    }

    #[test]
    fn anchors_are_those_of_github() {
        for (heading, expected) in [
            ("## Two words", "two-words"),
            ("## `thread/start` and _more_", "threadstart-and-more"),
            ("## [A link](b.md)!", "a-link"),
            ("## Über `--flag`: x_y", "über---flag-x_y"),
            ("<a id=\"own\"></a>", "own"),
        ] {
            let anchors = Page::parse(heading).anchors;
            assert_eq!(anchors, HashSet::from([expected.to_owned()]), "{heading}");
        }
        let twice = Page::parse("# A\n\n# A\n\n# A\n\n```\n# B\n```\n").anchors;
        assert_eq!(twice, ["a", "a-1", "a-2"].map(str::to_owned).into());
    }

    #[test]
    fn blocks_have_their_language_and_the_name_before_them() {
        let text = "Save this as `a.py`:\n\n```python\nprint()\n```\n\nRun `a.py` now:\n\n```sh x\nls\n```\n\n\
                    - in a list, `b.json`:\n\n  ```json\n  {\n   }\n  ```\n\n    not fenced\n";
        let blocks = Page::parse(text).blocks;
        let read: Vec<_> = blocks
            .iter()
            .map(|b| (b.line, b.language.as_str(), b.name.as_deref(), b.text.as_str()))
            .collect();
        let expected = [
            (3, "python", Some("a.py"), "print()\n"),
            (9, "sh", None, "ls\n"),
            (15, "json", Some("b.json"), "{\n }\n"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn targets_are_relative_to_their_page() {
        for (target, expected) in [
            ("b.md", Some(("docs/b.md", None))),
            ("./b.md#part", Some(("docs/b.md", Some("part")))),
            ("../README.md", Some(("README.md", None))),
            ("#part", Some(("docs/a.md", Some("part")))),
            ("../../etc", None),
            ("/etc", None),
            ("https://x.test", None),
        ] {
            let expected = expected.map(|(file, a)| (PathBuf::from(file), a.map(str::to_owned)));
            assert_eq!(resolve(Path::new("docs/a.md"), target), expected, "{target}");
        }
    }
}
