//! Where skills are found, and what hostile folders cannot do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use skills::{Found, Root, Scope};
use tempfile::TempDir;

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A skill named like its folder.
    fn skill(&self, folder: &str) {
        let name = Path::new(folder).file_name().unwrap().to_str().unwrap();
        self.write(&format!("{folder}/SKILL.md"), &text(name));
    }

    fn root(&self, path: &str) -> Root {
        Root { path: self.path(path), scope: Scope::User, boundary: self.path(path), prefix: None }
    }

    /// The names that are found below `root`, and the problems without the home's path.
    fn find(&self) -> (Vec<String>, Vec<String>) {
        self.shown(&discover(&[self.root("root")]))
    }

    fn shown(&self, found: &Found) -> (Vec<String>, Vec<String>) {
        let home = format!("{}/", self.0.path().display());
        (
            found.skills.iter().map(|skill| skill.name.clone()).collect(),
            found.problems.iter().map(|problem| problem.to_string().replace(&home, "")).collect(),
        )
    }
}

fn discover(roots: &[Root]) -> Found {
    skills::discover(roots, &|_| {})
}

fn text(name: &str) -> String {
    format!("---\nname: {name}\ndescription: For {name}.\n---\nThe text of {name}.\n")
}

#[test]
fn skills_are_found_in_order_down_to_a_depth() {
    let home = Home::new();
    home.skill("root/b");
    home.skill("root/a");
    home.skill("root/group/c");
    home.skill("root/1/2/3/4/5/deep");
    home.skill("root/1/2/3/4/5/6/too-deep");
    home.skill("root/.hidden/d");
    home.skill("root/a/scripts/inner");
    assert_eq!(home.find(), (["a", "b", "c", "deep"].map(String::from).to_vec(), vec![]));
    assert_eq!(skills::read_body(&home.path("root/a/SKILL.md")).unwrap(), "The text of a.");
    assert_eq!(discover(&[home.root("missing")]), Found::default());
}

#[test]
fn a_bad_file_hides_no_other() {
    let home = Home::new();
    home.skill("root/good");
    home.write("root/a/SKILL.md", "---\nname: a\nname: b\n---\n");
    home.write("root/b/SKILL.md", "---\nname: b\n---\n");
    home.write("root/c/SKILL.md", &format!("---\nx: {}\n---\n", "x".repeat(10 << 20)));
    fs::create_dir_all(home.path("root/d/SKILL.md")).unwrap();
    fs::create_dir_all(home.path("root/e")).unwrap();
    let fifo = home.path("root/e/SKILL.md");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir_all(home.path("root/f")).unwrap();
    symlink("/dev/zero", home.path("root/f/SKILL.md")).unwrap();
    home.write("root/i/SKILL.md", "");
    fs::write(home.path("root/i/SKILL.md"), b"---\nname: i\ndescription: caf\xe9\n---\n").unwrap();
    home.write("root/g/SKILL.md", "---\nname: Bad Name\ndescription: x\n---\n");
    home.write("root/h/SKILL.md", "---\nname: other\ndescription: x\n---\n");
    let (names, problems) = home.find();
    assert_eq!(names, ["good", "other"]);
    let missing = "`description` is missing: say what the skill does and when to use it";
    let folder = "`name` is `other`, but the folder is `h`: make them the same";
    assert_eq!(
        problems,
        [
            "root/a/SKILL.md: line 3: `name` is already set on line 2".to_owned(),
            format!("root/b/SKILL.md: {missing}"),
            "root/c/SKILL.md: the file is larger than 1 MiB".to_owned(),
            "root/d/SKILL.md: it is a folder, not a regular file".to_owned(),
            "root/e/SKILL.md: it is a named pipe (FIFO), not a regular file".to_owned(),
            "root/f/SKILL.md: the link leads out of root and is not followed".to_owned(),
            "root/g/SKILL.md: line 2: `name` must be one word of visible characters".to_owned(),
            format!("root/h/SKILL.md: line 2: {folder}"),
            "root/i/SKILL.md: line 3: the file is not UTF-8 text".to_owned(),
        ]
    );
}

#[test]
fn files_of_every_encoding_are_read() {
    let text = "\u{feff}---\nname: marked\ndescription: Café.\n---\nBody é.\n";
    let definition = "\u{feff}{\"interface\": {\"displayName\": \"É\"}}";
    let encodings: [fn(&str) -> Vec<u8>; 3] = [
        |text| text.as_bytes().to_vec(),
        |text| text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        |text| text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    ];
    for encode in encodings {
        let home = Home::new();
        home.write("root/marked/SKILL.md", "");
        let path = home.path("root/marked/SKILL.md");
        fs::write(&path, encode(text)).unwrap();
        fs::write(home.path("root/marked/SKILL.json"), encode(definition)).unwrap();
        let (names, problems) = home.find();
        assert_eq!(names, ["marked"]);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.contains("byte order mark"), "{problem}");
        assert_eq!(skills::read_body(&path).unwrap(), "Body é.");
    }
}

#[test]
fn links_are_followed_inside_the_boundary_only() {
    let home = Home::new();
    home.skill("outside/x");
    home.skill("root/real");
    home.skill("inside/linked");
    symlink(home.path("inside/linked"), home.path("root/linked")).unwrap();
    symlink(home.path("outside/x"), home.path("root/x")).unwrap();
    symlink(home.path("root"), home.path("root/cycle")).unwrap();
    symlink("self", home.path("root/self")).unwrap();
    symlink("/", home.path("root/slash")).unwrap();
    home.skill("inside/file");
    fs::create_dir_all(home.path("root/file")).unwrap();
    symlink(home.path("inside/file/SKILL.md"), home.path("root/file/SKILL.md")).unwrap();
    let (names, problems) = home.find();
    assert_eq!(names, ["real"]);
    let out = "the link leads out of root and is not followed";
    assert_eq!(
        problems,
        [
            format!("root/linked: {out}"),
            "root/self: the link is broken".to_owned(),
            format!("root/slash: {out}"),
            format!("root/x: {out}"),
            format!("root/file/SKILL.md: {out}"),
        ]
    );
    let wide = Root { boundary: home.path(""), ..home.root("root") };
    let (names, _) = home.shown(&discover(&[wide]));
    assert_eq!(names, ["file", "linked", "real", "x"]);
}

#[test]
fn the_first_of_one_name_is_used_and_a_folder_is_searched_once() {
    let home = Home::new();
    home.skill("one/same");
    home.write("two/same/SKILL.md", &text("same").replace("For", "Also for"));
    home.skill("two/other");
    symlink(home.path("two"), home.path("three")).unwrap();
    let three = Root { boundary: home.path(""), ..home.root("three") };
    let found = discover(&[home.root("one"), home.root("two"), three]);
    let (names, problems) = home.shown(&found);
    assert_eq!(names, ["same", "other"]);
    let message = "two/same/SKILL.md: the skill is not used, because one/same/SKILL.md has the same \
                   name, `same`";
    assert_eq!(problems, [message]);
}

#[test]
fn a_copy_of_the_first_of_one_name_is_no_problem() {
    let home = Home::new();
    for root in ["one", "two"] {
        home.skill(&format!("{root}/same"));
        home.write(&format!("{root}/same/scripts/a.sh"), "true\n");
    }
    let problems = || {
        let found = discover(&[home.root("one"), home.root("two")]);
        let (names, problems) = home.shown(&found);
        assert_eq!(names, ["same"]);
        problems.len()
    };
    assert_eq!(problems(), 0);
    home.write("two/same/scripts/a.sh", "false\n");
    assert_eq!(problems(), 1, "another script");
    home.write("two/same/scripts/a.sh", "true\n");
    home.write("one/same/more.md", "");
    assert_eq!(problems(), 1, "another file");
    fs::remove_file(home.path("one/same/more.md")).unwrap();
    assert_eq!(problems(), 0);
    for root in ["one", "two"] {
        symlink("/etc/hostname", home.path(&format!("{root}/same/link"))).unwrap();
    }
    assert_eq!(problems(), 1, "links are not followed to compare them");
}

#[test]
fn a_search_is_bounded() {
    let home = Home::new();
    for n in 0..2_100 {
        fs::create_dir_all(home.path(&format!("root/{n:04}"))).unwrap();
    }
    home.skill("root/0000/first");
    let (names, problems) = home.find();
    assert_eq!(problems, ["root: only the first 2000 folders are searched for skills"]);
    assert!(names.is_empty(), "the folders of a level come before those below");
}
