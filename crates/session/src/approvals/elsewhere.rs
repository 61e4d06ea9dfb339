//! Where the paths of a request for approval lead, in words, when that is elsewhere than their names
//! say: the one who decides about a name would otherwise not know its target.

use std::path::Path;

use super::policy::Verdict;
use crate::port::tool::{Assessment, PatchTarget};

/// A request for approval that also says where the working folder of the command leads.
pub(super) fn about_command(verdict: Verdict, assessment: &Assessment) -> Verdict {
    let Assessment { cwd, real_cwd, .. } = assessment;
    let led = led(cwd, real_cwd).map(|led| format!("the working folder {led}"));
    noting(verdict, led)
}

/// A request for approval that also says where the paths of the patch lead.
pub(super) fn about_patch(verdict: Verdict, targets: &[PatchTarget]) -> Verdict {
    let led: Vec<String> =
        targets.iter().filter_map(|target| led(&target.path, &target.real)).collect();
    noting(verdict, (!led.is_empty()).then(|| led.join("; ")))
}

fn led(path: &Path, real: &Path) -> Option<String> {
    (path != real).then(|| format!("{} leads to {}", visible::path(path), visible::path(real)))
}

fn noting(verdict: Verdict, note: Option<String>) -> Verdict {
    match (verdict, note) {
        (Verdict::Ask { reason, unsandboxed }, Some(note)) => {
            let reason = match reason {
                Some(reason) => format!("{reason}\n{note}"),
                None => note,
            };
            Verdict::Ask { reason: Some(reason), unsandboxed }
        }
        (verdict, _) => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_learns_where_paths_lead() {
        let ask = |reason: Option<&str>| Verdict::Ask {
            reason: reason.map(str::to_owned),
            unsandboxed: true,
        };
        let target = |path: &str, real: &str| PatchTarget { path: path.into(), real: real.into() };
        let targets = [target("/w/a", "/w/a"), target("/w/l/b", "/etc/b"), target("/w/c", "/c\n")];
        assert_eq!(about_patch(ask(None), &targets[..1]), ask(None));
        assert_eq!(
            about_patch(ask(Some("why")), &targets),
            ask(Some("why\n/w/l/b leads to /etc/b; /w/c leads to /c\\u{a}"))
        );
        let assessment =
            Assessment { cwd: "/w/l".into(), real_cwd: "/etc".into(), ..Assessment::default() };
        assert_eq!(
            about_command(ask(None), &assessment),
            ask(Some("the working folder /w/l leads to /etc"))
        );
        let run = Verdict::Run { unsandboxed: false };
        assert_eq!(about_command(run.clone(), &assessment), run);
    }
}
