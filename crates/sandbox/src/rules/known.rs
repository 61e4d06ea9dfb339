//! The programs that may run without asking, one row each, with the arguments for which they change
//! nothing, start no program that another party chose, and terminate by themselves. Reading files
//! is not restricted here, but by the sandbox.

use std::path::Path;

use super::context::Context;
use super::known_starters::{fed_by_xargs, is_safe_find, limited_by_timeout, split_exec};
use super::options::{ANY, Options};
use super::parse::{Command, parse};
use super::places::{Places, places};
use super::programs::{SHELLS, base_name};
use super::word::VARIABLES;
use super::word::Word;
use super::{known_awk, known_git, known_sed};

/// Depth to which shells inside of shells are followed.
const MAX_SHELLS: usize = 3;
/// The folders of the operating system's programs.
const SYSTEM_FOLDERS: &[&str] = &["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"];

enum Check {
    /// Harmless with any arguments.
    Anything,
    Allowed(Options),
    Custom(fn(&[Word]) -> bool),
    /// As `Custom`, but only for a program in a folder of the operating system.
    System(fn(&[Word]) -> bool),
    Git,
}

struct Row {
    names: &'static [&'static str],
    /// A shell runs these itself, regardless of `PATH`.
    builtin: bool,
    check: Check,
}

/// Returns whether a whole script is known safe: it is not empty, and each of its commands is.
pub(super) fn all_known_safe(commands: &[Command], context: &Context<'_>) -> bool {
    script_is_safe(commands, context, 0)
}

/// Returns for each command, in order, whether it is known safe.
pub(super) fn each_known_safe(commands: &[Command], context: &Context<'_>) -> Vec<bool> {
    places(commands, context.cwd)
        .iter()
        .zip(commands)
        .map(|(places, command)| is_safe(command, places, context, 0))
        .collect()
}

fn script_is_safe(commands: &[Command], context: &Context<'_>, depth: usize) -> bool {
    let places = places(commands, context.cwd);
    !commands.is_empty()
        && places
            .iter()
            .zip(commands)
            .all(|(places, command)| is_safe(command, places, context, depth))
}

fn is_safe(command: &Command, places: &Places, context: &Context<'_>, depth: usize) -> bool {
    let Some((program, args)) = command.words.split_first() else {
        return false;
    };
    if program.expands {
        return false;
    }
    let name = base_name(&program.text);
    if SHELLS.contains(&name) {
        return depth < MAX_SHELLS
            && is_system_program(&program.text, places, context)
            && nested_is_safe(args, places, context, depth);
    }
    if let Some(started) = started(name, args) {
        let known =
            |command: &Command| depth < MAX_SHELLS && is_safe(command, places, context, depth + 1);
        return is_on_path(&program.text, places, context)
            && started.is_some_and(|(own, commands)| {
                (name != "find" || is_safe_find(&own)) && commands.iter().all(known)
            });
    }
    let Some(row) = KNOWN.iter().find(|row| row.names.contains(&name)) else {
        return false;
    };
    let builtin = row.builtin && command.shell && !program.text.contains('/');
    if !builtin && !is_on_path(&program.text, places, context) {
        return false;
    }
    match &row.check {
        Check::Anything => true,
        Check::Allowed(options) => options.permit(args),
        Check::Custom(check) => check(args),
        Check::System(check) => is_system_program(&program.text, places, context) && check(args),
        Check::Git => known_git::is_safe(args, places, context.resolver),
    }
}

/// For a program that starts others: its own arguments and the command that it starts, if both are
/// understood.
#[allow(clippy::option_option, reason = "not such a program, or not understood")]
fn started(name: &str, args: &[Word]) -> Option<Option<(Vec<Word>, Vec<Command>)>> {
    let one = |command: Option<Command>| command.map(|command| (Vec::new(), vec![command]));
    match name {
        "find" => Some(split_exec(args)),
        "xargs" => Some(one(fed_by_xargs(args))),
        "timeout" => Some(one(limited_by_timeout(args))),
        _ => None,
    }
}

fn nested_is_safe(args: &[Word], places: &Places, context: &Context<'_>, depth: usize) -> bool {
    let (Some(script), Some([cwd])) = (shell_script(args), places.as_deref()) else {
        return false;
    };
    let nested = Context { cwd, ..*context };
    parse(script).is_some_and(|commands| script_is_safe(&commands, &nested, depth + 1))
}

/// The script of `-c SCRIPT` or `-lc SCRIPT`.
pub(super) fn shell_script(args: &[Word]) -> Option<&str> {
    let (flags, script) = match args {
        [flags, script] => (flags.text.as_str(), script),
        [login, flags, script] if login.text == "-l" => (flags.text.as_str(), script),
        _ => return None,
    };
    let plain = matches!(flags, "-c" | "-lc" | "-cl") && !script.expands;
    plain.then_some(script.text.as_str())
}

/// Returns whether the word resolves to the file that its bare name finds on `PATH`, in every
/// folder where the command can run: `./cat` is not `cat`.
fn is_on_path(program: &str, places: &Places, context: &Context<'_>) -> bool {
    let Some(found) = context.resolver.resolve(base_name(program), context.cwd) else {
        return false;
    };
    if !program.contains('/') {
        return true;
    }
    if Path::new(program).is_absolute() {
        return context.resolver.resolve(program, context.cwd) == Some(found);
    }
    places.as_ref().is_some_and(|places| {
        places.iter().all(|cwd| context.resolver.resolve(program, cwd).as_ref() == Some(&found))
    })
}

pub(super) fn is_system_program(program: &str, places: &Places, context: &Context<'_>) -> bool {
    let found = context.resolver.resolve(base_name(program), context.cwd);
    is_on_path(program, places, context)
        && found.is_some_and(|file| {
            SYSTEM_FOLDERS.iter().any(|folder| file.parent() == Some(Path::new(folder)))
        })
}

const fn any(names: &'static [&'static str]) -> Row {
    Row { names, builtin: false, check: Check::Anything }
}

const fn builtin(names: &'static [&'static str], check: fn(&[Word]) -> bool) -> Row {
    Row { names, builtin: true, check: Check::Custom(check) }
}

const fn custom(names: &'static [&'static str], check: fn(&[Word]) -> bool) -> Row {
    Row { names, builtin: false, check: Check::Custom(check) }
}

const fn allowed(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Row {
    Row { names, builtin: false, check: Check::Allowed(Options::new(short, long, operands)) }
}

static KNOWN: &[Row] = &[
    // Only print; no option of the GNU, BSD or busybox versions writes a file or starts a
    // program.
    any(&["arch", "basename", "cat", "cksum", "column", "comm", "cmp", "cut", "df", "dirname"]),
    any(&["du", "egrep", "expand", "expr", "fgrep", "fmt", "fold", "grep", "groups", "head"]),
    any(&["id", "join", "logname", "ls", "md5sum", "nl", "nproc", "od", "paste", "pr"]),
    any(&["b2sum", "readlink", "realpath", "rev", "seq", "sha1sum", "sha224sum", "sha256sum"]),
    any(&["sha384sum", "sha512sum", "stat", "strings", "sum", "tac", "tr", "tsort", "unexpand"]),
    any(&["wc", "which", "whoami"]),
    builtin(&["cd", "echo", "false", "pwd", "true", "type", ":"], |_| true),
    builtin(
        &["command"],
        |args| matches!(args, [flag, ..] if flag.text == "-v" || flag.text == "-V"),
    ),
    builtin(&["printf"], is_safe_printf),
    builtin(&["test", "["], is_safe_test),
    allowed(&["base64", "base32"], "dDiw:", &["decode ignore-garbage wrap="], 1),
    custom(&["date"], is_safe_date),
    allowed(&["diff"], "abBcC:deEiI:nNpqrstTuU:wW:x:yZ", &[DIFF_LONG], ANY),
    allowed(&["fd", "fdfind"], "HIusigFapLd:t:e:E:c:01q", &[FD_LONG], ANY),
    allowed(&["file"], "bhiLkNpv0", &[FILE_LONG], ANY),
    custom(&["awk", "gawk", "mawk"], known_awk::is_safe),
    allowed(&["free"], "bkmght", &["human total mega giga"], 0),
    Row { names: &["git"], builtin: false, check: Check::Git },
    allowed(&["hexdump", "hd"], "bcCdovxn:s:", &[], ANY),
    allowed(&["hostname"], "fsdiIA", &[], 0),
    custom(&["jq"], is_safe_jq),
    custom(&["lsof"], is_safe_lsof),
    allowed(
        &["pgrep"],
        "aflnoxvciu:P:g:t:d:",
        &["count exact full ignore-case list-full list-name newest oldest"],
        ANY,
    ),
    custom(&["printenv"], |args| matches!(args, [name] if VARIABLES.contains(&name.text.as_str()))),
    custom(&["ps"], is_safe_ps),
    allowed(
        &["readelf"],
        "ahlSsdnVWeg",
        &[
            "all dynamic file-header headers notes program-headers sections segments symbols syms wide",
        ],
        ANY,
    ),
    allowed(&["rg"], RG_SHORT, &[RG_LONG], ANY),
    custom(&["sed"], known_sed::is_safe),
    custom(&["sleep"], is_safe_sleep),
    allowed(&["sort"], "bcCdfghiMmnRrsuVzk:t:S:", &[SORT_LONG], ANY),
    custom(&["tail"], is_safe_tail),
    custom(&["tar"], is_safe_tar),
    allowed(&["tree"], "adfilpsughDFCnNqrtUvxASJXcL:P:I:", &[TREE_LONG], ANY),
    allowed(&["uname"], "asnrvmpio", &["all machine kernel-name kernel-release"], 0),
    allowed(&["uniq"], "cdDiuzf:s:w:", &[UNIQ_LONG], 1),
    custom(
        &["unzip"],
        |args| matches!(args, [list, file] if matches!(list.text.as_str(), "-l" | "-v" | "-Z1") && !file.may_be_option()),
    ),
    allowed(&["xxd"], "bc:eEg:il:ps:u", &[], 1),
    custom(&["zcat"], |args| !args.iter().any(Word::may_be_option)),
    Row { names: &["dpkg"], builtin: false, check: Check::System(is_package_query) },
    Row { names: &["pip", "pip3"], builtin: false, check: Check::System(is_pip_query) },
    // Only those of the system: a version manager can read the project's choice of program.
    Row { names: VERSIONED, builtin: false, check: Check::System(is_version_query) },
];

const VERSIONED: &[&str] =
    &["cc", "clang", "g++", "gcc", "node", "perl", "python", "python3", "ruby"];

const DIFF_LONG: &str = "\
    brief color? context? exclude= ignore-all-space ignore-blank-lines ignore-case \
    ignore-space-change ignore-trailing-space label= minimal new-file no-dereference \
    recursive report-identical-files show-c-function side-by-side speed-large-files \
    strip-trailing-cr suppress-common-lines text unified? width=";

const FD_LONG: &str = "\
    absolute-path case-sensitive color= exclude= extension= fixed-strings follow \
    full-path glob hidden ignore-case max-depth= max-results= min-depth= no-ignore \
    no-ignore-vcs print0 type= unrestricted";

const FILE_LONG: &str = "\
    brief dereference keep-going mime mime-encoding mime-type no-dereference raw version";

/// Without `-z` (starts decompressors), `--pre` and `--hostname-bin` (start what they name).
const RG_SHORT: &str = "aA:bB:cC:d:e:E:f:Fg:hHiIj:lLm:M:nNopPqr:sST:t:uUvVwx0.";

const RG_LONG: &str = "\
    after-context= before-context= binary byte-offset case-sensitive color= colors= \
    column context= context-separator= count count-matches crlf encoding= engine= file= \
    files files-with-matches files-without-match fixed-strings follow glob= \
    glob-case-insensitive heading help hidden iglob= ignore-case ignore-file= \
    include-zero invert-match json line-buffered line-number line-regexp max-columns= \
    max-columns-preview max-count= max-depth= max-filesize= multiline multiline-dotall \
    no-column no-config no-filename no-heading no-ignore no-ignore-dot no-ignore-parent \
    no-ignore-vcs no-line-number no-messages null one-file-system only-matching passthru \
    path-separator= pcre2 pretty quiet regexp= replace= smart-case sort= sortr= stats \
    text threads= trim type= type-add= type-list type-not= unrestricted version vimgrep \
    with-filename word-regexp";

/// Without `-o` (writes), `-T` (writes there) and `--compress-program` (starts what it names).
const SORT_LONG: &str = "\
    check? dictionary-order field-separator= general-numeric-sort human-numeric-sort \
    ignore-case ignore-leading-blanks key= merge month-sort numeric-sort random-sort \
    reverse stable unique version-sort zero-terminated";

/// Without `-o` and `-R` (write files).
const TREE_LONG: &str = "\
    charset= dirsfirst du filelimit= filesfirst gitignore help ignore-case inodes \
    matchdirs noreport prune si version";

const UNIQ_LONG: &str = "\
    all-repeated? check-chars= count group? ignore-case repeated skip-chars= \
    skip-fields= unique zero-terminated";

/// Operands can only be formats; others set the clock.
fn is_safe_date(args: &[Word]) -> bool {
    const LONG: &str = "date= debug iso-8601? reference= rfc-3339= rfc-email universal utc";
    Options::new("d:I::r:Ru", &[LONG], ANY)
        .operands_of(args)
        .is_some_and(|operands| operands.iter().all(|word| word.text.starts_with('+')))
}

/// jq can print its environment, which is not allowed for `printenv` either, and load programs from
/// files.
fn is_safe_jq(args: &[Word]) -> bool {
    const LONG: &str = "\
        arg= ascii-output color-output compact-output exit-status indent= join-output \
        monochrome-output null-input raw-input raw-output slurp sort-keys tab version";
    let plain = |word: &&Word| {
        let text = word.text.to_ascii_lowercase();
        !["env", "import", "include"].iter().any(|part| text.contains(part))
    };
    Options::new("acCejMnrRsS", &[LONG], ANY)
        .operands_of(args)
        .is_some_and(|operands| operands.first().is_none_or(plain))
        && args.iter().all(|word| plain(&word))
}

/// `-v NAME` and `%n` set a variable of the shell, such as `PATH`. Some shells evaluate numbers as
/// expressions, which can contain a substitution.
fn is_safe_printf(args: &[Word]) -> bool {
    let Some(format) = args.iter().find(|word| word.text != "--") else {
        return true;
    };
    !format.expands
        && !format.may_be_option()
        && !stores_length(&format.text)
        && !args.iter().any(holds_substitution)
}

/// Returns whether a format contains `%n`, with any flags, width and precision.
fn stores_length(format: &str) -> bool {
    let mut chars = format.chars();
    while chars.any(|c| c == '%') {
        let conversion = chars.find(|&c| !c.is_ascii_digit() && !"-+ #'*.hlLjtzq".contains(c));
        if conversion == Some('n') {
            return true;
        }
    }
    false
}

fn holds_substitution(word: &Word) -> bool {
    word.text.contains(['$', '`'])
}

/// Options with `+` repeat forever or write a file.
fn is_safe_lsof(args: &[Word]) -> bool {
    Options::new("nPi::tlp:u:", &[], ANY).permit(args)
        && !args.iter().any(|word| word.text.starts_with('+'))
}

/// `e` shows the environment of other processes.
fn is_safe_ps(args: &[Word]) -> bool {
    match args {
        [] => true,
        [only] => {
            matches!(only.text.as_str(), "aux" | "-ef" | "-e" | "-A" | "ax" | "auxf" | "-aux")
        }
        _ => false,
    }
}

/// `5p`, `1,5p`, `$p`, `10,$p`, `20q`.
pub(super) fn prints_lines(command: &str) -> bool {
    let number = |text: &str| {
        text == "$"
            || (!text.is_empty() && text.len() < 12 && text.bytes().all(|b| b.is_ascii_digit()))
    };
    let command = command.trim_matches(' ');
    if let Some(line) = command.strip_suffix('q') {
        return number(line);
    }
    match command.strip_suffix('p').map(|range| range.split_once(',')) {
        Some(Some((first, last))) => number(first) && number(last.trim_start_matches('+')),
        Some(None) => command.strip_suffix('p').is_some_and(number),
        None => false,
    }
}

/// A pause of at most an hour.
fn is_safe_sleep(args: &[Word]) -> bool {
    let [time] = args else {
        return false;
    };
    time.text.parse::<f64>().is_ok_and(|seconds| (0.0..=3600.0).contains(&seconds))
}

/// Without `-f`, which never ends; the old form `+5f` includes it.
fn is_safe_tail(args: &[Word]) -> bool {
    const LONG: &str = "bytes= lines= quiet silent verbose zero-terminated";
    Options::new("c:n:qvzr0123456789", &[LONG], ANY)
        .operands_of(args)
        .is_some_and(|operands| operands.iter().all(|word| !word.text.starts_with('+')))
}

/// `-v NAME` and `-R NAME` evaluate an index in the name, which can run a command. Some shells
/// evaluate numbers as well.
fn is_safe_test(args: &[Word]) -> bool {
    args.iter().all(|word| {
        let evaluates = matches!(word.text.as_str(), "-v" | "-R") || holds_substitution(word);
        let option = word.expands && word.may_be_option();
        !evaluates && !option
    })
}

/// `tar -tf FILE` with letters for compression and `v`. Other options of tar can name a program,
/// and a file with a colon is on another machine.
fn is_safe_tar(args: &[Word]) -> bool {
    let [letters, file, members @ ..] = args else { return false };
    let letters = letters.text.strip_prefix('-').unwrap_or(&letters.text);
    let lists = letters.ends_with('f')
        && letters.contains('t')
        && letters.len() <= 4
        && letters.chars().all(|letter| "tvzjJf".contains(letter));
    let plain = |word: &Word| !word.may_be_option();
    lists && plain(file) && !file.text.contains(':') && !file.expands && members.iter().all(plain)
}

/// Lists installed packages.
fn is_package_query(args: &[Word]) -> bool {
    args.split_first().is_some_and(|(query, rest)| {
        matches!(query.text.as_str(), "-l" | "-L" | "-s" | "-S" | "--list" | "--status")
            && !rest.iter().any(Word::may_be_option)
    })
}

/// Lists installed packages; options of pip can name an index to query.
fn is_pip_query(args: &[Word]) -> bool {
    args.split_first().is_some_and(|(verb, rest)| {
        matches!(verb.text.as_str(), "list" | "show") && !rest.iter().any(Word::may_be_option)
    })
}

fn is_version_query(args: &[Word]) -> bool {
    matches!(args, [only] if only.text == "--version")
}
