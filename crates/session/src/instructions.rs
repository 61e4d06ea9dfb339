//! The built-in base instructions. What they say of tools follows from the shape in which a model is
//! offered them: the texts are data, one file a part.

use std::sync::Arc;

use crate::port::tool_set::{CommandTool, PatchTool, ToolSet};

/// The base instructions for a model that is offered these tools.
pub(crate) fn built_in(tools: &ToolSet) -> Arc<str> {
    let commands = match tools.commands {
        CommandTool::Terminal => include_str!("instructions/commands_terminal.md"),
        CommandTool::OneShot => include_str!("instructions/commands_one_shot.md"),
        CommandTool::Off => "",
    };
    let patch = match tools.patch {
        PatchTool::Custom => include_str!("instructions/patch_custom.md"),
        PatchTool::Function => include_str!("instructions/patch_function.md"),
        PatchTool::Shell => include_str!("instructions/patch_shell.md"),
        PatchTool::Off => "",
    };
    let is_offered = |name: &str| !tools.withheld.iter().any(|withheld| **withheld == *name);
    let plan = match is_offered("update_plan") {
        true => include_str!("instructions/plan.md"),
        false => "",
    };
    let image = match tools.view_image && is_offered("view_image") {
        true => include_str!("instructions/image.md"),
        false => "",
    };
    let (work, rules) =
        (include_str!("instructions/work.md"), include_str!("instructions/rules.md"));
    [work, commands, patch, plan, image, rules].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_of_a_tool_is_described_as_it_is_offered() {
        let check = |tools: ToolSet, there: &[&str], gone: &[&str]| {
            let text = built_in(&tools);
            assert!(there.iter().all(|part| text.contains(part)), "{tools:?}\n{text}");
            assert!(!gone.iter().any(|part| text.contains(part)), "{tools:?}\n{text}");
            assert!(!text.contains("\n\n\n") && text.starts_with("You are"), "{text}");
        };
        let custom = ToolSet { patch: PatchTool::Custom, ..ToolSet::default() };
        check(custom, &["`exec_command`", "no JSON", "`view_image`"], &["`shell`", "`input`"]);
        check(ToolSet::default(), &["`exec_command`", "`input` is the whole patch"], &["no JSON"]);
        let plain = ToolSet {
            patch: PatchTool::Shell,
            commands: CommandTool::OneShot,
            view_image: false,
            withheld: ["update_plan".into()].into(),
            ..ToolSet::default()
        };
        let gone = ["`exec_command`", "`view_image`", "`update_plan`", "session id"];
        check(plain, &["`shell`", "`timeout_ms`", "How to edit files"], &gone);
        let off =
            ToolSet { patch: PatchTool::Off, commands: CommandTool::Off, ..ToolSet::default() };
        check(off, &["`update_plan`"], &["`exec_command`", "`shell`", "`apply_patch`"]);
    }
}
