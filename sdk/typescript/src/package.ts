/**
 * The version of this package, and the packages with the program that belong to it, before the processor in their names.
 * `cargo xtask tidy` compares both with `packaging/names.toml`.
 */
export const VERSION = "0.1.0";
export const PROGRAM = "@agentd-embed/linux-";
