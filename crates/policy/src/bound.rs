//! Comparison of policies: which of two allows no more than the other, and one within both.

use std::path::Path;

use crate::roots::RootedPolicy;
use crate::sandbox_policy::{ReadAccess, SandboxPolicy};

impl RootedPolicy {
    /// Returns whether everything that the policy allows is allowed by `bound`. When that is hard to
    /// tell, it is not.
    pub fn is_within(&self, bound: &Self) -> bool {
        is_within(self, bound)
    }

    /// A policy within both.
    #[must_use]
    pub fn narrower(&self, other: &Self) -> Self {
        Self(narrower(self, other))
    }
}

fn is_within(policy: &SandboxPolicy, bound: &SandboxPolicy) -> bool {
    use SandboxPolicy::{DangerFullAccess, External, Profile, ReadOnly, WorkspaceWrite};
    if policy == bound {
        return true;
    }
    match (policy, bound) {
        (_, DangerFullAccess) => true,
        (DangerFullAccess, External { .. }) => false,
        (Profile { managed: true, .. }, External { network: false }) => false,
        (_, External { network }) => policy.network() <= *network,
        (ReadOnly { read, network }, ReadOnly { read: most, network: may })
        | (ReadOnly { read, network }, WorkspaceWrite { read: most, network: may, .. }) => {
            reads_within(read, most) && network <= may
        }
        (
            WorkspaceWrite { writable_roots, read, network, exclude_slash_tmp, exclude_tmpdir },
            WorkspaceWrite {
                writable_roots: roots,
                read: most,
                network: may,
                exclude_slash_tmp: no_tmp,
                exclude_tmpdir: no_tmpdir,
            },
        ) => {
            // A folder inside a root is not enough: it may be a link to elsewhere.
            writable_roots.iter().all(|root| roots.contains(root))
                && reads_within(read, most)
                && network <= may
                && exclude_slash_tmp >= no_tmp
                && exclude_tmpdir >= no_tmpdir
        }
        _ => false,
    }
}

fn reads_within(read: &ReadAccess, bound: &ReadAccess) -> bool {
    match (read, bound) {
        (_, ReadAccess::Full) => true,
        (ReadAccess::Full, ReadAccess::Restricted { .. }) => false,
        (
            ReadAccess::Restricted { platform_defaults, roots },
            ReadAccess::Restricted { platform_defaults: may, roots: most },
        ) => platform_defaults <= may && roots.iter().all(|root| most.contains(root)),
    }
}

fn narrower(a: &SandboxPolicy, b: &SandboxPolicy) -> SandboxPolicy {
    use SandboxPolicy::{Profile, ReadOnly, WorkspaceWrite};
    if is_within(a, b) {
        return a.clone();
    }
    if is_within(b, a) {
        return b.clone();
    }
    match (a, b) {
        (
            WorkspaceWrite { writable_roots, read, network, exclude_slash_tmp, exclude_tmpdir },
            WorkspaceWrite {
                writable_roots: roots,
                read: other,
                network: may,
                exclude_slash_tmp: no_tmp,
                exclude_tmpdir: no_tmpdir,
            },
        ) if writable_roots.iter().any(|root| roots.contains(root)) => WorkspaceWrite {
            writable_roots: common(writable_roots, roots),
            read: common_reads(read, other),
            network: *network && *may,
            exclude_slash_tmp: *exclude_slash_tmp || *no_tmp,
            exclude_tmpdir: *exclude_tmpdir || *no_tmpdir,
        },
        (
            ReadOnly { read, network } | WorkspaceWrite { read, network, .. },
            ReadOnly { read: other, network: may }
            | WorkspaceWrite { read: other, network: may, .. },
        ) => ReadOnly { read: common_reads(read, other), network: *network && *may },
        (profile @ Profile { .. }, other) | (other, profile @ Profile { .. })
            if reads_everything(other) =>
        {
            // A profile names its folders.
            profile.reading_only(Path::new("/"), None)
        }
        // Two policies that cannot be compared have nothing in common for certain.
        _ => ReadOnly {
            read: ReadAccess::Restricted { platform_defaults: false, roots: Vec::new() },
            network: false,
        },
    }
}

fn reads_everything(policy: &SandboxPolicy) -> bool {
    match policy {
        SandboxPolicy::DangerFullAccess | SandboxPolicy::External { .. } => true,
        SandboxPolicy::ReadOnly { read, .. } | SandboxPolicy::WorkspaceWrite { read, .. } => {
            *read == ReadAccess::Full
        }
        SandboxPolicy::Profile { .. } => false,
    }
}

fn common_reads(a: &ReadAccess, b: &ReadAccess) -> ReadAccess {
    match (a, b) {
        (ReadAccess::Full, other) | (other, ReadAccess::Full) => other.clone(),
        (
            ReadAccess::Restricted { platform_defaults, roots },
            ReadAccess::Restricted { platform_defaults: others, roots: most },
        ) => ReadAccess::Restricted {
            platform_defaults: *platform_defaults && *others,
            roots: common(roots, most),
        },
    }
}

fn common<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().filter(|one| b.contains(one)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use SandboxPolicy::{DangerFullAccess, External, ReadOnly};

    fn workspace(roots: &[&str], network: bool, exclude_slash_tmp: bool) -> SandboxPolicy {
        SandboxPolicy::WorkspaceWrite {
            writable_roots: roots.iter().map(Into::into).collect(),
            read: ReadAccess::Full,
            network,
            exclude_slash_tmp,
            exclude_tmpdir: false,
        }
    }

    fn profile(network: bool) -> SandboxPolicy {
        SandboxPolicy::Profile {
            name: "p".into(),
            rules: Vec::new(),
            platform_defaults: true,
            network,
            managed: false,
        }
    }

    fn reads(read: ReadAccess, network: bool) -> SandboxPolicy {
        ReadOnly { read, network }
    }

    fn some() -> ReadAccess {
        ReadAccess::Restricted { platform_defaults: true, roots: vec!["/r".into()] }
    }

    fn none() -> ReadAccess {
        ReadAccess::Restricted { platform_defaults: false, roots: Vec::new() }
    }

    #[test]
    fn a_sandbox_stays_within_its_bound() {
        let full = || reads(ReadAccess::Full, false);
        for (policy, bound, expected) in [
            (workspace(&["/w"], true, false), DangerFullAccess, true),
            (DangerFullAccess, workspace(&["/w"], true, false), false),
            (External { network: false }, workspace(&["/w"], true, false), false),
            (External { network: true }, External { network: false }, false),
            (DangerFullAccess, External { network: true }, false),
            (workspace(&["/w"], true, false), External { network: true }, true),
            (workspace(&["/w"], true, false), External { network: false }, false),
            (full(), External { network: false }, true),
            (full(), workspace(&["/w"], false, false), true),
            (full(), profile(true), false),
            (profile(false), profile(true), false),
            (profile(true), profile(true), true),
            (reads(ReadAccess::Full, true), full(), false),
            (reads(none(), false), reads(some(), false), true),
            (reads(some(), false), reads(none(), false), false),
            (reads(ReadAccess::Full, false), reads(some(), false), false),
            (workspace(&["/w"], false, false), full(), false),
            (workspace(&["/w"], false, false), workspace(&["/w"], true, false), true),
            (workspace(&["/w"], true, false), workspace(&["/w"], false, false), false),
            (workspace(&["/w"], false, false), workspace(&["/w", "/x"], false, false), true),
            (workspace(&["/w", "/y"], false, false), workspace(&["/w"], false, false), false),
            (workspace(&["/w"], false, false), workspace(&["/x"], false, false), false),
            (workspace(&["/w"], false, true), workspace(&["/w"], false, false), true),
            (workspace(&["/w"], false, false), workspace(&["/w"], false, true), false),
        ] {
            assert_eq!(is_within(&policy, &bound), expected, "{policy:?} within {bound:?}");
        }
    }

    #[test]
    fn the_narrower_of_two_sandboxes_is_within_both() {
        let all = [
            DangerFullAccess,
            External { network: true },
            External { network: false },
            profile(true),
            profile(false),
            reads(ReadAccess::Full, true),
            reads(some(), false),
            reads(none(), true),
            workspace(&["/w"], true, false),
            workspace(&["/w", "/x"], false, false),
            workspace(&["/x"], true, true),
            workspace(&["/y"], false, false),
        ];
        for a in &all {
            for b in &all {
                let both = narrower(a, b);
                // What a profile allows is compared with nothing else: there only reading is left.
                let root = Path::new("/");
                let only_reads =
                    [reads(none(), false), a.reading_only(root, None), b.reading_only(root, None)];
                for bound in [a, b] {
                    let is_within = is_within(&both, bound) || only_reads.contains(&both);
                    assert!(is_within, "{a:?}, {b:?}: {both:?}");
                    let writes = matches!(both, SandboxPolicy::WorkspaceWrite { .. });
                    assert!(
                        !(writes && matches!(bound, ReadOnly { .. })),
                        "{a:?}, {b:?}: {both:?}"
                    );
                }
            }
        }
        let both =
            narrower(&workspace(&["/w", "/x"], true, false), &workspace(&["/x"], false, true));
        assert_eq!(both, workspace(&["/x"], false, true));
    }
}
