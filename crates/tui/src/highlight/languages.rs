//! The lexer's knowledge about each language.

/// A language, or several that look alike.
#[derive(Debug)]
pub(super) struct Language {
    /// Names and file extensions.
    pub(super) names: &'static str,
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comments: &'static [(&'static str, &'static str)],
    /// The delimiters of strings, the longest first.
    pub(super) strings: &'static [&'static str],
    pub(super) keywords: &'static str,
    /// Characters of words besides letters, digits and `_`.
    pub(super) word_characters: &'static str,
    /// True if it has calls and types, unlike data.
    pub(super) has_code: bool,
    /// True if a single quote may start something else than a character.
    pub(super) has_lifetimes: bool,
    /// True if keywords are the same in capital letters.
    pub(super) ignores_case: bool,
    pub(super) is_diff: bool,
}

const BASE: Language = Language {
    names: "",
    line_comments: &["//"],
    block_comments: &[("/*", "*/")],
    strings: &["\"", "'"],
    keywords: "",
    word_characters: "",
    has_code: true,
    has_lifetimes: false,
    ignores_case: false,
    is_diff: false,
};

const HASH: Language = Language { line_comments: &["#"], block_comments: &[], ..BASE };

impl Language {
    pub(super) fn is_keyword(&self, word: &str) -> bool {
        self.keywords.split_ascii_whitespace().any(|keyword| match self.ignores_case {
            true => keyword.eq_ignore_ascii_case(word),
            false => keyword == word,
        })
    }
}

/// The language of a name or file extension.
pub(super) fn find(name: &str) -> Option<&'static Language> {
    let is_name = |known: &str| known.eq_ignore_ascii_case(name);
    LANGUAGES.iter().find(|language| language.names.split_ascii_whitespace().any(is_name))
}

pub(super) static LANGUAGES: &[Language] = &[
    Language {
        names: "rust rs",
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in \
            let loop match mod move mut pub ref return self Self static struct super trait true type \
            unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize",
        has_lifetimes: true,
        ..BASE
    },
    Language {
        names: "c h cpp c++ cc cxx hpp hh objc objective-c m mm cuda cu glsl",
        keywords: "alignas auto bool break case catch char class const constexpr continue default delete do \
            double else enum explicit extern false final float for friend goto if inline int long \
            mutable namespace new noexcept nullptr operator override private protected public register \
            return short signed sizeof static struct switch template this throw true try typedef \
            typename union unsigned using virtual void volatile while include define ifdef ifndef endif",
        ..BASE
    },
    Language {
        names: "java kotlin kt kts scala groovy gradle csharp cs c# dart swift",
        strings: &["\"\"\"", "\"", "'"],
        keywords: "abstract as async await boolean break byte case catch char class companion const continue \
            data def default defer do double else enum extends extension false final finally float for \
            foreach fun func get given guard if implements implicit import in init inner instanceof int \
            interface internal is lateinit lazy let long match namespace new nil null object open \
            operator out override package private protected protocol public readonly record return \
            sealed self set short static string struct super switch synchronized this throw throws \
            trait true try type typealias using val var virtual void volatile when where while with yield",
        ..BASE
    },
    Language {
        names: "go golang",
        strings: &["\"", "'", "`"],
        keywords: "any bool break byte case chan const continue default defer else error fallthrough false \
            float32 float64 for func go goto if import int int32 int64 interface iota map nil package \
            range return rune select string struct switch true type uint uint8 uint32 uint64 var",
        ..BASE
    },
    Language {
        names: "javascript js mjs cjs jsx typescript ts mts cts tsx vue svelte",
        strings: &["\"", "'", "`"],
        keywords: "abstract any as async await boolean break case catch class const constructor continue \
            debugger declare default delete do else enum export extends false finally for from function \
            get if implements import in infer instanceof interface keyof let namespace never new null \
            number of private protected public readonly return satisfies set static string super switch \
            this throw true try type typeof undefined unknown var void while with yield",
        word_characters: "$",
        ..BASE
    },
    Language {
        names: "python py pyi python3 starlark bzl",
        strings: &["\"\"\"", "'''", "\"", "'"],
        keywords: "False None True and as assert async await break case class continue def del elif else \
            except finally for from global if import in is lambda match nonlocal not or pass raise \
            return self try while with yield",
        ..HASH
    },
    Language {
        names: "ruby rb rake gemfile crystal cr elixir ex exs julia jl",
        strings: &["\"\"\"", "\"", "'", "`"],
        keywords: "alias and begin break case class cond def defmodule defp do else elsif end ensure false fn \
            for function if import in include macro module next nil not or raise redo require rescue \
            retry return self struct super then true undef unless until use using when while with yield",
        ..HASH
    },
    Language {
        names: "bash sh shell zsh ksh fish console shellscript dockerfile containerfile makefile make mk",
        keywords: "alias break case continue do done elif else esac eval exec exit export fi for function if \
            in local read readonly return select set shift source then trap unset until while FROM RUN \
            CMD COPY ADD ENV ARG WORKDIR ENTRYPOINT EXPOSE USER VOLUME LABEL include ifeq ifneq endif",
        word_characters: "-",
        ..HASH
    },
    Language {
        names: "powershell ps1 r perl pl pm tcl nix",
        keywords: "break continue else elsif elseif false finally for foreach function if in inherit last let \
            library local my next our package param proc rec repeat return set sub then throw true try \
            unless use while with FALSE NULL TRUE NA",
        ..HASH
    },
    Language {
        names: "sql psql mysql sqlite postgres postgresql plsql",
        line_comments: &["--"],
        keywords: "add all alter and any as asc begin between by case check column commit constraint create \
            cross database default delete desc distinct drop else end exists false foreign from full \
            group having if in index inner insert integer into is join key left like limit not null \
            offset on or order outer primary references returning right rollback select set table text \
            then true union unique update using values varchar view when where with",
        ignores_case: true,
        ..BASE
    },
    Language {
        names: "json json5 jsonc jsonl ndjson",
        strings: &["\""],
        keywords: "true false null",
        has_code: false,
        ..BASE
    },
    Language {
        names: "yaml yml toml ini cfg conf properties env hcl tf terraform",
        strings: &["\"\"\"", "'''", "\"", "'"],
        keywords: "true false null yes no on off",
        word_characters: "-",
        has_code: false,
        ..HASH
    },
    Language {
        names: "html htm xml svg xhtml vue plist",
        line_comments: &[],
        block_comments: &[("<!--", "-->")],
        strings: &["\""],
        has_code: false,
        ..BASE
    },
    Language {
        names: "css scss sass less",
        keywords: "important inherit initial none auto media import keyframes include mixin",
        word_characters: "-",
        ..BASE
    },
    Language {
        names: "php",
        line_comments: &["//", "#"],
        keywords: "abstract and array as break case catch class const continue declare default do echo else \
            elseif empty extends false final finally fn for foreach function global if implements \
            include instanceof interface isset match namespace new null or private protected public \
            readonly require return static switch this throw trait true try unset use var while yield",
        ..BASE
    },
    Language {
        names: "lua haskell hs elm ada vhdl",
        line_comments: &["--"],
        block_comments: &[("--[[", "]]"), ("{-", "-}")],
        strings: &["\""],
        keywords: "and break case class data deriving do else elseif end false for function if import in \
            instance let local module newtype nil not of or repeat return then true type until where while",
        ..BASE
    },
    Language {
        names: "zig v odin proto protobuf graphql gql solidity sol",
        strings: &["\""],
        keywords: "align and bool break catch comptime const continue contract defer else enum error export \
            extend false fn for function if import inline input int32 int64 interface message mutation \
            null option optional or orelse package pub query repeated return rpc service string struct \
            subscription switch syntax test true try type uint256 union unreachable var void while",
        ..BASE
    },
    Language {
        names: "lisp clojure clj cljs scheme scm elisp el racket rkt asm nasm",
        line_comments: &[";"],
        block_comments: &[],
        strings: &["\""],
        keywords: "def defn defun defmacro defvar do else false fn if lambda let loop nil ns quote recur \
            require set setq true when cond",
        word_characters: "-!?*",
        ..BASE
    },
    Language {
        names: "ocaml ml mli fsharp fs sml",
        line_comments: &["//"],
        block_comments: &[("(*", "*)")],
        strings: &["\""],
        keywords: "and as begin do done else end exception false for fun function functor if in include let \
            match member module mutable new of open rec sig struct then to true try type val when while with",
        ..BASE
    },
    Language {
        names: "tex latex erlang erl matlab",
        line_comments: &["%"],
        block_comments: &[],
        strings: &["\""],
        ..BASE
    },
    Language { names: "diff patch", is_diff: true, ..BASE },
];
