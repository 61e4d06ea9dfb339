//! The loop: the terminal, the server and the clock go into the state machine, its frames and effects come
//! out.

mod background;
mod crash;
mod display;
mod pace;
mod signals;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jsonrpc::{ErrorObject, Limits, Method};
use protocol::UserInput;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::app::{App, Effect, Ended, Environment, Event, Start};
use crate::here::{FindModels, FindServers};
use crate::image::{FoundImage, ImageSource, NoImage};
use crate::image_files::ImageFiles;
use crate::kept::Kept;
use crate::link::{Arrival, Connector, Link, Tag};
use crate::programs;
use crate::run::background::Background;
use crate::run::pace::{Due, Pace};
use crate::run::signals::{Caught, Signals};
use crate::terminal::input::{Decoder, Input, QUERIES, Reply};
use crate::terminal::residue::WHERE;
use crate::terminal::screen::Screen;
use crate::terminal::{KEYBOARD, Terminal};

/// Maximum wait of the first frame for the server.
const FIRST_FRAME: Duration = Duration::from_millis(40);
/// Images that were found and wait for the loop; the search for one more waits.
const FOUND_IMAGES: usize = 16;
/// Time for which the terminal must keep its size before anything is drawn again. While a window is
/// dragged, tmux changes its screen at once and reports the size every 250 ms: what is drawn in
/// between, for a size that is no longer so, would destroy what is printed.
const SETTLE: Duration = Duration::from_millis(300);
/// Time after the start during which the terminal's replies are awaited, where the program ends
/// that early: the shell would take them for keys.
const REPLIES: Duration = Duration::from_secs(1);
/// Arrivals that are handled before the terminal is looked at again.
const BATCH: usize = 4096;

/// The services and settings of the program.
pub struct Options<C> {
    /// The way to the server.
    pub connector: C,
    /// Runs the tasks of the connection: those of a stream would wake the terminal's thread each time.
    pub background: Handle,
    /// Those of its connections.
    pub limits: Limits,
    /// This program's.
    pub version: String,
    /// The working folder.
    pub cwd: PathBuf,
    /// Which thread to show first.
    pub start: Start,
    /// The texts that are kept in the agent's home.
    pub kept: Kept,
    /// The settings of the terminal and the user's shell.
    pub environment: Environment,
    /// Looks for model servers, where the server is in this process.
    pub find_servers: Option<FindServers>,
    /// Asks a server for its models, where the server is in this process.
    pub find_models: Option<FindModels>,
}

pub use crate::run::crash::crash_report;

/// Runs until the user quits, the terminal is gone or a signal ends the process.
///
/// # Errors
/// The terminal cannot be used, or the server not reached.
pub async fn run<C: Connector>(options: Options<C>) -> io::Result<Ended> {
    let terminal = Terminal::open()?;
    crash::catch();
    let mut signals = Signals::catch()?;
    let size = terminal.size();
    let app = App::new(options.start, options.environment, options.cwd, size);
    let screen = Screen::new(size, app.palette()).in_tmux(app.environment().is_tmux);
    let now = Instant::now();
    let images = ImageFiles::new(options.kept.images());
    let old = images.clone();
    options.background.spawn_blocking(move || old.remove_old());
    let (images_found, image_finds) = mpsc::channel(FOUND_IMAGES);
    let mut running = Running {
        images,
        images_found,
        image_finds,
        connector: options.connector,
        found: Background::new(
            options.background.clone(),
            options.find_servers,
            options.find_models,
        ),
        background: options.background,
        limits: options.limits,
        version: options.version,
        kept: options.kept,
        terminal,
        screen,
        below: None,
        has_keyboard: false,
        awaits_replies: true,
        app,
        link: None,
        decoder: Decoder::default(),
        started: now,
        input_at: now,
        pace: Pace::new(),
        settles_at: None,
        is_stopped: false,
    };
    running.run(&mut signals).await
}

/// The end of a search for an image.
type ImageFound = (ImageSource, Result<FoundImage, NoImage>);

struct Running<C> {
    connector: C,
    found: Background,
    background: Handle,
    limits: Limits,
    version: String,
    kept: Kept,
    images: ImageFiles,
    /// Where the searches for images put their results.
    images_found: mpsc::Sender<ImageFound>,
    image_finds: mpsc::Receiver<ImageFound>,
    terminal: Terminal,
    screen: Screen,
    /// The ordinary screen, while a list or a text fills the alternate one.
    below: Option<Screen>,
    /// True if the terminal reports keys with all of their modifiers on request.
    has_keyboard: bool,
    /// True if the last reply to the queries is still to come.
    awaits_replies: bool,
    app: App,
    link: Option<Link>,
    decoder: Decoder,
    started: Instant,
    /// When bytes came from the terminal last.
    input_at: Instant,
    pace: Pace,
    /// When the size is settled, after the terminal reported another one.
    settles_at: Option<Instant>,
    /// True if the process is stopped, or about to be.
    is_stopped: bool,
}

impl<C: Connector> Running<C> {
    async fn run(&mut self, signals: &mut Signals) -> io::Result<Ended> {
        // In this order: the last of the replies comes last.
        if self.app.environment().is_tmux {
            self.terminal.write(WHERE).await?;
        }
        self.terminal.write(QUERIES).await?;
        if let Some(draft) = self.kept.draft() {
            self.event(Event::Draft(draft), Due::Now);
        }
        self.connect_first().await;
        let mut buffer = vec![0; 16 << 10];
        loop {
            let now = Instant::now();
            let is_due = self.is_frame_due(now);
            if is_due {
                self.catch_up();
            }
            if let Some(ended) = self.perform().await? {
                self.keep();
                self.leave().await;
                return Ok(ended);
            }
            if self.is_stopped {
                if let Some(ended) = self.signalled(signals.next().await).await? {
                    return Ok(ended);
                }
                continue;
            }
            if is_due && self.settles_at.is_none() {
                self.draw().await?;
            }
            let wake = self.wake_at(now);
            let rests = self.rests();
            tokio::select! {
                biased;
                read = self.terminal.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => {
                        self.keep();
                        return Ok(self.app.terminal_gone());
                    }
                    Ok(count) => {
                        self.input_at = Instant::now();
                        let inputs = self.decoder.feed(&buffer[..count]);
                        self.take(inputs).await?;
                    }
                },
                signal = signals.next() => if let Some(ended) = self.signalled(signal).await? {
                    return Ok(ended);
                },
                arrival = next(&mut self.link), if !rests => self.arrived(arrival),
                Some((source, found)) = self.image_finds.recv() => {
                    self.event(Event::Image(source, found), Due::Now);
                }
                found = self.found.next() => self.event(Event::Found(found), Due::Now),
                () = sleep_until(wake.unwrap_or(self.started)), if wake.is_some() => {
                    self.expired().await?;
                }
            }
        }
    }

    /// Returns whether it is time to draw. Nothing is drawn while the size changes.
    fn is_frame_due(&mut self, now: Instant) -> bool {
        if self.pace.frame_at(now).is_none_or(|at| at > now) {
            return false;
        }
        // The signal may come later than the change.
        if self.settles_at.is_none() && self.terminal.size() != self.screen.size() {
            self.settles_at = Some(now + SETTLE);
        }
        self.settles_at.is_none()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns whether messages of the server wait for the next frame. An answer does not.
    fn rests(&self) -> bool {
        // What comes while the size changes is taken, too: the next frame may be far.
        let is_settled = self.settles_at.is_none();
        is_settled && self.pace.rests() && self.link.as_ref().is_some_and(|link| !link.is_calling())
    }

    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let frame = self.settles_at.or_else(|| self.pace.frame_at(now));
        let escape = self.decoder.patience().map(|patience| self.input_at + patience);
        let app = self.app.wakes_at().map(|ms| self.started + Duration::from_millis(ms));
        [frame, escape, app].into_iter().flatten().min()
    }

    async fn expired(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.decoder.patience().is_some_and(|patience| now >= self.input_at + patience) {
            let inputs = self.decoder.expire();
            self.take(inputs).await?;
        }
        if self.settles_at.is_some_and(|at| now >= at) {
            self.resized().await?;
        }
        let ms = self.now_ms();
        if self.app.wakes_at().is_some_and(|at| ms >= at) {
            self.event(Event::Tick, Due::Soon);
        }
        Ok(())
    }

    fn event(&mut self, event: Event, due: Due) {
        let now = self.now_ms();
        if self.app.handle(event, now) {
            self.pace.changed(due);
        }
    }

    async fn take(&mut self, inputs: Vec<Input>) -> io::Result<()> {
        for input in inputs {
            match input {
                Input::Reply(Reply::Synchronized(is_synchronized)) => {
                    self.screen.set_synchronized(is_synchronized);
                }
                // The ordinary screen is asked about.
                Input::Reply(Reply::Row(row)) => {
                    let screen = self.below.as_mut().unwrap_or(&mut self.screen);
                    screen.set_cursor_row(row.saturating_sub(1));
                }
                Input::Reply(Reply::Keyboard) => {
                    self.has_keyboard = true;
                    self.terminal.write(KEYBOARD).await?;
                }
                input => {
                    self.awaits_replies &= input != Input::Reply(Reply::Attributes);
                    self.event(Event::Input(input), Due::Now);
                }
            }
        }
        Ok(())
    }

    fn arrived(&mut self, arrival: Arrival) {
        let mut next = Some(arrival);
        let mut count = 0;
        while let Some(arrival) = next {
            count += 1;
            let due = match arrival {
                // The user waits for it, mostly.
                Arrival::Answer { .. } => Due::Now,
                _ => Due::Soon,
            };
            if let Arrival::Lost(why) = arrival {
                self.link = None;
                let can_return = self.connector.can_reconnect();
                self.event(Event::Lost { why, can_return }, due);
                break;
            }
            self.event(Event::Arrived(arrival), due);
            next = if count < BATCH { self.try_next() } else { None };
        }
        self.pace.read(count);
    }

    /// Takes what the server sent while it was not read.
    fn catch_up(&mut self) {
        if self.rests()
            && let Some(arrival) = self.try_next()
        {
            self.arrived(arrival);
        }
    }

    fn try_next(&mut self) -> Option<Arrival> {
        self.link.as_mut().and_then(Link::try_next)
    }

    /// The first frame already shows what the configuration says and has the colours for the terminal's background,
    /// unless the server is slow. A terminal that does not answer is not waited for. One that is gone is found out by
    /// the loop.
    async fn connect_first(&mut self) {
        let begun = Instant::now();
        let mut buffer = vec![0; 4 << 10];
        self.connect().await;
        while self.app.is_opening() && begun.elapsed() < FIRST_FRAME {
            if self.perform().await.is_ok_and(|ended| ended.is_some()) {
                break;
            }
            tokio::select! {
                // The terminal's background, mostly: its answer is there before the server's.
                read = self.terminal.read(&mut buffer) => {
                    let Ok(count @ 1..) = read else { break };
                    self.input_at = Instant::now();
                    let inputs = self.decoder.feed(&buffer[..count]);
                    if self.take(inputs).await.is_err() {
                        break;
                    }
                }
                arrival = next(&mut self.link) => self.arrived(arrival),
                () = sleep_until(begun + FIRST_FRAME) => break,
            }
        }
        self.pace.changed(Due::Now);
    }

    async fn connect(&mut self) {
        let event =
            match Link::open(&mut self.connector, &self.background, &self.limits, &self.version)
                .await
            {
                Ok((link, opened)) => {
                    self.link = Some(link);
                    Event::Connected(Box::new(opened))
                }
                Err(why) => Event::Lost { why, can_return: self.connector.can_reconnect() },
            };
        self.event(event, Due::Now);
    }

    async fn draw(&mut self) -> io::Result<()> {
        let now = self.now_ms();
        let frame = self.app.frame(now);
        let bytes = self.screen.draw(&frame);
        self.terminal.write(&bytes).await?;
        self.pace.drew(Instant::now());
        Ok(())
    }

    /// Does what the state machine wants done.
    async fn perform(&mut self) -> io::Result<Option<Ended>> {
        while let Some(effect) = self.app.next_effect() {
            match effect {
                Effect::Call { tag, method, params } => self.call(tag, method, params).await,
                Effect::Respond { id, outcome } => {
                    if let Some(link) = &self.link {
                        // A connection that is lost is reported as such; the question comes again.
                        let _ = link.respond(&id, &outcome);
                    }
                }
                Effect::Reconnect => self.connect().await,
                Effect::Write(bytes) => self.terminal.write(&bytes).await?,
                Effect::Recolor(palette) => {
                    self.screen.set_palette(palette);
                    self.below.iter_mut().for_each(|below| below.set_palette(palette));
                }
                Effect::Alternate(is_alternate) => self.alternate(is_alternate).await?,
                Effect::LoadHistory => {
                    let texts = self.kept.history();
                    self.event(Event::History(texts), Due::Now);
                }
                Effect::Keep(draft) => self.kept.keep(&draft),
                Effect::Edit(text) => self.edit(text).await?,
                Effect::FindImage(source) => self.find_image(source),
                Effect::FindServers => self.found.find_servers(),
                Effect::FindModels(server) => self.found.find_models(server),
                Effect::CheckWritable(folders) => self.found.check_writable(folders),
                Effect::Browse(address) => self.browse(&address),
                Effect::Overlay(is_overlaid) => self.overlay(is_overlaid).await?,
                Effect::Export { path, text } => {
                    let exported = programs::export(&path, &text).map(|()| path);
                    self.event(Event::Exported(exported), Due::Now);
                }
                Effect::Clear => self.clear().await?,
                Effect::Suspend => self.suspend().await?,
                Effect::Quit(ended) => return Ok(Some(ended)),
            }
        }
        Ok(None)
    }

    async fn call(&mut self, tag: Tag, method: &'static str, mut params: Value) {
        if !self.app.environment().server_is_here
            && matches!(method, protocol::TurnStart::NAME | protocol::TurnSteer::NAME)
            && let Some(input) = params.get_mut("input")
            && let Err(why) = self.embed_images(input).await
        {
            let result = Err(ErrorObject::internal(why));
            return self.event(Event::Arrived(Arrival::Answer { tag, result }), Due::Now);
        }
        match &mut self.link {
            Some(link) => link.call(tag, method, params),
            None => self.event(Event::Unsent(tag), Due::Soon),
        }
    }

    async fn embed_images(&self, input: &mut Value) -> Result<(), String> {
        let parts = serde_json::from_value::<Vec<UserInput>>(input.take());
        let mut parts = parts.map_err(|error| error.to_string())?;
        self.images.embed(&mut parts).await?;
        *input = serde_json::to_value(parts).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn find_image(&self, source: ImageSource) {
        let (images, found) = (self.images.clone(), self.images_found.clone());
        self.background.spawn(async move {
            let image = images.find(&source).await;
            // Without a receiver, the program ends.
            let _ = found.send((source, image)).await;
        });
    }

    /// Keeps what was not sent, with its images.
    fn keep(&self) {
        self.kept.keep(&self.app.unsent());
        self.images.remove_unused(&self.app.images_in_use());
    }

    /// The address stands on the screen, too, for where there is no browser.
    fn browse(&mut self, address: &str) {
        if let Err(why) = programs::browse(address) {
            self.event(Event::Unopened(why), Due::Soon);
        }
    }

    async fn signalled(&mut self, signal: Caught) -> io::Result<Option<Ended>> {
        match signal {
            Caught::Resized => self.settles_at = Some(Instant::now() + SETTLE),
            Caught::Stop => self.suspend().await?,
            Caught::Continue => self.enter_again().await?,
            Caught::End(code) => {
                self.keep();
                self.leave().await;
                return Ok(Some(self.app.ended_by_signal(code)));
            }
        }
        Ok(None)
    }
}

impl<C> Drop for Running<C> {
    /// A panic loses what is on the screen, not what the user was writing.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.kept.keep(&self.app.unsent());
        }
    }
}

/// Waits for the server; forever without a connection.
async fn next(link: &mut Option<Link>) -> Arrival {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}
