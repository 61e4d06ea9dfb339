//! Requests of MCP servers: forms, and pages that the user is sent to.

use protocol::elicitation::{
    McpElicitationEnumSchema, McpElicitationMultiSelectEnumSchema, McpElicitationPrimitiveSchema,
    McpElicitationSchema, McpElicitationSingleSelectEnumSchema, McpServerElicitationAction,
    McpServerElicitationRequestMode, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse,
};
use serde_json::{Map, Value};

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style};

use super::choices::{Choice, Choices};
use super::facts::{short, text_lines};
use super::field::Field;
use super::step::{Answer, Rows, Step, encoded};
use super::values;

/// The member of the request's `_meta` that describes the call of a tool that needs an approval.
const TOOL_CALL: &str = "agentd/toolCall";
/// The field with which such a tool is allowed for the session.
const FOR_SESSION: &str = "allowForSession";

/// A request's form, or a yes or no.
#[derive(Clone, Debug)]
pub(super) enum Elicitation {
    Choices(Box<Choices>),
    Form(Box<Form>),
}

/// A form: its fields, and below them the answers, the first of which sends it.
#[derive(Clone, Debug)]
pub(super) struct Form {
    server: String,
    fields: Vec<FormField>,
    /// The field, or after the last one the answers.
    at: usize,
    choices: Choices,
}

#[derive(Clone, Debug)]
struct FormField {
    name: String,
    title: String,
    description: Option<String>,
    is_required: bool,
    schema: McpElicitationPrimitiveSchema,
    input: Input,
    error: Option<String>,
}

#[derive(Clone, Debug)]
enum Input {
    Text(Field),
    Switch(Option<bool>),
    One { options: Vec<(String, String)>, chosen: Option<usize> },
    Many { options: Vec<(String, String)>, chosen: Vec<bool>, at: usize },
}

impl Form {
    /// See [`super::Ask::new`].
    pub(super) fn ask(
        params: McpServerElicitationRequestParams,
    ) -> (String, Vec<Line>, Elicitation) {
        let server = params.server_name;
        let in_turn = params.turn_id.is_some();
        let title = format!("{server} asks");
        match params.request {
            McpServerElicitationRequestMode::Form { message, requested_schema, meta } => {
                let facts = text_lines("", &message, Style::PLAIN);
                if let Some(tool) = called_tool(meta.as_ref(), &requested_schema) {
                    let title = format!("Call the tool {} of {server}?", short(&tool));
                    let choices = tool_choices(&requested_schema, &server, in_turn);
                    return (title, facts, Elicitation::Choices(Box::new(choices)));
                }
                let content = Some(Value::Object(Map::new()));
                if requested_schema.properties.is_empty() {
                    let yes = Choice::yes('y', "Yes, accept", accepted(&server, content));
                    let choices = values::choices(vec![yes], &server, in_turn);
                    return (title, facts, Elicitation::Choices(Box::new(choices)));
                }
                // What is sent is known when it is chosen.
                let send = Choice::yes('y', "Send", accepted(&server, content));
                let choices = values::choices(vec![send], &server, in_turn);
                let fields = fields(requested_schema);
                (title, facts, Elicitation::Form(Box::new(Form { server, fields, at: 0, choices })))
            }
            McpServerElicitationRequestMode::Url { message, url, .. } => {
                let mut facts = text_lines("", &message, Style::PLAIN);
                facts.extend(address(&url));
                let accept = |open| Answer { open, ..accepted(&server, None) };
                let mut choices = Vec::new();
                if host(&url).is_some() {
                    let label = "Yes, open the page in the browser";
                    choices.push(Choice::yes('y', label, accept(Some(url))));
                }
                choices.push(Choice::yes('d', "Yes, I open it myself", accept(None)));
                let title = format!("Open a page for {server}?");
                let choices = values::choices(choices, &server, in_turn);
                (title, facts, Elicitation::Choices(Box::new(choices)))
            }
        }
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let count = self.fields.len();
        match key.code {
            Code::Tab if key.shift => self.at = (self.at + count) % (count + 1),
            Code::Tab => self.at = (self.at + 1) % (count + 1),
            // Esc and Ctrl+C answer from everywhere.
            Code::Esc => return self.choices.key(key),
            Code::Char('c') if key.ctrl => return self.choices.key(key),
            Code::Up if self.at == count && self.choices.selected() == 0 => {
                self.at = count.saturating_sub(1);
            }
            _ if self.sends(key) => return self.submit(),
            _ if self.at == count => return self.choices.key(key),
            Code::Up => self.at = (self.at + count) % (count + 1),
            Code::Down | Code::Enter => self.at += 1,
            _ => {
                let field = &mut self.fields[self.at];
                field.error = None;
                if !field.input.key(key) {
                    return Step::Ignored;
                }
            }
        }
        Step::Stay
    }

    /// True if the key chooses to send the form.
    fn sends(&self, key: Key) -> bool {
        let is_enter = key.code == Code::Enter && !self.choices.is_writing();
        self.at == self.fields.len()
            && (is_enter && self.choices.selected() == 0 || self.choices.choice_of(key) == Some(0))
    }

    /// The answers, if they take the keys.
    pub(super) fn open_choices(&self) -> Option<&Choices> {
        (self.at == self.fields.len()).then_some(&self.choices)
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let Some(FormField { input: Input::Text(field), error, .. }) =
            self.fields.get_mut(self.at)
        {
            *error = None;
            field.insert(text);
        } else if self.at == self.fields.len() && self.choices.is_writing() {
            self.choices.paste(text);
        }
    }

    /// The text for the agent.
    pub(super) fn written(&self) -> String {
        self.choices.written()
    }

    fn submit(&mut self) -> Step {
        let mut content = Map::new();
        let mut wrong = None;
        for (index, field) in self.fields.iter_mut().enumerate() {
            match field.value() {
                Ok(Some(value)) => {
                    content.insert(field.name.clone(), value);
                }
                Ok(None) => {}
                Err(error) => {
                    wrong = wrong.or(Some((index, format!("{} {error}", field.title))));
                    field.error = Some(error);
                }
            }
        }
        if let Some((index, error)) = wrong {
            self.at = index;
            return Step::Notice(error);
        }
        let answer = accepted(&self.server, Some(Value::Object(content)));
        Step::Done { answer, accepts: true }
    }

    pub(super) fn rows(&self, columns: usize) -> Rows {
        let mut rows = Rows::default();
        for (index, field) in self.fields.iter().enumerate() {
            let start = rows.lines.len();
            let is_focus = index == self.at;
            let cursor = field.rows(is_focus, columns, &mut rows.lines);
            if is_focus {
                rows.cursor = cursor;
                rows.focus = start..rows.lines.len();
            }
        }
        let is_focus = self.at == self.fields.len();
        let answers = self.choices.rows(columns, is_focus);
        let start = rows.lines.len();
        if is_focus {
            rows.focus = start + answers.focus.start..start + answers.focus.end;
            rows.cursor = answers.cursor.map(|(row, column)| (start + row, column));
        }
        rows.lines.extend(answers.lines);
        let help = "Tab moves, Space changes";
        rows.lines.extend(Line::new(help, Palette::QUIET).wrapped(columns, &Line::default()));
        rows
    }
}

/// The tool of the server that the request is about, where that is all that it asks.
fn called_tool(meta: Option<&Value>, schema: &McpElicitationSchema) -> Option<String> {
    let tool = meta?.get(TOOL_CALL)?.get("tool")?.as_str()?;
    let is_plain = schema.properties.iter().all(|(name, schema)| {
        name == FOR_SESSION && matches!(schema, McpElicitationPrimitiveSchema::Boolean(_))
    });
    is_plain.then(|| tool.to_owned())
}

/// Id of the item of the tool call that a request is about.
pub(crate) fn item_of_call(params: &Value) -> Option<&str> {
    params.get("_meta")?.get(TOOL_CALL)?.get("itemId")?.as_str()
}

fn tool_choices(schema: &McpElicitationSchema, server: &str, in_turn: bool) -> Choices {
    let answer = |for_session: bool| {
        let content: Map<String, Value> =
            schema.properties.keys().map(|name| (name.clone(), for_session.into())).collect();
        accepted(server, Some(Value::Object(content)))
    };
    let mut choices = vec![Choice::yes('y', "Yes, once", answer(false))];
    if !schema.properties.is_empty() {
        let effect = "You will not be asked again about this tool in this session.";
        choices.push(Choice::yes('a', "Yes, for this session", answer(true)).with_effect(effect));
    }
    values::choices(choices, server, in_turn)
}

fn accepted(server: &str, content: Option<Value>) -> Answer {
    let action = McpServerElicitationAction::Accept;
    let response = McpServerElicitationRequestResponse { action, content, meta: None };
    Answer { reply: encoded(&response), ..values::action(action, server) }
}

fn fields(schema: McpElicitationSchema) -> Vec<FormField> {
    let required = schema.required.unwrap_or_default();
    let field = |(name, schema): (String, McpElicitationPrimitiveSchema)| {
        let (title, description, input) = parts(&schema);
        FormField {
            title: title.unwrap_or_else(|| name.clone()),
            description,
            is_required: required.contains(&name),
            input,
            schema,
            error: None,
            name,
        }
    };
    schema.properties.into_iter().map(field).collect()
}

/// Title, description and the input with its default.
fn parts(schema: &McpElicitationPrimitiveSchema) -> (Option<String>, Option<String>, Input) {
    let text = |text: Option<String>| Input::Text(Field::new(text.unwrap_or_default(), false));
    match schema {
        McpElicitationPrimitiveSchema::String(it) => {
            (it.title.clone(), it.description.clone(), text(it.default.clone()))
        }
        McpElicitationPrimitiveSchema::Number(it) => {
            let default = it.default.map(|number| number.to_string());
            (it.title.clone(), it.description.clone(), text(default))
        }
        McpElicitationPrimitiveSchema::Boolean(it) => {
            (it.title.clone(), it.description.clone(), Input::Switch(it.default))
        }
        McpElicitationPrimitiveSchema::Enum(it) => choice_parts(it),
    }
}

fn choice_parts(schema: &McpElicitationEnumSchema) -> (Option<String>, Option<String>, Input) {
    use McpElicitationMultiSelectEnumSchema as Many;
    use McpElicitationSingleSelectEnumSchema as One;
    let same = |values: &[String]| values.iter().map(|it| (it.clone(), it.clone())).collect();
    let one = |options: Vec<(String, String)>, default: &Option<String>| {
        let chosen = default.as_ref().and_then(|it| options.iter().position(|o| o.0 == *it));
        Input::One { options, chosen }
    };
    let many = |options: Vec<(String, String)>, default: &Option<Vec<String>>| {
        let is_default = |value: &String| default.as_ref().is_some_and(|it| it.contains(value));
        let chosen = options.iter().map(|(value, _)| is_default(value)).collect();
        Input::Many { options, chosen, at: 0 }
    };
    match schema {
        McpElicitationEnumSchema::SingleSelect(One::Untitled(it)) => {
            let mut options: Vec<(String, String)> = same(&it.values);
            for (option, name) in options.iter_mut().zip(it.enum_names.iter().flatten()) {
                option.1.clone_from(name);
            }
            (it.title.clone(), it.description.clone(), one(options, &it.default))
        }
        McpElicitationEnumSchema::SingleSelect(One::Titled(it)) => {
            let options = it.one_of.iter().map(|it| (it.value.clone(), it.title.clone()));
            (it.title.clone(), it.description.clone(), one(options.collect(), &it.default))
        }
        McpElicitationEnumSchema::MultiSelect(Many::Untitled(it)) => {
            (it.title.clone(), it.description.clone(), many(same(&it.items.values), &it.default))
        }
        McpElicitationEnumSchema::MultiSelect(Many::Titled(it)) => {
            let options = it.items.any_of.iter().map(|it| (it.value.clone(), it.title.clone()));
            (it.title.clone(), it.description.clone(), many(options.collect(), &it.default))
        }
    }
}

impl Input {
    fn key(&mut self, key: Key) -> bool {
        let turn = match key.code {
            Code::Left => -1,
            Code::Right => 1,
            Code::Char(' ') if key.typed().is_some() => 0,
            _ => 2,
        };
        match self {
            Self::Text(field) => return field.key(key),
            _ if turn == 2 => return false,
            Self::Switch(value) => *value = Some(!value.unwrap_or(false)),
            Self::One { options, chosen } => {
                let count = options.len().max(1);
                *chosen = Some(match (*chosen, turn) {
                    (None, _) => 0,
                    (Some(at), -1) => (at + count - 1) % count,
                    (Some(at), _) => (at + 1) % count,
                })
                .filter(|at| *at < options.len());
            }
            Self::Many { chosen, at, .. } => match turn {
                0 => {
                    if let Some(chosen) = chosen.get_mut(*at) {
                        *chosen = !*chosen;
                    }
                }
                1 => *at = (*at + 1) % chosen.len().max(1),
                _ => *at = (*at + chosen.len().max(1) - 1) % chosen.len().max(1),
            },
        }
        true
    }
}

impl FormField {
    /// The value to send; `None` if there is none and none is needed.
    fn value(&self) -> Result<Option<Value>, String> {
        let value = match &self.input {
            Input::Text(field) if field.is_empty() => None,
            Input::Text(field) => match &self.schema {
                McpElicitationPrimitiveSchema::Number(it) => {
                    Some(values::number(it, &field.text())?)
                }
                McpElicitationPrimitiveSchema::String(it) => {
                    Some(values::string(it, &field.text())?)
                }
                _ => None,
            },
            Input::Switch(value) => value.map(Value::Bool),
            Input::One { options, chosen } => {
                chosen.and_then(|at| options.get(at)).map(|option| Value::String(option.0.clone()))
            }
            Input::Many { options, chosen, .. } => {
                let taken = options.iter().zip(chosen).filter(|(_, chosen)| **chosen);
                let taken: Vec<Value> = taken.map(|(it, _)| Value::String(it.0.clone())).collect();
                self.check_count(taken.len() as u64)?;
                (self.is_required || !taken.is_empty()).then_some(Value::Array(taken))
            }
        };
        match value {
            None if self.is_required => Err("needs a value".to_owned()),
            value => Ok(value),
        }
    }

    fn check_count(&self, count: u64) -> Result<(), String> {
        use McpElicitationMultiSelectEnumSchema as Many;
        let (min, max) = match &self.schema {
            McpElicitationPrimitiveSchema::Enum(McpElicitationEnumSchema::MultiSelect(it)) => {
                match it {
                    Many::Untitled(it) => (it.min_items, it.max_items),
                    Many::Titled(it) => (it.min_items, it.max_items),
                }
            }
            _ => (None, None),
        };
        if let Some(min) = min.filter(|min| count < *min && (self.is_required || count > 0)) {
            return Err(format!("needs at least {min} of its options"));
        }
        match max.filter(|max| count > *max) {
            Some(max) => Err(format!("takes at most {max} of its options")),
            None => Ok(()),
        }
    }

    /// Adds the rows; returns the place of the cursor.
    fn rows(
        &self,
        is_focus: bool,
        columns: usize,
        lines: &mut Vec<Line>,
    ) -> Option<(usize, usize)> {
        let style = if is_focus { Palette::SELECTED } else { Style::BOLD };
        let mut head = Line::new(if is_focus { "› " } else { "  " }, Style::PLAIN);
        head.push(self.title.clone(), style);
        if self.is_required {
            head.push(" (required)", Palette::QUIET);
        }
        if let Some(description) = &self.description {
            head.push(format!(" {description}"), Palette::QUIET);
        }
        let indent = Line::plain("    ");
        lines.extend(head.wrapped(columns, &indent));
        let mut cursor = None;
        let text = match &self.input {
            Input::Text(field) => {
                let (rows, (row, column)) = field.rows("    ", columns);
                cursor = is_focus.then_some((lines.len() + row, column));
                lines.extend(rows);
                None
            }
            Input::Switch(None) => Some("[ ] not set".to_owned()),
            Input::Switch(Some(value)) => {
                Some(if *value { "[x] yes" } else { "[ ] no" }.to_owned())
            }
            Input::One { options, chosen } => Some(match chosen.and_then(|at| options.get(at)) {
                Some((_, title)) => {
                    let number = chosen.map_or(0, |at| at + 1);
                    format!("‹ {title} › ({number} of {})", options.len())
                }
                None => format!("‹ not set › ({} options)", options.len()),
            }),
            Input::Many { options, chosen, at } => {
                let parts = options.iter().zip(chosen).enumerate().map(|(index, (it, chosen))| {
                    let mark = if *chosen { "[x]" } else { "[ ]" };
                    let sign = if index == *at && is_focus { "›" } else { " " };
                    format!("{sign}{mark} {}", it.1)
                });
                Some(parts.collect::<Vec<_>>().join(" "))
            }
        };
        if let Some(text) = text {
            lines.extend(indent.clone().with(text, Style::PLAIN).wrapped(columns, &indent));
        }
        if let Some(error) = &self.error {
            let error = indent.clone().with(error.clone(), Palette::ERROR);
            lines.extend(error.wrapped(columns, &indent));
        }
        cursor
    }
}

/// The host of a web address, as bytes of it; `None` if it is none that a browser should open.
fn host(url: &str) -> Option<std::ops::Range<usize>> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return None;
    }
    let start = url.len() - rest.len();
    let end = start + rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    (start < end).then_some(start..end)
}

/// The whole address with its host emphasised, and what is doubtful about it.
fn address(url: &str) -> Vec<Line> {
    let Some(range) = host(url) else {
        let warning = "This is not a web address, so it is not opened:";
        let shown = visible::exact_line(url);
        return vec![
            Line::new(warning, Palette::WARNING),
            Line::new(format!("  {shown}"), Style::BOLD),
        ];
    };
    let line = Line::new(format!("  {}", &url[..range.start]), Palette::QUIET)
        .with(url[range.clone()].to_owned(), Style::BOLD)
        .with(url[range.end..].to_owned(), Palette::QUIET);
    let mut lines = vec![line];
    let mut warn = |text: String| lines.push(Line::new(text, Palette::WARNING));
    if url[..range.start].contains('@') {
        warn(format!(
            "The part before the @ is not the host: the page is on {}",
            &url[range.clone()]
        ));
    }
    if url.starts_with("http://") {
        warn("The connection is not encrypted.".to_owned());
    }
    if url[range].split('.').any(|part| part.starts_with("xn--")) {
        warn(
            "The host name has characters of other scripts: it may imitate a known name."
                .to_owned(),
        );
    }
    lines
}
