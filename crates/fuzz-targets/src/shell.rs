//! The shell classifier: whatever the script, it answers, and what it understood it can write down
//! again for a shell to read back as the same words. They are among the words that may name files.

use std::path::{Path, PathBuf};

use sandbox::rules::{
    Context, GitUse, Invocation, PrefixRule, Resolver, Rules, Token, assess, file_words, parse,
    quote,
};

use crate::input::text;

/// Every bare name is a program of the system, and nothing else is one.
struct Machine;

impl Resolver for Machine {
    fn resolve(&self, program: &str, _cwd: &Path) -> Option<PathBuf> {
        (!program.is_empty() && !program.contains('/')).then(|| Path::new("/usr/bin").join(program))
    }

    fn git_is_inert(&self, _dir: &Path, _usage: GitUse) -> bool {
        true
    }
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let script = text(bytes);
    let mut rules = Rules::default();
    let forbidden = vec![Token::Literal("rm".to_owned())];
    let forbidden = PrefixRule::new(forbidden, sandbox::rules::Decision::Forbidden, None);
    rules.add(forbidden.expect("a rule"));
    let context = Context { cwd: Path::new("/w"), resolver: &Machine };
    let assessed = assess(Invocation::Script(script), &context, &rules);
    assert!(!assessed.actions.is_empty());
    let named = file_words(script, &|_| None);
    let Some(commands) = parse(script) else {
        assert!(!assessed.known_safe, "safe without being understood");
        return;
    };
    let removes = commands.iter().any(|command| command.words[0].text == "rm");
    assert!(!removes || assessed.decision.is_some(), "a rule was passed by");
    assert!(!(removes && assessed.known_safe));
    for command in commands {
        // `[[ … ]]` counts as the program `test` there.
        let is_name = |text: &str| !text.is_empty() && text != "test";
        for word in command.words.iter().filter(|word| !word.expands && is_name(&word.text)) {
            let is_named =
                named.as_ref().is_none_or(|named| named.iter().any(|it| it.text == word.text));
            assert!(is_named, "{word:?} may name a file");
        }
        let argv = command.argv();
        let again = parse(&quote(&argv)).expect("a quoted command is plain");
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].argv(), argv);
    }
}
