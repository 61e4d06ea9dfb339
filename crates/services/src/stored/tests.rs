//! The texts below are those of stored threads. They never change: a new shape gets a new text.
#![allow(clippy::unwrap_used)]

use store::ThreadRecord;

use super::{Totals, settings, settings_json};
use crate::thread_port::Extra;

const SETTINGS: [&str; 5] = [
    r#"{"model":"m","provider":"p","cwd":"/w","approval":"never","sandbox":"dangerFullAccess","mode":"default"}"#,
    r#"{"model":"m","provider":"p","cwd":"/w","approval":"unlessTrusted","reviewer":"autoReview","sandbox":{"readOnly":{"read":"full","network":false}},"effort":"high","summary":"auto","verbosity":"low","personality":"friendly","serviceTier":"flex","mode":"plan","modeInstructions":"Plan."}"#,
    r#"{"model":"m","provider":"p","cwd":"/w","approval":"onRequest","reviewer":"guardianSubagent","sandbox":{"workspaceWrite":{"writable_roots":["/w","/x"],"read":{"restricted":{"platform_defaults":true,"roots":["/r"]}},"network":true,"exclude_slash_tmp":true,"exclude_tmpdir":false}},"mode":"default"}"#,
    r#"{"model":"m","provider":"p","cwd":"/w","approval":{"granular":{"sandboxApproval":true,"rules":false,"mcpElicitations":true,"requestPermissions":false,"skillApproval":true}},"sandbox":{"profile":{"name":"n","rules":[["/","read"],["/a","none"],["/b","write"]],"platform_defaults":false,"network":false,"managed":true}},"mode":"default"}"#,
    r#"{"model":"m","provider":"p","cwd":"/w","approval":"never","sandbox":{"external":{"network":true}},"mode":"default"}"#,
];

const EXTRA: [&str; 5] = [
    "{}",
    r#"{"concessions":[{"provider":"p","concession":{"earlierReasoning":2}},{"provider":"p","concession":"toolTypes"},{"provider":"q","concession":{"itemType":"reasoning"}},{"provider":"q","concession":{"toolMember":"strict"}},{"provider":"q","concession":"plainTexts"}]}"#,
    r#"{"baseInstructions":"b","developerInstructions":"d","serviceName":"s","threadSource":"memory_consolidation","withoutMemories":true,"introduced":{"model":"m","provider":"p","cwd":"/w","approval":"never","sandbox":"dangerFullAccess","mode":"default"},"goal":{"objective":"o","status":"budgetLimited","tokenBudget":null,"tokensUsed":1,"timeUsedMs":2,"createdAt":3,"updatedAt":4},"approvedActions":[{"review":"r","digest":"00","leavesSandbox":true,"until":5}],"documents":["/w/AGENTS.md"],"dynamicTools":[{"name":"t","description":"d","schema":"{}"},{"namespace":"n","name":"t","description":"d","schema":"{}","deferLoading":true}]}"#,
    r#"{"threadSource":"a name of the client's","agent":{"parent":"p","root":"r","above":["r","p"],"depth":2,"nickname":"n","role":"worker","job":"j","hasParentsHistory":true,"bound":{"approval":"onRequest","reviewer":"user","sandbox":{"readOnly":{"read":"full","network":false}}},"limits":{"maxThreads":4,"maxDepth":2}}}"#,
    r#"{"threadSource":"subagent","agent":{"parent":"r","root":"r","depth":1,"nickname":"n","bound":{"approval":"never","reviewer":"autoReview","sandbox":"dangerFullAccess"}}}"#,
];

const TOTALS: &str = r#"{"cost":7,"last":{"cacheWriteInput":1,"cachedInput":2,"input":3,"output":4,"reasoningOutput":5,"total":6},"total":{"cacheWriteInput":10,"cachedInput":20,"input":30,"output":40,"reasoningOutput":50,"total":60}}"#;

fn record(extra: &str) -> ThreadRecord {
    ThreadRecord { id: "t".to_owned(), extra: Some(extra.to_owned()), ..ThreadRecord::default() }
}

#[test]
fn stored_settings_are_written_as_they_were() {
    for text in SETTINGS {
        assert_eq!(settings_json(&settings("t", text).unwrap()), text);
    }
}

#[test]
fn stored_facts_are_written_as_they_were() {
    for text in EXTRA {
        assert_eq!(Extra::read(&record(text)).unwrap().json(), text);
    }
    assert_eq!(Extra::read(&ThreadRecord::default()).unwrap(), Extra::default());
}

#[test]
fn stored_totals_are_written_as_they_were() {
    let totals: Totals = super::read("totals", TOTALS).unwrap();
    assert_eq!(totals.json(), TOTALS);
    // As before there were costs.
    let old = r#"{"total":{"input":3,"cachedInput":2,"output":4,"reasoningOutput":5,"total":6}}"#;
    let (usage, cost) = Totals::read("t", Some(old));
    assert_eq!((usage.input, usage.cache_write_input, cost), (3, 0, None));
    assert_eq!(Totals::read("t", None), (session::Usage::default(), Some(0)));
    assert_eq!(Totals::read("t", Some("rubbish")), (session::Usage::default(), None));
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_the_thread() {
    for text in [
        "",
        "rubbish",
        "null",
        r#"{"agent":5}"#,
        r#"{"agent":{"parent":"p"}}"#,
        r#"{"goal":{"objective":"o"}}"#,
        r#"{"dynamicTools":[{}]}"#,
    ] {
        let error = Extra::read(&record(text)).unwrap_err().to_string();
        assert!(error.starts_with("the stored facts of thread t cannot be read: "), "{error}");
    }
    for text in ["", "{}", r#"{"model":1}"#] {
        let error = settings("t", text).unwrap_err().to_string();
        assert!(error.starts_with("the settings of thread t cannot be read: "), "{error}");
    }
}

#[test]
fn a_later_version_is_named() {
    let error = Extra::read(&record(r#"{"version":2,"agent":"by name"}"#)).unwrap_err().to_string();
    assert!(error.contains("has version 2") && error.contains("use the newer program"), "{error}");
    assert!(settings("t", &format!(r#"{{"version":1,{}"#, &SETTINGS[0][1..])).is_ok());
}
