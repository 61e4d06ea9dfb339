//! Tests of the rules for files.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Written to a disk, an accepted list stays within its folder, and each link can be followed.
    #[test]
    fn accepted_lists_stay_within(
        paths in prop::collection::vec(("[ab./]{1,6}", prop::option::of("[ab./]{0,8}")), 0..8),
    ) {
        let mut listing = Listing::new(Path::new("/origin"));
        for (path, target) in paths {
            let kind = match target {
                Some(target) => Kind::Link { target },
                None => Kind::File { size: 0, executable: false },
            };
            if listing.add(path.as_bytes(), kind).is_err() {
                return Ok(());
            }
        }
        let Ok(listing) = listing.finish() else { return Ok(()) };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        write(&listing, &Bytes::Memory(HashMap::new()), &root).unwrap();
        for path in listing.entries.keys() {
            let real = root.join(path).canonicalize().unwrap();
            prop_assert!(real.starts_with(&root) && real != root);
        }
        prop_assert!(examine(&root).is_ok());
    }
}
