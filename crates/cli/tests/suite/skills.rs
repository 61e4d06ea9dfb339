//! `agentd skills`: the real program.

use crate::common::{TestEnvironment, stderr, stdout};
use serde_json::Value;

#[test]
fn skills_are_made_checked_and_listed() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["skills"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let root = env.home().join("skills");
    std::fs::create_dir_all(&root).unwrap();
    let root = root.to_str().unwrap();
    let hint = run(&["list"], 0).1;
    let own = env.home().join("skills");
    assert!(
        hint.contains(&format!(
            "no skills were found; `agentd skills new NAME --path {}`",
            own.display()
        )),
        "{hint}"
    );
    let (made, _) = run(&["new", "pdf-tools", "--path", root, "--description", "Reads: PDFs"], 0);
    assert_eq!(made.trim_end(), format!("{root}/pdf-tools/SKILL.md"));
    let (listed, _) = run(&["list"], 0);
    assert_eq!(listed, format!("pdf-tools\n    Reads: PDFs\n    {root}/pdf-tools/SKILL.md\n"));
    let listed: Value = serde_json::from_str(&run(&["list", "--json"], 0).0).unwrap();
    assert_eq!(listed[0]["name"], "pdf-tools");
    let folder = format!("{root}/pdf-tools");
    assert_eq!(run(&["validate", &folder], 0).0, format!("{folder}: valid\n"));
    // Nothing is replaced, and names are checked.
    assert!(run(&["new", "pdf-tools", "--path", root], 1).1.contains("exists"));
    assert!(run(&["new", "PDF", "--path", root], 2).1.contains("lower case"));
    assert!(run(&["new", "a/b", "--path", root], 2).1.contains("letters, digits and hyphens"));
    assert!(run(&["new", "a", "--path", root, "--description", " "], 2).1.contains("1 to 1024"));
    let broken = format!("{root}/broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(format!("{broken}/SKILL.md"), "---\nname: broken\nx: 1\n---\n").unwrap();
    let (report, _) = run(&["validate", &broken, &folder], 1);
    assert!(report.contains("SKILL.md: line 3: `x` is not a field of the format"), "{report}");
    assert!(report.contains("`description` is missing") && report.contains("pdf-tools: valid"));
    let (_, errors) = run(&["list"], 0);
    assert!(errors.contains("broken/SKILL.md: `description` is missing"), "{errors}");
}
