//! The themes of highlighted code (`tui.theme`).

use crate::text::Color;

/// The colours of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members are named after what they colour")]
pub struct Theme {
    pub comment: Color,
    pub string: Color,
    pub number: Color,
    pub keyword: Color,
    pub call: Color,
    pub type_name: Color,
}

impl Default for Theme {
    /// Colours of the terminal's palette, which suit its background: all but blue, which many show too dark.
    fn default() -> Self {
        Self::from([ansi(8), ansi(2), ansi(3), ansi(5), ansi(6), ansi(3)])
    }
}

impl From<[Color; 6]> for Theme {
    fn from([comment, string, number, keyword, call, type_name]: [Color; 6]) -> Self {
        Self { comment, string, number, keyword, call, type_name }
    }
}

/// A theme that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no theme `{}`{}", visible::line(name), hint(near))]
pub struct ThemeError {
    /// The name that was given.
    pub name: String,
    /// Themes with a similar name.
    pub near: Vec<&'static str>,
}

fn hint(near: &[&str]) -> String {
    match near {
        [] => String::new(),
        near => format!("; did you mean `{}`?", near.join("` or `")),
    }
}

/// The names of all themes, in alphabetical order.
pub fn theme_names() -> impl Iterator<Item = &'static str> {
    THEMES.iter().map(|(name, _)| *name)
}

/// A theme by its name.
///
/// # Errors
///
/// There is no such theme; the error lists the nearest names.
pub fn theme(name: &str) -> Result<Theme, ThemeError> {
    if let Some((_, colors)) = THEMES.iter().find(|(known, _)| *known == name) {
        return Ok(Theme::from(*colors));
    }
    // Names of any length are compared in a bounded time.
    let start = &name[..name.floor_char_boundary(64)];
    let mut near: Vec<_> = (theme_names().map(|known| (strsim::jaro_winkler(start, known), known)))
        .filter(|(similarity, _)| *similarity > 0.8)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let near = near.into_iter().take(3).map(|(_, name)| name).collect();
    Err(ThemeError { name: start.to_owned(), near })
}

const fn ansi(color: u8) -> Color {
    Color::Ansi(color)
}

const fn rgb(color: u32) -> Color {
    let [_, red, green, blue] = color.to_be_bytes();
    Color::Rgb(red, green, blue)
}

/// Comments, strings, numbers, keywords, calls and types of each theme.
#[rustfmt::skip]
const THEMES: &[(&str, [Color; 6])] = &[
    ("1337", [rgb(0x6d6d6d), rgb(0xfbe3bf), rgb(0xfdb082), rgb(0xff5e5e), rgb(0x8cdaff), rgb(0xffb2f9)]),
    ("ansi", [ansi(2), ansi(2), ansi(3), ansi(5), ansi(4), ansi(3)]),
    ("base16", [ansi(8), ansi(2), ansi(9), ansi(5), ansi(4), ansi(1)]),
    ("base16-256", [ansi(8), ansi(2), ansi(9), ansi(5), ansi(4), ansi(1)]),
    ("base16-eighties-dark", [rgb(0x747369), rgb(0x99cc99), rgb(0xf99157), rgb(0xcc99cc), rgb(0x6699cc), rgb(0xd3d0c8)]),
    ("base16-mocha-dark", [rgb(0x7e705a), rgb(0xbeb55b), rgb(0xd28b71), rgb(0xa89bb9), rgb(0x8ab3b5), rgb(0xd0c8c6)]),
    ("base16-ocean-dark", [rgb(0x65737e), rgb(0xa3be8c), rgb(0xd08770), rgb(0xb48ead), rgb(0x8fa1b3), rgb(0xc0c5ce)]),
    ("base16-ocean-light", [rgb(0xa7adba), rgb(0xa3be8c), rgb(0xd08770), rgb(0xb48ead), rgb(0x8fa1b3), rgb(0x4f5b66)]),
    ("catppuccin-frappe", [rgb(0x949cbb), rgb(0xa6d189), rgb(0xef9f76), rgb(0xca9ee6), rgb(0x8caaee), rgb(0xe5c890)]),
    ("catppuccin-latte", [rgb(0x7c7f93), rgb(0x40a02b), rgb(0xfe640b), rgb(0x8839ef), rgb(0x1e66f5), rgb(0xdf8e1d)]),
    ("catppuccin-macchiato", [rgb(0x939ab7), rgb(0xa6da95), rgb(0xf5a97f), rgb(0xc6a0f6), rgb(0x8aadf4), rgb(0xeed49f)]),
    ("catppuccin-mocha", [rgb(0x9399b2), rgb(0xa6e3a1), rgb(0xfab387), rgb(0xcba6f7), rgb(0x89b4fa), rgb(0xf9e2af)]),
    ("coldark-cold", [rgb(0x3c526d), rgb(0x116b00), rgb(0x755f00), rgb(0xa04900), rgb(0x7c00aa), rgb(0x005a8e)]),
    ("coldark-dark", [rgb(0x8da1b9), rgb(0x91d076), rgb(0xe6d37a), rgb(0xe9ae7e), rgb(0xc699e3), rgb(0x6cb8e6)]),
    ("dark-neon", [rgb(0x7c7c7c), rgb(0xccff66), rgb(0xff73fd), rgb(0x66ccff), rgb(0xf8f8f8), rgb(0xffffb6)]),
    ("dracula", [rgb(0x6272a4), rgb(0xf1fa8c), rgb(0xbd93f9), rgb(0xff79c6), rgb(0x50fa7b), rgb(0xf8f8f2)]),
    ("github", [rgb(0x969896), rgb(0x183691), rgb(0x0086b3), rgb(0xa71d5d), rgb(0x795da3), rgb(0x000000)]),
    ("gruvbox-dark", [rgb(0x928374), rgb(0xb8bb26), rgb(0xd3869b), rgb(0xfb4934), rgb(0xb8bb26), rgb(0xfabd2f)]),
    ("gruvbox-light", [rgb(0x928374), rgb(0x79740e), rgb(0x8f3f71), rgb(0x9d0006), rgb(0x79740e), rgb(0xb57614)]),
    ("inspired-github", [rgb(0x969896), rgb(0x183691), rgb(0x0086b3), rgb(0xa71d5d), rgb(0x795da3), rgb(0x323232)]),
    ("monokai-extended", [rgb(0x75715e), rgb(0xe6db74), rgb(0xbe84ff), rgb(0xf92672), rgb(0xa6e22e), rgb(0xa6e22e)]),
    ("monokai-extended-bright", [rgb(0x75715e), rgb(0xe6db74), rgb(0xae81ff), rgb(0xf92672), rgb(0xa6e22e), rgb(0xf92672)]),
    ("monokai-extended-light", [rgb(0x75715e), rgb(0x998f2f), rgb(0x684d99), rgb(0xf9005a), rgb(0x679c00), rgb(0x679c00)]),
    ("monokai-extended-origin", [rgb(0x75715e), rgb(0xe6db74), rgb(0xae81ff), rgb(0xf92672), rgb(0xa6e22e), rgb(0xf8f8f2)]),
    ("nord", [rgb(0x616e88), rgb(0xa3be8c), rgb(0xb48ead), rgb(0x81a1c1), rgb(0x88c0d0), rgb(0x81a1c1)]),
    ("one-half-dark", [rgb(0x5c6370), rgb(0x98c379), rgb(0xe5c07b), rgb(0xc678dd), rgb(0x61afef), rgb(0xe5c07b)]),
    ("one-half-light", [rgb(0xa0a1a7), rgb(0x50a14f), rgb(0xc18401), rgb(0xa626a4), rgb(0x0184bc), rgb(0x383a42)]),
    ("solarized-dark", [rgb(0x586e75), rgb(0x2aa198), rgb(0x6c71c4), rgb(0x859900), rgb(0xb58900), rgb(0xb58900)]),
    ("solarized-light", [rgb(0x93a1a1), rgb(0x2aa198), rgb(0x6c71c4), rgb(0x859900), rgb(0xb58900), rgb(0xb58900)]),
    ("sublime-snazzy", [rgb(0x686868), rgb(0xf3f99d), rgb(0xf1f1f0), rgb(0xff5c57), rgb(0x9aedfe), rgb(0xf8f8f2)]),
    ("two-dark", [rgb(0x5c6370), rgb(0x98c379), rgb(0xd19a66), rgb(0xc678dd), rgb(0x61afef), rgb(0xe5c07b)]),
    ("zenburn", [rgb(0x87ae86), rgb(0xd68686), rgb(0x87d6d5), rgb(0xfed6af), rgb(0xfffd87), rgb(0xd6d6d6)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn themes_are_found_by_name_or_named() {
        assert!(theme_names().is_sorted());
        assert!(theme_names().all(|name| theme(name).is_ok()));
        let error = theme("catppuccin-moca").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "there is no theme `catppuccin-moca`; did you mean `catppuccin-mocha`"
            ),
            "{error}"
        );
        assert_eq!(theme("\u{1b}").unwrap_err().to_string(), "there is no theme `\\u{1b}`");
    }
}
