//! The cache of parsed files.

use config::{FileCache, LayerName};

use crate::TestHome;

#[test]
fn only_changed_files_are_read_again() {
    let home = TestHome::with("model = \"a\"\n");
    let path = home.home.join("config.toml");
    let name = LayerName::User { file: path.clone() };
    let files = FileCache::default();
    let first = files.layer(&name).unwrap().unwrap();
    let generation = files.generation();
    let again = files.layer(&name).unwrap().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &again));
    files.poll(std::slice::from_ref(&path));
    assert_eq!(files.generation(), generation);
    let beside = home.home.join("new.toml");
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
    files.poll(&[path.clone(), home.home.join("never")]);
    assert_eq!(files.generation(), generation);
    std::fs::write(&path, "model = \"c\"\n").unwrap();
    files.poll(std::slice::from_ref(&path));
    assert_ne!(files.generation(), generation, "it came to be");
}

#[test]
fn an_invalid_file_keeps_its_last_valid_content() {
    let home = TestHome::with("model = \"good\"\n");
    assert_eq!(home.config().model.as_deref(), Some("good"));
    home.user("model = = \n");
    assert_eq!(home.config().model.as_deref(), Some("good"));
    let broken = home.files.broken();
    assert!(broken[0].to_string().contains("config.toml:1:9"), "{broken:?}");
    home.user("model = \"mended\"\n");
    assert_eq!(home.config().model.as_deref(), Some("mended"));
    assert!(home.files.broken().is_empty());
    let never_good = TestHome::with("model = = \n");
    assert!(never_good.error().contains("config.toml:1:9"));
    never_good.user("model = \"x\"\n");
    assert_eq!(never_good.config().model.as_deref(), Some("x"));
}
