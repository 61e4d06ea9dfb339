//! The text format: `TIME LEVEL TARGET: MESSAGE FIELDS`, one line an event.

use std::fmt;
use std::fmt::Write as _;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::Clock;

/// Longest line, in bytes.
pub(crate) const MAX_LINE: usize = 8 * 1024;

/// Writes the time in RFC 3339, with milliseconds.
pub(crate) struct Timer(pub(crate) Clock);

impl FormatTime for Timer {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.3}", (self.0)())
    }
}

/// The formatter of text lines. The target is written as `RUST_LOG` accepts it, and the fields of
/// the spans around the event follow its own.
pub(crate) struct Text(pub(crate) Timer);

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::with_capacity(256);
        self.0.format_time(&mut Writer::new(&mut line))?;
        let metadata = event.metadata();
        write!(line, " {} {}: ", metadata.level(), metadata.target())?;
        context.field_format().format_fields(Writer::new(&mut line), event)?;
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
                write!(line, " {fields}")?;
            }
        }
        line.truncate(line.floor_char_boundary(MAX_LINE));
        writeln!(writer, "{}", line.replace(['\n', '\r'], " ⏎ "))
    }
}
