//! Tests of modes and options.

use serde_json::{Value, json};

use super::*;

fn opened(approval: &str, sandbox: Value) -> ThreadStartResponse {
    let thread = json!({
        "id": "t", "sessionId": "t", "preview": "", "ephemeral": false, "modelProvider": "p",
        "createdAt": 0, "updatedAt": 0, "status": { "type": "idle" }, "cwd": "/w", "cliVersion": "0",
        "source": "editor", "name": null, "gitInfo": null,
    });
    let response = json!({
        "thread": thread, "model": "a", "modelProvider": "p", "serviceTier": null, "cwd": "/w",
        "approvalPolicy": approval, "approvalsReviewer": "user", "sandbox": sandbox,
        "reasoningEffort": "medium",
    });
    serde_json::from_value(response).unwrap()
}

fn models() -> Vec<Model> {
    let model = |name: &str, efforts: &[&str]| {
        let efforts: Vec<Value> = efforts
            .iter()
            .map(|effort| json!({ "reasoningEffort": effort, "description": "" }))
            .collect();
        json!({
            "id": name, "model": name, "displayName": name.to_uppercase(), "hidden": false,
            "supportedReasoningEfforts": efforts, "defaultReasoningEffort": "low", "isDefault": false,
        })
    };
    let models = json!([model("a", &["low", "medium"]), model("b", &["low"]), model("c", &[])]);
    serde_json::from_value(models).unwrap()
}

fn params(settings: &Settings) -> Value {
    let mut params: TurnStartParams =
        serde_json::from_value(json!({ "threadId": "t", "input": [] })).unwrap();
    settings.apply(&mut params);
    let mut params = serde_json::to_value(params).unwrap();
    for member in ["threadId", "input"] {
        params.as_object_mut().unwrap().shift_remove(member);
    }
    params
}

fn current(settings: &Settings) -> Vec<(&'static str, String)> {
    settings.options().into_iter().map(|option| (option.id, option.current_value)).collect()
}

fn writing(roots: Value) -> Value {
    json!({
        "type": "workspaceWrite", "writableRoots": roots, "networkAccess": true,
        "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
    })
}

#[test]
fn a_mode_is_a_preset_that_the_next_turn_takes_over() {
    let opened = opened("onRequest", writing(json!(["/r"])));
    let mut settings = Settings::new(&opened, models(), &[]);
    assert_eq!((settings.mode(), params(&settings)), ("auto", json!({})));
    let ids: Vec<_> = settings.modes().available_modes.iter().map(|mode| mode.id).collect();
    assert_eq!(ids, ["read-only", "auto", "full-access"]);
    settings.choose(OptionId::Mode, "full-access").unwrap();
    assert_eq!(settings.mode(), "full-access");
    let expect =
        json!({ "approvalPolicy": "never", "sandboxPolicy": { "type": "dangerFullAccess" } });
    assert_eq!(params(&settings), expect);
    settings.sent();
    assert_eq!(params(&settings), json!({}));
    settings.choose(OptionId::Mode, "auto").unwrap();
    assert_eq!(params(&settings)["sandboxPolicy"], writing(json!(["/r"])), "the thread's own");
    let error = settings.choose(OptionId::Mode, "custom").unwrap_err();
    assert!(error.contains("no value `custom`; it has read-only, auto, full-access"), "{error}");
    assert_eq!(settings.mode(), "auto");
}

#[test]
fn settings_that_no_preset_has_are_a_mode_too() {
    let opened = opened("unlessTrusted", json!({ "type": "readOnly", "networkAccess": false }));
    let mut settings = Settings::new(&opened, models(), &["/more".to_owned()]);
    assert_eq!((settings.mode(), params(&settings)), ("custom", json!({})));
    settings.choose(OptionId::Mode, "auto").unwrap();
    assert_eq!(params(&settings)["sandboxPolicy"]["writableRoots"], json!(["/w", "/more"]));
    settings.choose(OptionId::Mode, "custom").unwrap();
    assert_eq!(params(&settings)["approvalPolicy"], "unlessTrusted");
}

#[test]
fn further_folders_become_writable() {
    let opened = opened("onRequest", writing(json!(["/r"])));
    let folders = ["/more".to_owned(), "/r".to_owned()];
    let settings = Settings::new(&opened, models(), &folders);
    assert_eq!(params(&settings)["sandboxPolicy"], writing(json!(["/r", "/more"])));
}

#[test]
fn options_are_chosen_and_wrong_values_are_named() {
    let mut settings = Settings::new(&opened("onRequest", writing(json!([]))), models(), &[]);
    let text = |values: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        values.iter().map(|(id, value)| (*id, (*value).to_owned())).collect()
    };
    let expect =
        [("mode", "auto"), ("model", "a"), ("effort", "medium"), ("sandbox", "workspace-write")];
    assert_eq!(current(&settings), text(&expect));
    settings.choose(OptionId::Model, "b").unwrap();
    assert_eq!(params(&settings), json!({ "model": "b", "effort": "low" }), "b has no medium");
    settings.choose(OptionId::Sandbox, "read-only").unwrap();
    let expect =
        [("mode", "read-only"), ("model", "b"), ("effort", "low"), ("sandbox", "read-only")];
    assert_eq!(current(&settings), text(&expect));
    let mut check = |option, value, expect: &str| {
        let error = settings.choose(option, value).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(OptionId::Model, "x", "no value `x`; it has a, b, c");
    check(OptionId::Effort, "high", "no value `high`; it has low");
    check(OptionId::Sandbox, "none", "it has read-only, workspace-write, danger-full-access");
    settings.choose(OptionId::Model, "c").unwrap();
    assert!(!current(&settings).iter().any(|(id, _)| *id == "effort"), "c has none");
    assert!(OptionId::read("tier").unwrap_err().contains("there are mode, model, effort, sandbox"));
}
