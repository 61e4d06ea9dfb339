//! The git commands that may run without asking: those that only read, with options that
//! neither write files nor start programs, in a repository that names no program itself.

use std::path::PathBuf;

use super::options::{ANY, Options};
use super::places::Places;
use super::resolver::{GitUse, Resolver, normalize};
use super::word::Word;

struct Row {
    names: &'static [&'static str],
    usage: GitUse,
    check: Check,
}

enum Check {
    Allowed(Options),
    Custom(fn(&[Word]) -> bool),
}

/// Returns whether git with these arguments is safe wherever the command may run.
pub(super) fn is_safe(args: &[Word], places: &Places, resolver: &dyn Resolver) -> bool {
    let Some((folders, args)) = global_options(args) else {
        return false;
    };
    let Some((name, args)) = args.split_first().filter(|(name, _)| !name.expands) else {
        return false;
    };
    if name.text == "--version" {
        return args.is_empty();
    }
    let Some(row) = COMMANDS.iter().find(|row| row.names.contains(&name.text.as_str())) else {
        return false;
    };
    let permitted = match &row.check {
        Check::Allowed(options) => options.permit(args),
        Check::Custom(check) => check(args),
    };
    permitted
        && !args.iter().any(asks_for_signature)
        && places.as_ref().is_some_and(|places| {
            places.iter().all(|place| {
                let folder =
                    folders.iter().fold(place.clone(), |at, next| normalize(&at.join(next)));
                resolver.git_is_inert(&folder, row.usage)
            })
        })
}

/// The folders of `-C` and what follows the global options. Other global options choose
/// another repository, another git, or its configuration.
fn global_options(args: &[Word]) -> Option<(Vec<PathBuf>, &[Word])> {
    let mut folders = Vec::new();
    let mut rest = args;
    loop {
        match rest {
            [flag, folder, after @ ..] if flag.text == "-C" => {
                if folder.expands || folder.text.is_empty() {
                    return None;
                }
                folders.push(PathBuf::from(&folder.text));
                rest = after;
            }
            [flag, value, after @ ..] if flag.text == "-c" && value.text == "core.pager=cat" => {
                rest = after;
            }
            [flag, after @ ..] if is_plain_global(&flag.text) => rest = after,
            _ => return Some((folders, rest)),
        }
    }
}

fn is_plain_global(flag: &str) -> bool {
    matches!(
        flag,
        "--no-pager"
            | "-P"
            | "--no-optional-locks"
            | "--no-replace-objects"
            | "--literal-pathspecs"
    )
}

/// Formats that verify signatures run a signature program.
fn asks_for_signature(word: &Word) -> bool {
    word.text.contains("%G") || word.text.contains("%(signature")
}

const fn allowed(
    names: &'static [&'static str],
    usage: GitUse,
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Row {
    Row { names, usage, check: Check::Allowed(Options::new(short, long, operands)) }
}

const fn custom(name: &'static [&'static str], usage: GitUse, check: fn(&[Word]) -> bool) -> Row {
    Row { names: name, usage, check: Check::Custom(check) }
}

const LOG: Options =
    Options::new("abcEFgG:iL:mM::C::n:pqRsS:tuU:wWz0123456789", &[DIFF, LOG_LONG], ANY);
const DIFFS: Options = Options::new("abC::DG:iM::pqRsS:uU:wWz0123456789", &[DIFF], ANY);

static COMMANDS: &[Row] = &[
    allowed(&["blame", "annotate"], GitUse::Objects, "bcC::eflL:M::npstw", &[BLAME], ANY),
    custom(&["branch"], GitUse::Objects, is_branch_list),
    allowed(&["cat-file"], GitUse::Objects, "epst", &[], ANY),
    allowed(&["check-ignore"], GitUse::Objects, "nqvz", &["no-index non-matching verbose"], ANY),
    allowed(&["cherry"], GitUse::Objects, "v", &["abbrev?"], ANY),
    custom(&["config"], GitUse::Objects, is_config_query),
    allowed(&["count-objects"], GitUse::Objects, "vH", &["verbose human-readable"], 0),
    allowed(&["describe"], GitUse::WorkTree, "", &[DESCRIBE], ANY),
    Row {
        names: &["diff", "diff-files", "diff-index"],
        usage: GitUse::WorkTree,
        check: Check::Allowed(DIFFS),
    },
    allowed(
        &["diff-tree"],
        GitUse::Objects,
        "abC::DG:iM::pqrRsS:tuU:wWz0123456789",
        &[DIFF, LOG_LONG, "no-commit-id"],
        ANY,
    ),
    allowed(&["for-each-ref"], GitUse::Objects, "", &[REFS], ANY),
    allowed(
        &["grep"],
        GitUse::Objects,
        "aA:bB:C:cEe:f:FGhHiIlLm:noPpqrvwWz0123456789",
        &[GREP],
        ANY,
    ),
    Row {
        names: &["log", "rev-list", "show", "whatchanged"],
        usage: GitUse::Objects,
        check: Check::Allowed(LOG),
    },
    allowed(&["ls-files"], GitUse::WorkTree, "cdikmostuvX:x:z", &[LS_FILES], ANY),
    allowed(&["ls-tree"], GitUse::Objects, "dlrtz", &[LS_TREE], ANY),
    allowed(&["merge-base"], GitUse::Objects, "a", &["all fork-point is-ancestor octopus"], ANY),
    allowed(&["name-rev"], GitUse::Objects, "", &["all always name-only tags"], ANY),
    custom(&["reflog"], GitUse::Objects, is_reflog_list),
    custom(&["remote"], GitUse::Objects, is_remote_list),
    allowed(&["rev-parse"], GitUse::Objects, "q", &[REV_PARSE], ANY),
    allowed(
        &["shortlog"],
        GitUse::Objects,
        "cens",
        &["all email no-merges numbered since= summary until="],
        ANY,
    ),
    allowed(
        &["show-ref"],
        GitUse::Objects,
        "dqs",
        &["dereference head heads branches quiet tags verify"],
        ANY,
    ),
    custom(&["stash"], GitUse::Objects, is_stash_query),
    allowed(&["status"], GitUse::WorkTree, "bsu::vz", &[STATUS], ANY),
    allowed(&["symbolic-ref"], GitUse::Objects, "q", &["quiet short"], 1),
    custom(&["tag"], GitUse::Objects, is_tag_list),
    custom(&["worktree"], GitUse::Objects, is_worktree_list),
];

/// Without `--output` (writes), `--ext-diff` and `--submodule` (start programs).
const DIFF: &str = "\
    abbrev? binary cached check color? color-words? compact-summary diff-algorithm= \
    diff-filter= dirstat? dst-prefix= exit-code find-copies? find-renames? full-index \
    function-context histogram ignore-all-space ignore-blank-lines ignore-space-at-eol \
    ignore-space-change ignore-submodules? inter-hunk-context= merge-base minimal \
    name-only name-status no-color no-ext-diff no-index no-patch no-prefix no-renames \
    no-textconv numstat patch patch-with-stat patience pickaxe-all pickaxe-regex quiet \
    raw relative? shortstat src-prefix= staged stat? summary text unified= word-diff? \
    word-diff-regex=";

/// Without `--show-signature` (starts a signature program).
const LOG_LONG: &str = "\
    abbrev-commit after= all all-match ancestry-path? author= author-date-order before= \
    boundary branches? cc cherry cherry-mark cherry-pick children committer= count date= \
    date-order decorate? extended-regexp first-parent fixed-strings follow format= \
    full-history graph grep= invert-grep left-only left-right mailmap max-count= \
    max-parents= merges min-parents= no-abbrev-commit no-decorate no-merges no-notes \
    no-walk? not oneline parents perl-regexp pretty? regexp-ignore-case relative-date \
    remotes? reverse right-only root simplify-by-decoration since= skip= source tags? \
    topo-order until= walk-reflogs";

const BLAME: &str = "\
    abbrev= date= first-parent ignore-rev= line-porcelain no-progress porcelain root \
    show-email show-name show-number show-stats since=";
const DESCRIBE: &str = "\
    abbrev= all always broken? candidates= contains dirty? exact-match exclude= \
    first-parent long match= tags";
const REFS: &str = "\
    color? contains? count= format= ignore-case merged? no-contains? no-merged? \
    points-at= sort=";
/// Without `-O` (starts a pager), `--textconv` (starts a driver), `--recurse-submodules`.
const GREP: &str = "\
    after-context= all-match and basic-regexp before-context= break cached color? column \
    context= count exclude-standard extended-regexp files-with-matches \
    files-without-match fixed-strings full-name function-context heading ignore-case \
    invert-match line-number max-count= max-depth= name-only no-color no-index not null \
    only-matching or perl-regexp quiet show-function text untracked word-regexp";
const LS_FILES: &str = "\
    abbrev? cached deduplicate deleted directory eol error-unmatch exclude= \
    exclude-standard full-name ignored killed modified others stage unmerged";
const LS_TREE: &str = "\
    abbrev? format= full-name full-tree long name-only name-status object-only";
const REV_PARSE: &str = "\
    abbrev-ref? absolute-git-dir all branches? git-common-dir git-dir git-path \
    is-bare-repository is-inside-git-dir is-inside-work-tree is-shallow-repository quiet \
    remotes? short? show-cdup show-object-format show-prefix \
    show-superproject-working-tree show-toplevel symbolic symbolic-full-name tags? \
    verify";
const STATUS: &str = "\
    ahead-behind branch column? find-renames? ignore-submodules? ignored? long \
    no-ahead-behind no-column no-renames null porcelain? renames short show-stash \
    untracked-files? verbose";
const LISTING: &str = "\
    abbrev= all color? column? contains format= ignore-case list merged no-abbrev \
    no-color no-column no-contains no-merged points-at= remotes show-current sort= \
    verbose";

/// An operand is a new branch, unless an option says that branches are listed.
fn is_branch_list(args: &[Word]) -> bool {
    lists(args, Options::new("airv", &[LISTING], ANY))
}

fn is_tag_list(args: &[Word]) -> bool {
    lists(args, Options::new("in0123456789", &[LISTING], ANY))
}

fn lists(args: &[Word], options: Options) -> bool {
    const LISTS: &[&str] = &["--contains", "--list", "--merged", "--no-contains", "--no-merged"];
    let Some(operands) = options.operands_of(args) else {
        return false;
    };
    // An option after `--` is an operand.
    let options = args.iter().take_while(|word| word.text != "--");
    let asked = options.into_iter().any(|word| LISTS.contains(&word.text.as_str()));
    operands.is_empty() || asked
}

/// `git config` writes unless its first argument says that it reads.
fn is_config_query(args: &[Word]) -> bool {
    const FLAGS: &[&str] = &[
        "--global",
        "--includes",
        "--local",
        "--name-only",
        "--null",
        "--show-origin",
        "--show-scope",
        "--system",
        "--worktree",
        "-z",
    ];
    const QUERIES: &[&str] = &["--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"];
    let flags = args.iter().take_while(|word| FLAGS.contains(&word.text.as_str())).count();
    // A name alone is read; one that could turn into two words could set it.
    if let [name] = &args[flags..] {
        let reads = !name.may_be_option() && !name.expands && name.text.contains('.');
        return reads || matches!(name.text.as_str(), "--list" | "-l" | "list");
    }
    let mut args = args[flags..].iter();
    args.next().is_some_and(|query| QUERIES.contains(&query.text.as_str()))
        && args.all(|word| !word.may_be_option() || FLAGS.contains(&word.text.as_str()))
}

fn is_reflog_list(args: &[Word]) -> bool {
    match args {
        [] => true,
        [first, rest @ ..] if first.text == "show" => LOG.permit(rest),
        [first, ..] => first.text.starts_with('-') && LOG.permit(args),
    }
}

fn is_remote_list(args: &[Word]) -> bool {
    match args {
        [] => true,
        [flag] => matches!(flag.text.as_str(), "-v" | "--verbose"),
        [verb, name] => verb.text == "get-url" && !name.may_be_option(),
        _ => false,
    }
}

fn is_stash_query(args: &[Word]) -> bool {
    match args {
        [verb, rest @ ..] if verb.text == "list" => LOG.permit(rest),
        [verb, rest @ ..] if verb.text == "show" => DIFFS.permit(rest),
        _ => false,
    }
}

fn is_worktree_list(args: &[Word]) -> bool {
    match args {
        [verb, rest @ ..] if verb.text == "list" => {
            Options::new("vz", &["porcelain verbose"], 0).permit(rest)
        }
        _ => false,
    }
}
