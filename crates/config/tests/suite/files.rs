//! Files are parsed once, and again when they changed.

use config::{Files, LayerName};

use crate::Place;

#[test]
fn a_file_is_read_again_only_when_it_changed() {
    let place = Place::with("model = \"a\"\n");
    let path = place.home.join("config.toml");
    let name = LayerName::User { file: path.clone() };
    let files = Files::new();
    let first = files.layer(&name).unwrap().unwrap();
    let generation = files.generation();
    let again = files.layer(&name).unwrap().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &again));
    files.poll(std::slice::from_ref(&path));
    assert_eq!(files.generation(), generation);
    let beside = place.home.join("new.toml");
    std::fs::write(&beside, "model = \"b\"\n").unwrap();
    std::fs::rename(&beside, &path).unwrap();
    files.poll(std::slice::from_ref(&path));
    assert_ne!(files.generation(), generation, "the same size, another file");
    assert_eq!(files.layer(&name).unwrap().unwrap().to_json()["model"], "b");
    let generation = files.generation();
    std::fs::remove_file(&path).unwrap();
    files.poll(std::slice::from_ref(&path));
    assert_ne!(files.generation(), generation);
    assert!(files.layer(&name).unwrap().is_none());
    let generation = files.generation();
    files.poll(&[path.clone(), place.home.join("never")]);
    assert_eq!(files.generation(), generation);
    std::fs::write(&path, "model = \"c\"\n").unwrap();
    files.poll(std::slice::from_ref(&path));
    assert_ne!(files.generation(), generation, "it came to be");
}

#[test]
fn a_file_that_broke_keeps_its_last_good_content() {
    let place = Place::with("model = \"good\"\n");
    assert_eq!(place.config().model.as_deref(), Some("good"));
    place.user("model = = \n");
    assert_eq!(place.config().model.as_deref(), Some("good"));
    let broken = place.files.broken();
    assert!(broken[0].to_string().contains("config.toml:1:9"), "{broken:?}");
    place.user("model = \"mended\"\n");
    assert_eq!(place.config().model.as_deref(), Some("mended"));
    assert!(place.files.broken().is_empty());
    let never_good = Place::with("model = = \n");
    assert!(never_good.error().contains("config.toml:1:9"));
    never_good.user("model = \"x\"\n");
    assert_eq!(never_good.config().model.as_deref(), Some("x"));
}
