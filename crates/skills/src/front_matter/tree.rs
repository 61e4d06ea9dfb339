//! A YAML mapping as a tree, with the line of each key.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScanError, Span, StrInput, Tag};

use crate::problem::Fault;

/// Collections within collections.
const MAX_DEPTH: usize = 8;
/// Keys and values of a front matter.
const MAX_NODES: usize = 2_000;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Line of the key, from 1.
    pub line: usize,
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    List(Vec<Value>),
    Map(Vec<Field>),
}

impl Value {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

/// The fields of a mapping, and the lines of collections that are written in brackets.
pub(super) fn parse(yaml: &str) -> Result<(Vec<Field>, Vec<usize>), Fault> {
    let parser = Parser::new_from_str(yaml);
    let lines = yaml.lines().collect();
    let mut builder = Builder { parser, lines, nodes: 0, flow: Vec::new() };
    match builder.next()? {
        (Event::StreamStart, _) => {}
        (_, span) => return Err(unexpected(span)),
    }
    let fields = match builder.next()? {
        (Event::DocumentStart(_), _) => builder.document()?,
        (Event::StreamEnd, _) => {
            return Err(Fault::at(1, "the front matter is empty: write `name` and `description`"));
        }
        (_, span) => return Err(unexpected(span)),
    };
    match builder.next()? {
        (Event::DocumentEnd, _) => {}
        (_, span) => return Err(unexpected(span)),
    }
    match builder.next()? {
        (Event::StreamEnd, _) => Ok((fields, builder.flow)),
        (_, span) => {
            Err(Fault::at(span.start.line(), "the front matter holds more than one document"))
        }
    }
}

struct Builder<'y> {
    parser: Parser<'y, StrInput<'y>>,
    lines: Vec<&'y str>,
    nodes: usize,
    flow: Vec<usize>,
}

impl<'y> Builder<'y> {
    fn next(&mut self) -> Result<(Event<'y>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.nodes += 1;
                if self.nodes > MAX_NODES {
                    let message = "the front matter has too many entries";
                    return Err(Fault::at(span.start.line(), message));
                }
                Ok((event, span))
            }
            Some(Err(error)) => Err(not_yaml(&error)),
            None => Err(Fault::new(None, "the front matter ends early")),
        }
    }

    fn document(&mut self) -> Result<Vec<Field>, Fault> {
        let (event, span) = self.next()?;
        match self.value(event, span, 0)? {
            Value::Map(fields) => Ok(fields),
            Value::Text(_) | Value::List(_) => Err(Fault::at(
                span.start.line(),
                "the front matter must be a mapping: lines `key: value`",
            )),
        }
    }

    fn value(&mut self, event: Event<'y>, span: Span, depth: usize) -> Result<Value, Fault> {
        let line = span.start.line();
        if depth > MAX_DEPTH {
            return Err(Fault::at(
                line,
                format!("collections are nested more than {MAX_DEPTH} deep"),
            ));
        }
        match event {
            Event::Scalar(text, _, anchor, tag) => {
                plain(anchor, tag.as_ref(), line)?;
                Ok(Value::Text(text.into_owned()))
            }
            Event::SequenceStart(anchor, tag) => {
                plain(anchor, tag.as_ref(), line)?;
                self.note_flow(span);
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(anchor, tag) => {
                plain(anchor, tag.as_ref(), line)?;
                self.note_flow(span);
                self.fields(depth).map(Value::Map)
            }
            Event::Alias(_) => Err(Fault::at(line, "aliases (`*name`) are not allowed")),
            _ => Err(unexpected(span)),
        }
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, Fault> {
        let mut fields: Vec<Field> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            let name = match event {
                Event::MappingEnd => return Ok(fields),
                Event::Scalar(text, _, anchor, tag) => {
                    plain(anchor, tag.as_ref(), line)?;
                    text.into_owned()
                }
                Event::Alias(_) => {
                    return Err(Fault::at(line, "aliases (`*name`) are not allowed"));
                }
                _ => return Err(Fault::at(line, "a key must be a text")),
            };
            if let Some(earlier) = fields.iter().find(|field| field.name == name) {
                let message = format!("`{name}` is already set on line {}", earlier.line + 1);
                return Err(Fault::at(line, message));
            }
            let (event, span) = self.next()?;
            let value = self.value(event, span, depth + 1)?;
            fields.push(Field { name, line, value });
        }
    }

    /// Events do not say how a collection is written, the character where it starts does.
    fn note_flow(&mut self, span: Span) {
        let line = span.start.line();
        let text = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or_default();
        if matches!(text.chars().nth(span.start.col()), Some('[' | '{')) {
            self.flow.push(line);
        }
    }
}

/// Refuses anchors and tags.
fn plain(anchor: usize, tag: Option<&Cow<'_, Tag>>, line: usize) -> Result<(), Fault> {
    if anchor != 0 {
        return Err(Fault::at(line, "anchors (`&name`) are not allowed"));
    }
    if tag.is_some() {
        return Err(Fault::at(line, "tags (`!name`) are not allowed"));
    }
    Ok(())
}

fn not_yaml(error: &ScanError) -> Fault {
    Fault::at(
        error.marker().line(),
        format!("the front matter is not valid YAML: {}", error.info()),
    )
}

fn unexpected(span: Span) -> Fault {
    Fault::at(span.start.line(), "the front matter must be one mapping: lines `key: value`")
}
