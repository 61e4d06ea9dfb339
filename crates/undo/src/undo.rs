//! The handle: windows of tool calls, and the way back.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::error::Error;
use crate::folder::Folder;
use crate::index::Change;
use crate::plan::Plan;
use crate::recovery::{Mark, marks};
use crate::restore::{Outcome, restore};
use crate::state::Digest;
use crate::turn::{Scope, Turn};
use crate::writer::{ContentKeeper, Writer};

/// A tool call that runs in a folder. It must be given back to [`Undo::end`].
#[derive(Debug)]
pub struct Window {
    root: PathBuf,
    number: i64,
}

/// Turns with unrecorded calls that are remembered outside of the database; further ones are not.
const MAX_UNRECORDED: usize = 10_000;

/// The handle of a home's undo record. Its functions wait for the file system and for each other.
#[derive(Debug)]
pub struct Undo {
    path: PathBuf,
    database: Mutex<Database>,
    folders: Mutex<HashMap<PathBuf, Arc<Mutex<Tracked>>>>,
    /// Turns with calls that are not recorded, where the database could not be written either.
    unrecorded: Mutex<Vec<Turn>>,
    /// Number of calls that have ended.
    ends: Mutex<u64>,
    ended: Condvar,
}

/// A folder, its open windows, and what is known of it. Locked before the database.
#[derive(Debug, Default)]
struct Tracked {
    /// `None` before the first use, and after an error.
    known: Option<(i64, Folder)>,
    windows: Vec<OpenWindow>,
}

#[derive(Debug)]
struct OpenWindow {
    number: i64,
    turn: Turn,
}

impl Undo {
    /// Opens the database at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// It cannot be opened, or is one of a newer program.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut database = Database::open(path)?;
        database.write(|writer| writer.disown_windows())?;
        let path = path.canonicalize().map_err(Error::io(path, "resolving"))?;
        Ok(Self {
            path,
            database: Mutex::new(database),
            folders: Mutex::default(),
            unrecorded: Mutex::default(),
            ends: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Marks the beginning of a turn, from which the changes of agents that it starts count, too.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn begin_turn(&self, turn: &Turn) -> Result<(), Error> {
        self.database().write(|writer| writer.begin_turn(turn))
    }

    /// Begins a tool call of a turn in the folder at `root`, an absolute real path: what has changed
    /// since the last one comes from elsewhere.
    ///
    /// # Errors
    /// The folder cannot be read or is too large, or the database cannot be written.
    pub fn begin(&self, root: &Path, turn: &Turn) -> Result<Window, Error> {
        let tracked = self.tracked(root);
        let mut tracked = lock(&tracked);
        let number = self.look(root, &mut tracked, None, |writer, folder| {
            writer.begin_turn(turn)?;
            writer.open_window(folder, turn)
        })?;
        tracked.windows.push(OpenWindow { number, turn: turn.clone() });
        Ok(Window { root: root.to_owned(), number })
    }

    /// Ends a tool call: what has changed meanwhile is its turn's.
    ///
    /// # Errors
    /// As [`Undo::begin`]. The turn then counts as one with a call that is not recorded.
    pub fn end(&self, window: Window) -> Result<(), Error> {
        let shared = self.tracked(&window.root);
        let mut tracked = lock(&shared);
        let number = window.number;
        let ended = self.look(&window.root, &mut tracked, Some(number), |writer, _| {
            writer.close_window(number)
        });
        let lost = tracked.windows.iter().find(|open| ended.is_err() && open.number == number);
        let lost = lost.map(|open| open.turn.clone());
        tracked.windows.retain(|open| open.number != number);
        // Those that wait for the end look at the folder.
        drop(tracked);
        if let Some(turn) = lost {
            self.note_unrecorded(&turn);
        }
        *lock(&self.ends) += 1;
        self.ended.notify_all();
        ended
    }

    /// Notes that a call of a turn is not recorded, so that the turn is not undone by halves.
    pub fn note_unrecorded(&self, turn: &Turn) {
        let noted = self.database().write(|writer| {
            writer.begin_turn(turn)?;
            writer.note_unrecorded(turn)
        });
        let mut unrecorded = lock(&self.unrecorded);
        // On a full disk this process remembers.
        if noted.is_err() && !unrecorded.contains(turn) && unrecorded.len() < MAX_UNRECORDED {
            unrecorded.push(turn.clone());
        }
    }

    /// Plans the way back to the beginning of `since`, undoing the changes of its thread from then
    /// on; where that is the root of a tree of agents, the changes of all of them.
    ///
    /// # Errors
    /// [`Error::UnknownTurn`], [`Error::OtherThread`], [`Error::Unrecorded`], and as [`Undo::begin`].
    pub fn plan(&self, since: &Turn) -> Result<Plan, Error> {
        let (seq, scope) = (self.begin_of(since)?, Scope::of(since));
        let is_unrecorded = self.database().has_unrecorded(&scope, seq)?
            || lock(&self.unrecorded).iter().any(|turn| scope.contains(turn));
        if is_unrecorded {
            return Err(Error::Unrecorded);
        }
        let mut plan = Plan::default();
        let folders = self.database().folders_of(&scope, seq)?;
        for folder in folders {
            let (root, tracked) = self.by_number(folder)?;
            let mut tracked = lock(&tracked);
            self.add_folder(&mut plan, &root, &mut tracked, (scope, seq))?;
        }
        Ok(plan)
    }

    /// Goes back to the beginning of `since`, as [`Undo::plan`] says. What something else has changed
    /// is overwritten only with `overwrite`; otherwise nothing is written where the plan has
    /// conflicts, and the plan is returned as the error. The changes are forgotten if all are undone.
    ///
    /// # Errors
    /// As [`Undo::plan`]; the outer error is one of reading, after which nothing was written.
    pub fn restore(&self, since: &Turn, overwrite: bool) -> Result<Result<Outcome, Plan>, Error> {
        let plan = self.plan(since)?;
        if !plan.conflicts.is_empty() && !overwrite {
            return Ok(Err(plan));
        }
        let (seq, scope) = (self.begin_of(since)?, Scope::of(since));
        let folders = self.database().folders_of(&scope, seq)?;
        let mut outcome = Outcome::default();
        for folder in folders {
            let (root, tracked) = self.by_number(folder)?;
            let mut tracked = lock(&tracked);
            // Once more, under the folder's lock.
            let mut plan = Plan::default();
            self.add_folder(&mut plan, &root, &mut tracked, (scope, seq))?;
            if !overwrite {
                for conflict in &plan.conflicts {
                    plan.steps.retain(|step| step.path != conflict.path);
                    outcome.failed.push((conflict.path.clone(), conflict.why.to_owned()));
                }
            }
            let done = self.carry_out(&root, &tracked, &plan)?;
            outcome.unkept.extend(plan.unkept);
            outcome.unkept.extend(done.unkept);
            outcome.restored.extend(done.restored);
            outcome.failed.extend(done.failed);
            self.absorb(&root, &mut tracked)?;
        }
        if outcome.failed.is_empty() {
            self.database().write(|writer| writer.forget(&scope, seq))?;
        }
        Ok(Ok(outcome))
    }

    /// Carries out the steps of a plan that concerns one folder, so that a crash can be cleaned up after.
    fn carry_out(&self, root: &Path, tracked: &Tracked, plan: &Plan) -> Result<Outcome, Error> {
        let Some((number, folder)) = &tracked.known else { return Ok(Outcome::default()) };
        let marks = marks(root, &plan.steps, |path| folder.mode(path));
        self.database().write(|writer| writer.begin_restoring(*number, &marks))?;
        let done = restore(root, &plan.steps, &|digest| self.contents(digest))?;
        let process = std::process::id();
        self.database().write(|writer| writer.end_restoring(*number, process))?;
        Ok(done)
    }

    /// Notes that this process still runs, while calls do: if it is killed, what they have changed until
    /// then is known to be theirs.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn note_alive(&self) -> Result<(), Error> {
        self.database().write(|writer| writer.note_alive())
    }

    /// Forgets all changes of a deleted thread, and of the agents below it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn forget(&self, thread: &str) -> Result<(), Error> {
        self.database().write(|writer| writer.forget_thread(thread))
    }

    /// Kept contents; `None` if they no longer exist.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn contents(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        self.database().contents(digest)
    }

    /// Waits until [`Undo::is_quiet`], for `limit` at most; returns whether it is.
    #[must_use]
    pub fn wait_until_quiet(&self, since: &Turn, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let seen = *lock(&self.ends);
            if self.is_quiet(since) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // Whether it was the last call is looked at again.
            let ends = lock(&self.ends);
            drop(self.ended.wait_timeout_while(ends, left, |ends| *ends == seen));
        }
    }

    /// Returns whether no tool call is running whose changes [`Undo::plan`] would contain.
    #[must_use]
    pub fn is_quiet(&self, since: &Turn) -> bool {
        let scope = Scope::of(since);
        let folders: Vec<_> = self.folders().values().cloned().collect();
        folders
            .iter()
            .all(|tracked| lock(tracked).windows.iter().all(|open| !scope.contains(&open.turn)))
    }

    /// Brings a folder's index up to date, and records the changes as those of the turn of `ending`,
    /// or of whatever runs. `also` runs in the same transaction.
    fn look<T>(
        &self,
        root: &Path,
        tracked: &mut Tracked,
        ending: Option<i64>,
        also: impl FnOnce(&Writer<'_>, i64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut database = self.database();
        let (id, mut folder) = match tracked.known.take() {
            Some(known) => known,
            None => {
                let (id, index) = database.load(root)?;
                (id, Folder::new(root.to_owned(), index, self.path.clone()))
            }
        };
        let windows = &tracked.windows;
        // After an error the index may be ahead of the database, so it is not put back.
        let done = database.write(|writer| {
            let left_behind = left_behind(writer, id)?;
            let (changes, rows) = folder.scan(&mut ContentKeeper(writer), &left_behind)?;
            for process in left_behind.iter().map(|(process, _)| *process).collect::<BTreeSet<_>>()
            {
                writer.end_restoring(id, process)?;
            }
            writer.store_rows(id, &rows)?;
            attribute(writer, (id, &folder), &changes, windows, ending)?;
            also(writer, id)
        })?;
        tracked.known = Some((id, folder));
        Ok(done)
    }

    /// Brings a folder's index up to date after a restoration, whose changes are no turn's.
    fn absorb(&self, root: &Path, tracked: &mut Tracked) -> Result<(), Error> {
        let windows = std::mem::take(&mut tracked.windows);
        let done = self.look(root, tracked, None, |_, _| Ok(()));
        tracked.windows = windows;
        done
    }

    /// Where the record of `since` begins.
    fn begin_of(&self, since: &Turn) -> Result<i64, Error> {
        let database = self.database();
        if let Some(begin) = database.begin_of(since)? {
            return Ok(begin);
        }
        let turn = since.turn.clone();
        Err(match database.thread_of(&turn)? {
            Some(thread) => Error::OtherThread { turn, thread },
            None => Error::UnknownTurn { turn },
        })
    }

    fn by_number(&self, folder: i64) -> Result<(PathBuf, Arc<Mutex<Tracked>>), Error> {
        let root = self.database().root_of(folder)?;
        let tracked = self.tracked(&root);
        Ok((root, tracked))
    }

    /// Adds what was changed in a folder since `seq` to a plan.
    fn add_folder(
        &self,
        plan: &mut Plan,
        root: &Path,
        tracked: &mut Tracked,
        (scope, seq): (Scope<'_>, i64),
    ) -> Result<(), Error> {
        self.look(root, tracked, None, |_, _| Ok(()))?;
        let Some((number, folder)) = &tracked.known else { return Ok(()) };
        // After the look, which may have found changes of a process that died.
        let events = self.database().events(*number, &scope, seq)?;
        plan.add(root, &events, |path| folder.state(path));
        plan.keep_filled_folders(|path| folder.names_on_disk(path));
        Ok(())
    }

    fn tracked(&self, root: &Path) -> Arc<Mutex<Tracked>> {
        self.folders().entry(root.to_owned()).or_default().clone()
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Mutex<Tracked>>>> {
        lock(&self.folders)
    }

    fn database(&self) -> MutexGuard<'_, Database> {
        lock(&self.database)
    }
}

/// Records changes as those of the turns whose calls ran meanwhile: of every tree that had one, since it
/// cannot be known whose they are.
fn attribute(
    writer: &Writer<'_>,
    (number, folder): (i64, &Folder),
    changes: &[Change],
    windows: &[OpenWindow],
    ending: Option<i64>,
) -> Result<(), Error> {
    let elsewhere = writer.windows_elsewhere(number)?;
    let (running, dead): (Vec<_>, Vec<_>) =
        elsewhere.into_iter().partition(|window| is_running(window.process));
    let ended = windows.iter().find(|open| Some(open.number) == ending);
    let open = ended.into_iter().chain(windows.iter().rev()).map(|open| &open.turn);
    let mut owners: Vec<&Turn> = Vec::new();
    // The calls of a process that died count like those that run: the changes are theirs, or later ones.
    for turn in open.chain(dead.iter().map(|window| &window.turn)) {
        if owners.iter().all(|owner| owner.tree != turn.tree) {
            owners.push(turn);
        }
    }
    let is_uncertain = owners.len() > 1
        || !running.is_empty()
        || dead.iter().any(|window| window.has_met_others)
        || writer.has_met_others(number)?;
    // What happened after its death may be anyone's.
    let death = dead.iter().map(|window| window.alive_at).min();
    for change in changes {
        let is_later = death.is_some_and(|death| !folder.is_before(change, death));
        for owner in &owners {
            writer.record(owner, number, change, is_uncertain || is_later)?;
        }
    }
    dead.iter().try_for_each(|window| writer.close_window(window.number))
}

/// Returns the marks of restorations of `folder` whose processes died. One of this process has
/// ended, since the folder is locked.
fn left_behind(writer: &Writer<'_>, folder: i64) -> Result<Vec<(u32, Mark)>, Error> {
    let mut marks = writer.restoring(folder)?;
    marks.retain(|(process, _)| *process == std::process::id() || !is_running(*process));
    Ok(marks)
}

fn is_running(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// A panic while it was locked left either what was known or nothing, see [`Undo::look`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
