//! What is offered, and what is read of the calls that models write.

use serde_json::Value;

use super::apply_patch::PatchCall;
use super::exec_command::ExecCall;
use super::update_plan::PlanCall;
use super::write_stdin::WriteStdinCall;
use super::*;
use crate::port::event::{PlanStep, PlanStepStatus};
use crate::port::tool_set::{CommandTool, DynamicTool, Offer, PatchTool};

/// The text of the error of a call.
fn error(tools: &ToolSet, name: &str, arguments: &str) -> String {
    read_function(tools, name, arguments).unwrap_err().into_message()
}

#[test]
fn calls_are_read_as_models_write_them() {
    let exec =
        ExecCall { cmd: "ls".into(), yield_time_ms: Some(1000), tty: true, ..ExecCall::default() };
    for arguments in [
        r#"{"cmd":"ls","yield_time_ms":"1000","tty":"true","workdir":null}"#,
        r#"{"cmd":["ls"],"yield_time_ms":1000.0,"tty":true,"login":null}"#,
    ] {
        assert_eq!(ExecCall::read(arguments), Ok(exec.clone()), "{arguments}");
    }
    for arguments in [r#"{"session_id":"3","chars":null}"#, r#"{"session_id":3.0}"#] {
        let stdin = WriteStdinCall { session_id: 3, ..WriteStdinCall::default() };
        assert_eq!(WriteStdinCall::read(arguments), Ok(stdin), "{arguments}");
    }
    for (arguments, text) in [
        (r#"{"input":"*** x"}"#, "*** x"),
        (r#"{"patch":"*** x"}"#, "*** x"),
        (r#"{"command":"*** x"}"#, "*** x"),
        (r#"{"input":null,"command":["apply_patch","*** x"]}"#, "*** x"),
        (
            r#"{"command":["bash","-lc","apply_patch <<'E'\n*** x\nE"]}"#,
            "apply_patch <<'E'\n*** x\nE",
        ),
        (r#"{"cmd":"apply_patch '*** x'"}"#, "apply_patch '*** x'"),
        (r#"{"input":["*** x"]}"#, "*** x"),
        (r#"{"input":["*** x","+a","*** y"]}"#, "*** x\n+a\n*** y"),
        (r#"{"command":["apply_patch","*** x","*** y"]}"#, "*** x\n*** y"),
        ("*** Begin Patch\n", "*** Begin Patch\n"),
        (r#""*** Begin Patch""#, "*** Begin Patch"),
        (r#""{\"input\":\"*** x\"}""#, "*** x"),
    ] {
        assert_eq!(PatchCall::read(arguments), Ok(PatchCall { text: text.into() }), "{arguments}");
    }
    let goal = ToolSet { goal: true, ..ToolSet::default() };
    for (name, arguments, expected) in [
        ("update_goal", r#"{"status":"complete"}"#, "CompleteGoal"),
        ("get_goal", "", "GetGoalCall"),
    ] {
        assert_eq!(format!("{:?}", read_function(&goal, name, arguments).unwrap()), expected);
    }
    let custom = read_custom(&ToolSet::default(), "apply_patch", "*** Begin Patch").unwrap();
    assert!(custom.is_exclusive());
}

#[test]
fn plans_are_read_in_any_spelling() {
    use PlanStepStatus::{Completed, InProgress, Pending};
    for (status, expected) in [
        ("pending", Pending),
        ("todo", Pending),
        ("not started", Pending),
        ("in_progress", InProgress),
        ("inProgress", InProgress),
        ("In-Progress", InProgress),
        ("completed", Completed),
        ("done", Completed),
    ] {
        let list = format!(r#"[{{"step":"x","status":"{status}"}}]"#);
        let step = PlanStep { step: "x".into(), status: expected };
        for plan in [list.clone(), Value::from(list).to_string()] {
            let call = PlanCall { explanation: None, plan: vec![step.clone()] };
            assert_eq!(PlanCall::read(&format!(r#"{{"plan":{plan}}}"#)), Ok(call));
        }
    }
}

#[test]
fn errors_name_the_tool_and_the_member() {
    for (name, arguments, expected) in [
        ("exec_command", "{}", "exec_command: `cmd` is missing; give a shell command"),
        ("exec_command", r#"{"cmd":" "}"#, "exec_command: `cmd` is empty; give a shell command"),
        (
            "exec_command",
            r#"{"cmd":"ls","tty":3}"#,
            "exec_command: `tty` is `3`; give true or false",
        ),
        ("shell", r#"{"command":{}}"#, "shell: `command` is `{}`; give a list of strings"),
        (
            "shell",
            r#"{"command":[]}"#,
            "shell: `command` is empty; give a program and its arguments",
        ),
        (
            "write_stdin",
            "{}",
            "write_stdin: `session_id` is missing; give the number that exec_command gave",
        ),
        ("apply_patch", "{}", "apply_patch: `input` is missing; give the text of the patch"),
        ("view_image", "{}", "view_image: `path` is missing; give the path of an image file"),
        ("update_plan", "{}", "update_plan: `plan` is missing; give a list of objects"),
        (
            "update_plan",
            r#"{"plan":["x"]}"#,
            "update_plan: `plan` is `[\"x\"]`; give a list of objects",
        ),
        (
            "update_plan",
            r#"{"plan":[{"step":"x"}]}"#,
            "update_plan: `status` is missing; give `pending`, `in_progress` or `completed`",
        ),
        (
            "update_plan",
            r#"{"plan":[{"step":"x","status":"odd"}]}"#,
            "update_plan: `status` must be `pending`, `in_progress` or `completed`, not `odd`",
        ),
        (
            "nope",
            "{}",
            "there is no tool `nope`; the tools are exec_command, write_stdin, update_plan, \
             apply_patch, view_image, request_user_input, request_permissions",
        ),
    ] {
        assert_eq!(error(&ToolSet::default(), name, arguments), expected, "{name} {arguments}");
    }
}

/// The names of the tools in the JSON of an offer.
fn names(offer: &Offer) -> Vec<String> {
    let offered: Vec<Value> = serde_json::from_str(&offer.json(false)).unwrap();
    let name =
        |tool: &Value| tool.get("name").unwrap_or(&tool["type"]).as_str().unwrap().to_owned();
    offered.iter().map(name).collect()
}

#[test]
fn offered_tools_are_exactly_the_callable_ones() {
    let search = r#"{"type":"web_search"}"#;
    for (tools, expected) in [
        (
            ToolSet::default(),
            "exec_command write_stdin update_plan apply_patch view_image request_user_input request_permissions",
        ),
        (
            ToolSet {
                patch: PatchTool::Custom,
                view_image: false,
                user_input: false,
                request_permissions: false,
                ..ToolSet::default()
            },
            "exec_command write_stdin update_plan apply_patch",
        ),
        (
            ToolSet { commands: CommandTool::OneShot, ..ToolSet::default() },
            "shell update_plan apply_patch view_image request_user_input request_permissions",
        ),
        (
            ToolSet {
                commands: CommandTool::Off,
                web_search: [Some(search.into()), None],
                ..ToolSet::default()
            },
            "update_plan apply_patch view_image request_user_input request_permissions web_search",
        ),
    ] {
        let offered = names(&Offer::new(tools.clone()));
        assert_eq!(offered.join(" "), expected);
        for name in ["exec_command", "write_stdin", "shell", "view_image", "request_user_input"] {
            let is_refused = error(&tools, name, "[]").contains("no tool");
            let is_callable = offered.iter().any(|offered| offered == name)
                || name == "shell" && tools.commands != CommandTool::Off;
            assert_eq!(is_refused, !is_callable, "{name} of {expected}");
        }
    }
}

#[test]
fn plan_mode_does_not_offer_modifying_tools_but_parses_them() {
    for commands in [CommandTool::Terminal, CommandTool::OneShot] {
        let planning = ToolSet { reads_only: true, goal: true, commands, ..ToolSet::default() };
        let text = Offer::new(planning.clone()).json(false);
        for gone in ["apply_patch", "update_goal", "require_escalated", "prefix_rule"] {
            assert!(!text.contains(gone), "{gone}");
        }
        for there in ["update_plan", "get_goal", "view_image", "workdir"] {
            assert!(text.contains(there), "{there}");
        }
        assert!(read_function(&planning, "apply_patch", r#"{"input":"x"}"#).is_ok());
        let unknown = error(&planning, "nope", "{}");
        assert!(!unknown.contains("apply_patch"), "{unknown}");
    }
}

#[test]
fn login_shells_are_offered_only_when_allowed() {
    let offer = |login_shell| Offer::new(ToolSet { login_shell, ..ToolSet::default() }).json(false);
    assert!(offer(true).contains("\"login\"") && !offer(false).contains("\"login\""));
}

#[test]
fn tools_of_clients_are_data() {
    let schema = r#"{"type":"object"}"#.to_owned();
    let namespace = Some("group".to_owned());
    let (name, description) = ("act".to_owned(), "Acts.".to_owned());
    let tool = DynamicTool { namespace, name, description, schema, defer_loading: false };
    let tools = ToolSet { dynamic: [tool].into(), ..ToolSet::default() };
    assert_eq!(names(&Offer::new(tools.clone())).last().unwrap(), "group__act");
    assert!(read_function(&tools, "group__act", "{}").is_ok());
    assert!(error(&tools, "act", "{}").contains("no tool `act`"));
}

#[test]
fn equal_tools_share_an_offer() {
    let mut cache = OfferCache::default();
    let (first, second) = (cache.offer(ToolSet::default()), cache.offer(ToolSet::default()));
    assert!(std::sync::Arc::ptr_eq(&first.json(true), &second.json(true)));
    let other = cache.offer(ToolSet { view_image: false, ..ToolSet::default() });
    assert_ne!(other.json(false), first.json(false));
}

#[test]
fn ten_thousand_tools_are_searched_quickly() {
    let tool = |at: usize| DynamicTool {
        namespace: Some(format!("group_{}", at / 100)),
        name: format!("act_{at}"),
        description: format!("Handles subject{at} and reports what changed in its records."),
        schema: r#"{"type":"object","properties":{"id":{"type":"string"}}}"#.into(),
        defer_loading: true,
    };
    let dynamic = (0..10_000).map(tool).collect();
    let offer = Offer::new(ToolSet { dynamic, ..ToolSet::default() }.deferring());
    let begin = std::time::Instant::now();
    offer.search("first", 8);
    let index = begin.elapsed();
    let begin = std::time::Instant::now();
    let found = offer.search("what changed in the records of subject4321", 8);
    println!("index {index:?}, search {:?}", begin.elapsed());
    assert_eq!((found.len(), found[0].name.as_str()), (8, "group_43__act_4321"));
    assert_eq!(names(&offer).last().unwrap(), "tool_search");
}

#[test]
fn tools_are_deferred_only_when_they_can_be_searched() {
    let tool = |at: usize| DynamicTool {
        namespace: None,
        name: format!("act_{at}"),
        description: String::new(),
        schema: "{}".into(),
        defer_loading: at == 0,
    };
    let dynamic: std::sync::Arc<[DynamicTool]> = (0..100).map(tool).collect();
    let tools = ToolSet { dynamic, ..ToolSet::default() };
    let offered = names(&Offer::new(tools.clone().deferring()));
    assert_eq!(offered.len(), 38, "with the tools of a goal 40: {offered:?}");
    assert!(!offered.contains(&"act_0".to_owned()) && offered.contains(&"act_1".to_owned()));
    let withheld = ToolSet { withheld: ["tool_search".into()].into(), ..tools };
    let offered = names(&Offer::new(withheld.deferring()));
    assert_eq!(offered.iter().filter(|name| name.starts_with("act_")).count(), 100);
}

#[test]
fn tools_with_long_definitions_are_deferred_by_their_size() {
    let tool = |at: usize, bytes: usize| DynamicTool {
        namespace: None,
        name: format!("act_{at}"),
        description: "x".repeat(bytes),
        schema: "{}".into(),
        defer_loading: false,
    };
    let listed = |sizes: &[usize]| {
        let dynamic = sizes.iter().enumerate().map(|(at, bytes)| tool(at, *bytes)).collect();
        let offer = Offer::new(ToolSet { dynamic, ..ToolSet::default() }.deferring());
        let names = names(&offer);
        let acts = names.iter().filter(|name| name.starts_with("act_")).count();
        (acts, names.contains(&"tool_search".to_owned()))
    };
    let kib = 1 << 10;
    assert_eq!(listed(&[60 * kib; 3]), (3, false));
    assert_eq!(listed(&[60 * kib; 4]), (3, true));
    assert_eq!(listed(&[60 * kib; 39]), (3, true));
    assert_eq!(listed(&[200 * kib, 1]), (0, true));
    assert_eq!(listed(&[1, 200 * kib, 1]), (1, true));
}
