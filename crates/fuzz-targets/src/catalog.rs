//! Catalogs of models: a file is refused with a reason, or read into models that can be used; an
//! answer of a provider's `/models` changes such a catalog into another one.

use model::catalog::{Catalog, parse, parse_listing};

use crate::input::text;

fn check(catalog: &Catalog) {
    let models = catalog.models();
    assert!(!models.is_empty());
    assert!(catalog.default_model().is_some());
    assert!(models.iter().filter(|model| model.is_default).count() <= 1);
    for model in models {
        let upgrade = model.upgrade.as_ref();
        assert!(upgrade.is_none_or(|id| models.iter().any(|other| other.id == *id)));
        assert!(model.is_known && !model.id.is_empty());
        assert_eq!(catalog.find(&model.id), *model);
        assert!(model.max_input() > 0, "`{}` has room for input", model.id);
        let efforts = &model.supported_efforts;
        let has_default = efforts.iter().any(|option| option.effort == model.default_effort);
        assert!(efforts.is_empty() || has_default, "`{}` has its default effort", model.id);
        for effort in ["none", "minimal", "low", "medium", "high", "xhigh"] {
            let nearest = model.nearest_effort(effort);
            assert!(nearest.is_none_or(|near| efforts.iter().any(|one| one.effort == *near)));
        }
    }
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    match parse(text) {
        Ok(catalog) => check(&catalog),
        Err(reason) => assert!(!reason.is_empty()),
    }
    match parse_listing(text.as_bytes()) {
        Ok(listing) => {
            let listed = &listing.models;
            let catalog = Catalog::hosted().with_listing(listed);
            let reported =
                |id: &str| catalog.models().iter().filter(|model| &*model.id == id).count();
            assert!(listed.iter().all(|model| reported(&model.id) == 1));
            assert!(catalog.default_model().is_some());
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}
