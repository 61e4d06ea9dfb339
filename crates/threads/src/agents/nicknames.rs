//! Names for agents, so that people and the model can tell them apart.

use config::kind::Nickname;

/// The names of agents whose role has none of its own.
const DEFAULT: [&str; 48] = [
    "Ada", "Basil", "Cleo", "Dario", "Edith", "Felix", "Greta", "Hugo", "Iris", "Jonas", "Kira",
    "Leo", "Mira", "Nils", "Olga", "Pavel", "Quinn", "Rosa", "Sven", "Tara", "Ugo", "Vera",
    "Willa", "Xenia", "Yann", "Zora", "Anton", "Bella", "Cyril", "Dana", "Emil", "Flora", "Gino",
    "Hedda", "Ivo", "Jana", "Karl", "Lena", "Milan", "Nora", "Otto", "Petra", "Rufus", "Selma",
    "Tomas", "Ulla", "Viktor", "Wanda",
];

/// The first of `candidates` that is free, or the first with a number appended.
pub(super) fn free_nickname(candidates: &[Nickname], is_taken: impl Fn(&str) -> bool) -> String {
    let mut names: Vec<&str> = candidates.iter().map(|name| name.trim()).collect();
    if names.is_empty() {
        names.extend(DEFAULT);
    }
    let with_number = |round: usize| {
        names.iter().map(move |name| match round {
            1 => (*name).to_owned(),
            _ => format!("{name}-{round}"),
        })
    };
    let mut all = (1..).flat_map(with_number);
    all.find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_out_once() {
        let mut taken: Vec<String> = Vec::new();
        let candidates = ["Atlas", " Delta "].map(|name| Nickname(name.to_owned()));
        for expected in ["Atlas", "Delta", "Atlas-2", "Delta-2", "Atlas-3"] {
            let name = free_nickname(&candidates, |name| taken.iter().any(|one| one == name));
            assert_eq!(name, expected);
            taken.push(name);
        }
        assert_eq!(free_nickname(&[], |name| name == "Ada"), "Basil");
    }
}
