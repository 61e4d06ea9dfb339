use proptest::prelude::*;

use super::*;

fn check(yaml: &str, expected: Result<&[(&str, &str)], &str>) {
    let text = format!("---\n{yaml}\n---\nbody");
    match (parse(&text), expected) {
        (Ok(front), Ok(fields)) => {
            let found: Vec<(&str, &str)> = front
                .fields
                .iter()
                .map(|field| (&*field.name, field.value.text().unwrap_or("(collection)")))
                .collect();
            assert_eq!(found, fields, "{yaml}");
            assert_eq!(text.get(front.body..), Some("body"), "{yaml}");
        }
        (Err(fault), Err(expected)) => assert_eq!(fault.to_string(), expected, "{yaml}"),
        (found, _) => panic!("{yaml}\n{found:?}"),
    }
}

#[test]
fn values_are_texts() {
    check("name: 12", Ok(&[("name", "12")]));
    check("name: 'a'\nd: |\n  x\n  y", Ok(&[("name", "a"), ("d", "x\ny\n")]));
    check("m:\n  a: 1\nl:\n- a", Ok(&[("m", "(collection)"), ("l", "(collection)")]));
    check("name:", Ok(&[("name", "")]));
}

#[test]
fn faults_name_their_line() {
    check("a: 1\n\na: 2", Err("line 4: `a` is already set on line 2"));
    check("a:\n  b: 1\n  b: 2", Err("line 4: `b` is already set on line 3"));
    check("a: !x b", Err("line 2: tags (`!name`) are not allowed"));
    check("a: 1\nb: &x c", Err("line 3: anchors (`&name`) are not allowed"));
    check("a: 1\nb: {c: &x d, e: *x}", Err("line 3: anchors (`&name`) are not allowed"));
    check("? [a]\n: b", Err("line 2: a key must be a text"));
    check("a: 1\n...\nb: 2", Err("line 4: the front matter holds more than one document"));
    check("- a", Err("line 2: the front matter must be a mapping: lines `key: value`"));
    let deep = format!("a: {}1{}", "[".repeat(20), "]".repeat(20));
    check(&deep, Err("line 2: collections are nested more than 8 deep"));
    let many = format!("a: [{}]", "1,".repeat(5_000));
    check(&many, Err("line 2: the front matter has too many entries"));
}

#[test]
fn unquoted_colons_are_read_and_reported() {
    let front = parse("---\nname: a\ndescription: Use it when: it's # late\n---\n").unwrap();
    let description = front.field("description").unwrap();
    assert_eq!(description.value.text(), Some("Use it when: it's # late"));
    assert_eq!(description.line, 3);
    let deviations: Vec<String> = front.deviations.iter().map(Fault::to_string).collect();
    assert_eq!(deviations, ["line 3: a value with `: ` or ` #` must be quoted"]);
    // Only where the text cannot be read otherwise.
    let front = parse("---\nname: a # b\n---\n").unwrap();
    assert_eq!(front.field("name").unwrap().value.text(), Some("a"));
    // The fault of the original is reported, not that of the second attempt.
    check(
        "a: b: c\na: 2",
        Err(
            "line 2: the front matter is not valid YAML: mapping values are not allowed in this context",
        ),
    );
}

#[test]
fn a_front_matter_has_a_bounded_end() {
    let fault = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(fault("# x"), "line 1: the file must start with YAML front matter: a line `---`");
    assert_eq!(fault(""), fault("# x"));
    assert_eq!(
        fault("---\na: b\n"),
        "line 1: the front matter has no end: add a line `---` after it"
    );
    let long = format!("---\na: {}\n---\n", "x".repeat(10 << 20));
    assert_eq!(fault(&long), "line 1: the front matter is larger than 64 KiB");
    assert_eq!(
        fault("---\n---\n"),
        "line 2: the front matter is empty: write `name` and `description`"
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(---\n)?[-a-c:'\"|>\\[\\]{}#&*!? \n\t]{0,80}(\n---\n)?.{0,5}") {
        if let Ok(front) = parse(&text) {
            prop_assert!(text.get(front.body..).is_some());
            let lines = text.lines().count();
            prop_assert!(front.fields.iter().all(|field| (2..=lines).contains(&field.line)));
        }
    }

    #[test]
    fn quoted_text_is_kept(value in "[^\\p{C}]{0,60}") {
        let text = format!("---\nd: '{}'\n---\n", value.replace('\'', "''"));
        let front = parse(&text).unwrap();
        prop_assert_eq!(front.fields[0].value.text(), Some(&*value));
    }
}

#[test]
fn fields_below_others_have_lines_of_the_file_too() {
    for yaml in ["a:\n  b: c", "a: {b: c}", " n:m of x.a: {b: c}"] {
        let front = parse(&format!("---\n{yaml}\n---\n")).unwrap();
        let Value::Map(below) = &front.fields[0].value else { panic!("{:?}", front.fields) };
        assert_eq!(below[0].line, if yaml.contains('\n') { 3 } else { 2 }, "{yaml}");
    }
}

#[test]
fn carriage_returns_alone_do_not_count_as_lines_of_the_file() {
    let front = parse("---\nname: a and \r\r\rtools: b\r\nlicense: c\n---\n").unwrap();
    let lines: Vec<_> =
        front.fields.iter().map(|field| (field.name.as_str(), field.line)).collect();
    assert_eq!(lines, [("name", 2), ("tools", 2), ("license", 3)]);
}
