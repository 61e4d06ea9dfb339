//! The committed JSON Schema and TypeScript files, as the released program carries them.
//! `generate` makes them; a test compares.

/// A generated file: its name and its content.
pub type Artifact = (&'static str, &'static str);

/// JSON Schema of the messages, and the table of methods.
#[must_use]
pub fn json_schema(experimental: bool) -> &'static [Artifact] {
    if experimental { JSON_EXPERIMENTAL } else { JSON_STABLE }
}

/// TypeScript declarations of the messages.
#[must_use]
pub fn typescript(experimental: bool) -> &'static [Artifact] {
    if experimental { TYPESCRIPT_EXPERIMENTAL } else { TYPESCRIPT_STABLE }
}

const JSON_STABLE: &[Artifact] = &[
    ("agentd.schema.json", include_str!("../../../schema/json/stable/agentd.schema.json")),
    ("methods.json", include_str!("../../../schema/json/stable/methods.json")),
];

const JSON_EXPERIMENTAL: &[Artifact] = &[
    ("agentd.schema.json", include_str!("../../../schema/json/experimental/agentd.schema.json")),
    ("methods.json", include_str!("../../../schema/json/experimental/methods.json")),
];

const TYPESCRIPT_STABLE: &[Artifact] =
    &[("protocol.ts", include_str!("../../../schema/typescript/stable/protocol.ts"))];

const TYPESCRIPT_EXPERIMENTAL: &[Artifact] =
    &[("protocol.ts", include_str!("../../../schema/typescript/experimental/protocol.ts"))];
