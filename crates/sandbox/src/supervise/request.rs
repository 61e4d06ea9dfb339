//! The messages between the server and a supervisor, as bytes over a socket pair. Both ends are the
//! same program, so the format has no versions.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use policy::Access;

use super::places::Places;
use super::request_limits::RequestedLimits;
use crate::limits::{Exceeded, Resource, Scope};
use crate::linux::landlock::Ruleset;
use crate::linux::view::{Missing, Step, View};

/// A command to start. Strings have no NUL byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Empty: nothing runs, which only shows whether the confinement works.
    pub(crate) program: Vec<u8>,
    pub(crate) argv: Vec<Vec<u8>>,
    /// `NAME=value`.
    pub(crate) env: Vec<Vec<u8>>,
    pub(crate) cwd: Vec<u8>,
    /// See [`crate::Spawn::cwd_is_real`].
    pub(crate) cwd_is_real: bool,
    /// True if standard input is a terminal that becomes the controlling one.
    pub(crate) terminal: bool,
    /// The ports of a managed network's proxies inside of the sandbox. A socket for the listeners
    /// is sent with the request.
    pub(crate) ports: Option<Ports>,
    /// Placeholders to remove after the command, if the server has ended.
    pub(crate) placeholders: Vec<Vec<u8>>,
    pub(crate) confinement: Confinement,
    pub(crate) limits: RequestedLimits,
}

/// Ports of the proxies of a managed network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) socks: Option<u16>,
    /// True if UDP is served on the port of SOCKS5.
    pub(crate) udp: bool,
}

impl Ports {
    /// The form as an argument of a program.
    pub(crate) fn text(self) -> String {
        format!("{},{},{}", self.http, self.socks.unwrap_or(0), u8::from(self.udp))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let mut next = || parts.next()?.parse::<u16>().ok();
        let (http, socks, udp) = (next()?, next()?, next()?);
        Some(Self { http, socks: (socks != 0).then_some(socks), udp: udp == 1 })
    }
}

/// The confinement of the command by the supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Confinement {
    #[default]
    None,
    /// Namespaces of its own.
    Namespaces {
        view: View,
        /// True if the network is the machine's.
        network: bool,
        filter: Vec<u8>,
        /// Landlock inside of the namespaces.
        narrowing: Option<Narrowing>,
    },
    Landlock {
        ruleset: Ruleset,
        filter: Vec<u8>,
        /// The places that the supervisor may change for the command, whose filter then asks it.
        places: Option<Places>,
    },
}

/// The writable folders, opened before they are mounted, so that nothing else can be written wherever
/// their names lead by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Narrowing {
    /// Real paths.
    pub(crate) roots: Vec<Vec<u8>>,
}

/// The server's message to terminate all processes gracefully. Closing the socket kills them.
pub(crate) const TERMINATE: u8 = b'T';
/// Descriptors sent with a request: the socket to the server, three streams, the socket for the listeners of a
/// managed network and the table of a group's limits. A byte says which of the last two are sent.
pub(crate) const MAX_START_FDS: usize = 6;
/// Bits of that byte.
pub(crate) const WITH_EGRESS: u8 = 1;
pub(crate) const WITH_TABLE: u8 = 2;

/// Larger than the arguments that the kernel accepts for `exec`.
pub(crate) const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

impl Request {
    /// The encoded request, with its length as prefix.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(4096);
        put(&mut body, &self.program);
        put_list(&mut body, &self.argv);
        put_list(&mut body, &self.env);
        put(&mut body, &self.cwd);
        body.push(u8::from(self.cwd_is_real));
        body.push(u8::from(self.terminal));
        put(&mut body, self.ports.map(Ports::text).unwrap_or_default().as_bytes());
        put_list(&mut body, &self.placeholders);
        match &self.confinement {
            Confinement::None => body.push(0),
            Confinement::Namespaces { view, network, filter, narrowing } => {
                body.push(1);
                encode_view(&mut body, view);
                body.push(u8::from(*network));
                put(&mut body, filter);
                body.push(u8::from(narrowing.is_some()));
                if let Some(Narrowing { roots }) = narrowing {
                    put_list(&mut body, roots);
                }
            }
            Confinement::Landlock { ruleset, filter, places } => {
                body.push(2);
                body.extend(ruleset.abi.to_le_bytes());
                body.push(u8::from(ruleset.network));
                put_len(&mut body, ruleset.rules.len());
                for (path, access) in &ruleset.rules {
                    put(&mut body, path);
                    body.extend(access.to_le_bytes());
                }
                put(&mut body, filter);
                body.push(u8::from(places.is_some()));
                if let Some(places) = places {
                    put_places(&mut body, places);
                }
            }
        }
        put(&mut body, &self.limits.encode());
        let mut message = Vec::with_capacity(body.len() + 4);
        put(&mut message, &body);
        message
    }

    /// Decodes the result of [`Request::encode`] without its length; `None` if malformed.
    pub(crate) fn decode(body: &[u8]) -> Option<Request> {
        let mut rest = body;
        let request = Request {
            program: take_bytes(&mut rest)?,
            argv: take_list(&mut rest)?,
            env: take_list(&mut rest)?,
            cwd: take_bytes(&mut rest)?,
            cwd_is_real: take_bool(&mut rest)?,
            terminal: take_bool(&mut rest)?,
            ports: take_ports(&mut rest)?,
            placeholders: take_list(&mut rest)?,
            confinement: take_confinement(&mut rest)?,
            limits: RequestedLimits::decode(&take_bytes(&mut rest)?)?,
        };
        rest.is_empty().then_some(request)
    }
}

/// A report of a supervisor to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command is running.
    Started { pid: i32 },
    /// The command could not be started; `errno` is the reason.
    Failed { stage: Stage, errno: i32 },
    /// The command ended; if confined, with all of its descendants. The rest is what it used, as far as its group
    /// has to know: milliseconds on processors, and bytes written.
    Exited { how: Ended, cpu_time: u64, disk_written: u64 },
    /// The command is being ended, or has ended, because of a limit.
    Limited(Exceeded),
    /// In reports of a first process: the processes that it reaped have written so many bytes.
    Wrote { bytes: u64 },
    /// In reports of a first process, which was asked: whether another process can be made.
    Room { full: bool },
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
    /// The confinement could not be set up, so the command never ran. Its standard error has the
    /// reason.
    NotConfined(i32),
    /// The program could not be executed inside of the confinement; its `errno`.
    NotExecuted(i32),
}

/// The step of starting a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Request,
    Fork,
    Session,
    Folder,
    Namespaces,
    Confine,
    Exec,
}

impl Stage {
    pub(crate) const ALL: [Stage; 7] = [
        Stage::Request,
        Stage::Fork,
        Stage::Session,
        Stage::Folder,
        Stage::Namespaces,
        Stage::Confine,
        Stage::Exec,
    ];

    pub(crate) fn from_number(number: i32) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| *stage as i32 == number)
    }
}

/// Bytes of an encoded [`Report`].
pub(crate) const REPORT_BYTES: usize = 28;

impl Report {
    /// The report that a command ended, of which its group has nothing to know.
    pub(crate) fn exited(how: Ended) -> Self {
        Self::Exited { how, cpu_time: 0, disk_written: 0 }
    }

    pub(crate) fn encode(self) -> [u8; REPORT_BYTES] {
        let (fields, amounts) = match self {
            Report::Started { pid } => ([0, pid, 0], [0, 0]),
            Report::Failed { stage, errno } => ([1, stage as i32, errno], [0, 0]),
            Report::Exited { how, cpu_time, disk_written } => {
                let [kind, value] = match how {
                    Ended::Code(code) => [0, code],
                    Ended::Signal(signal) => [1, signal],
                    Ended::NotConfined(code) => [2, code],
                    Ended::NotExecuted(errno) => [3, errno],
                };
                ([2, kind, value], [cpu_time, disk_written])
            }
            Report::Limited(Exceeded { resource, scope, limit, reached }) => {
                ([3, resource as i32, i32::from(scope == Scope::Group)], [limit, reached])
            }
            Report::Wrote { bytes } => ([4, 0, 0], [bytes, 0]),
            Report::Room { full } => ([5, i32::from(full), 0], [0, 0]),
        };
        let mut bytes = [0; REPORT_BYTES];
        let (numbers, long) = bytes.split_at_mut(12);
        for (field, place) in fields.iter().zip(numbers.as_chunks_mut::<4>().0) {
            *place = field.to_le_bytes();
        }
        for (amount, place) in amounts.iter().zip(long.as_chunks_mut::<8>().0) {
            *place = amount.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; REPORT_BYTES]) -> Option<Report> {
        let (numbers, long) = bytes.split_at_checked(12)?;
        let [tag, first, second] = numbers.as_chunks::<4>().0 else { return None };
        let [amount, other] = long.as_chunks::<8>().0 else { return None };
        let first = i32::from_le_bytes(*first);
        let second = i32::from_le_bytes(*second);
        let (amount, other) = (u64::from_le_bytes(*amount), u64::from_le_bytes(*other));
        let exited = |how| Some(Report::Exited { how, cpu_time: amount, disk_written: other });
        match (i32::from_le_bytes(*tag), first) {
            (0, pid) => Some(Report::Started { pid }),
            (1, stage) => Some(Report::Failed { stage: Stage::from_number(stage)?, errno: second }),
            (2, 0) => exited(Ended::Code(second)),
            (2, 1) => exited(Ended::Signal(second)),
            (2, 2) => exited(Ended::NotConfined(second)),
            (2, 3) => exited(Ended::NotExecuted(second)),
            (3, resource) => {
                let resource = Resource::ALL.into_iter().find(|known| *known as i32 == resource)?;
                let scope = if second == 1 { Scope::Group } else { Scope::Command };
                Some(Report::Limited(Exceeded { resource, scope, limit: amount, reached: other }))
            }
            (4, 0) => Some(Report::Wrote { bytes: amount }),
            (5, full) => Some(Report::Room { full: full != 0 }),
            _ => None,
        }
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    // The reader's bound refuses a length beyond 32 bits anyway.
    out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_list(out: &mut Vec<u8>, list: &[Vec<u8>]) {
    put_len(out, list.len());
    list.iter().for_each(|bytes| put(out, bytes));
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_len(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(take_array(rest)?)).ok()
}

fn take_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (head, tail) = { take_len(rest).and_then(|len| rest.split_at_checked(len))? };
    *rest = tail;
    Some(head.to_vec())
}

fn take_list(rest: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    (0..take_len(rest)?).map(|_| take_bytes(rest)).collect()
}

fn take_bool(rest: &mut &[u8]) -> Option<bool> {
    match take_array::<1>(rest)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

fn take_ports(rest: &mut &[u8]) -> Option<Option<Ports>> {
    match take_bytes(rest)?.as_slice() {
        [] => Some(None),
        text => Ports::parse(std::str::from_utf8(text).ok()?).map(Some),
    }
}

fn take_confinement(rest: &mut &[u8]) -> Option<Confinement> {
    match take_array::<1>(rest)? {
        [0] => Some(Confinement::None),
        [1] => Some(Confinement::Namespaces {
            view: take_view(rest)?,
            network: take_bool(rest)?,
            filter: take_bytes(rest)?,
            narrowing: match take_bool(rest)? {
                false => None,
                true => Some(Narrowing { roots: take_list(rest)? }),
            },
        }),
        [2] => Some(Confinement::Landlock {
            ruleset: Ruleset {
                abi: u32::from_le_bytes(take_array(rest)?),
                network: take_bool(rest)?,
                rules: take_rules(rest)?,
            },
            filter: take_bytes(rest)?,
            places: match take_bool(rest)? {
                false => None,
                true => Some(take_places(rest)?),
            },
        }),
        _ => None,
    }
}

fn put_places(out: &mut Vec<u8>, places: &Places) {
    let Places { roots, protected, frozen, pins, readable } = places;
    for list in [roots, protected, frozen, pins] {
        put_len(out, list.len());
        list.iter().for_each(|path| put(out, path.as_os_str().as_bytes()));
    }
    put_len(out, readable.len());
    for (path, access) in readable {
        put(out, path.as_os_str().as_bytes());
        out.push(match access {
            Access::None => 0,
            Access::Read => 1,
            Access::Write => 2,
        });
    }
}

fn take_places(rest: &mut &[u8]) -> Option<Places> {
    let path = |rest: &mut &[u8]| Some(PathBuf::from(OsString::from_vec(take_bytes(rest)?)));
    let list = |rest: &mut &[u8]| (0..take_len(rest)?).map(|_| path(rest)).collect::<Option<_>>();
    let rule = |rest: &mut &[u8]| {
        let path = path(rest)?;
        let access = match take_array(rest)? {
            [0] => Access::None,
            [1] => Access::Read,
            [2] => Access::Write,
            _ => return None,
        };
        Some((path, access))
    };
    Some(Places {
        roots: list(rest)?,
        protected: list(rest)?,
        frozen: list(rest)?,
        pins: list(rest)?,
        readable: (0..take_len(rest)?).map(|_| rule(rest)).collect::<Option<_>>()?,
    })
}

fn take_rules(rest: &mut &[u8]) -> Option<Vec<(Vec<u8>, u64)>> {
    let rule = |rest: &mut &[u8]| Some((take_bytes(rest)?, u64::from_le_bytes(take_array(rest)?)));
    (0..take_len(rest)?).map(|_| rule(rest)).collect()
}

pub(crate) fn encode_view(out: &mut Vec<u8>, view: &View) {
    out.push(match view.whole {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    });
    put_len(out, view.steps.len());
    for step in &view.steps {
        let (tag, paths): (u8, [&Path; 2]) = match step {
            Step::Show { path, writable, missing } => {
                let skipped = u8::from(*missing == Missing::Skipped);
                (u8::from(*writable) << 1 | skipped, [path, Path::new("")])
            }
            Step::Empty(path) => (4, [path, Path::new("")]),
            Step::Cover(path) => (5, [path, Path::new("")]),
            Step::Freeze(path) => (6, [path, Path::new("")]),
            Step::Processes => (7, [Path::new(""); 2]),
            Step::Devices => (8, [Path::new(""); 2]),
            Step::Link { at, to } => (9, [at, to]),
        };
        out.push(tag);
        paths.iter().for_each(|path| put(out, path.as_os_str().as_bytes()));
    }
}

fn take_view(rest: &mut &[u8]) -> Option<View> {
    let whole = match take_array::<1>(rest)? {
        [0] => None,
        [1] => Some(false),
        [2] => Some(true),
        _ => return None,
    };
    let steps = (0..take_len(rest)?).map(|_| take_step(rest)).collect::<Option<_>>()?;
    Some(View { whole, steps })
}

fn take_step(rest: &mut &[u8]) -> Option<Step> {
    let [tag] = take_array(rest)?;
    let mut path = || Some(PathBuf::from(OsString::from_vec(take_bytes(rest)?)));
    let (path, to) = (path()?, path()?);
    Some(match tag {
        0..=3 => {
            let missing = if tag & 1 == 0 { Missing::Refused } else { Missing::Skipped };
            Step::Show { path, writable: tag & 2 != 0, missing }
        }
        4 => Step::Empty(path),
        5 => Step::Cover(path),
        6 => Step::Freeze(path),
        7 => Step::Processes,
        8 => Step::Devices,
        9 => Step::Link { at: path, to },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..12)
    }

    fn list() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(bytes(), 0..4)
    }

    fn ports() -> impl Strategy<Value = Option<Ports>> {
        let ports = (any::<u16>(), prop::option::of(1..u16::MAX), any::<bool>());
        prop::option::of(ports.prop_map(|(http, socks, udp)| Ports { http, socks, udp }))
    }

    fn view() -> impl Strategy<Value = View> {
        let path = || bytes().prop_map(|path| PathBuf::from(OsString::from_vec(path)));
        let missing = prop_oneof![Just(Missing::Refused), Just(Missing::Skipped)];
        let step = prop_oneof![
            (path(), any::<bool>(), missing).prop_map(|(path, writable, missing)| Step::Show {
                path,
                writable,
                missing
            }),
            path().prop_map(Step::Empty),
            path().prop_map(Step::Cover),
            path().prop_map(Step::Freeze),
            Just(Step::Processes),
            Just(Step::Devices),
            (path(), path()).prop_map(|(at, to)| Step::Link { at, to }),
        ];
        (prop::option::of(any::<bool>()), prop::collection::vec(step, 0..6))
            .prop_map(|(whole, steps)| View { whole, steps })
    }

    fn places() -> impl Strategy<Value = Places> {
        let path = || bytes().prop_map(|path| PathBuf::from(OsString::from_vec(path)));
        let paths = || prop::collection::vec(path(), 0..3);
        let access = prop_oneof![Just(Access::None), Just(Access::Read), Just(Access::Write)];
        let readable = prop::collection::vec((path(), access), 0..3);
        (paths(), paths(), paths(), paths(), readable).prop_map(
            |(roots, protected, frozen, pins, readable)| Places {
                roots,
                protected,
                frozen,
                pins,
                readable,
            },
        )
    }

    fn confinement() -> impl Strategy<Value = Confinement> {
        let rules = prop::collection::vec((bytes(), any::<u64>()), 0..4);
        prop_oneof![
            Just(Confinement::None),
            (view(), any::<bool>(), bytes(), prop::option::of(list())).prop_map(
                |(view, network, filter, narrowing)| {
                    let narrowing = narrowing.map(|roots| Narrowing { roots });
                    Confinement::Namespaces { view, network, filter, narrowing }
                }
            ),
            (any::<u32>(), any::<bool>(), rules, bytes(), prop::option::of(places())).prop_map(
                |(abi, network, rules, filter, places)| {
                    let ruleset = Ruleset { abi, network, rules };
                    Confinement::Landlock { ruleset, filter, places }
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn a_request_round_trips(
            program in bytes(), argv in list(), env in list(), cwd in bytes(),
            cwd_is_real in any::<bool>(), terminal in any::<bool>(), ports in ports(),
            placeholders in list(), confinement in confinement(), file_size in any::<u32>(),
        ) {
            let file_size = Some(file_size.into());
            let limits = RequestedLimits { file_size, ..RequestedLimits::default() };
            let request = Request {
                program, argv, env, cwd, cwd_is_real, terminal, ports, placeholders, confinement,
                limits,
            };
            let encoded = request.encode();
            prop_assert_eq!(Request::decode(&encoded[4..]), Some(request));
            prop_assert_eq!(Request::decode(&encoded[4..encoded.len() - 1]), None);
        }

        #[test]
        fn malformed_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::decode(&bytes);
        }

        #[test]
        fn readable_reports_round_trip(bytes in any::<[u8; REPORT_BYTES]>()) {
            if let Some(report) = Report::decode(&bytes) {
                prop_assert_eq!(Report::decode(&report.encode()), Some(report));
            }
        }
    }

    #[test]
    fn every_report_round_trips() {
        let mut reports = vec![
            Report::Started { pid: 7 },
            Report::Exited { how: Ended::Code(3), cpu_time: 4, disk_written: u64::MAX },
            Report::exited(Ended::Signal(9)),
            Report::exited(Ended::NotConfined(1)),
            Report::exited(Ended::NotExecuted(2)),
            Report::Wrote { bytes: 1 << 40 },
            Report::Room { full: true },
            Report::Room { full: false },
        ];
        for resource in Resource::ALL {
            for scope in [Scope::Command, Scope::Group] {
                let exceeded = Exceeded { resource, scope, limit: 7, reached: 1 << 50 };
                reports.push(Report::Limited(exceeded));
            }
        }
        reports.extend(Stage::ALL.map(|stage| Report::Failed { stage, errno: 2 }));
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }
}
