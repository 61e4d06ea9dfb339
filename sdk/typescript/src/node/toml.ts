/** Settings of a server's configuration as its option `-c` reads them: a dotted key and a TOML value. */

const BARE_KEY = /^[A-Za-z0-9_-]+$/;
/** What a basic string holds escaped only: quotes, backslashes, and control characters. */
const ESCAPED = /["\\\u0000-\u001f\u007f]/g;

/** The arguments for a configuration. What is undefined is left out. Throws a `TypeError` for what TOML does not have. */
export function settings(config: Record<string, unknown>): string[] {
  const given = Object.entries(config).filter(([, value]) => value !== undefined);
  return given.flatMap(([key, value]) => ["-c", `${key}=${valueOf(value, `config[${JSON.stringify(key)}]`)}`]);
}

function valueOf(value: unknown, place: string): string {
  if (value === null || value === undefined) {
    throw new TypeError(`${place} is ${value}, which TOML does not have: leave the key out to keep its default`);
  }
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number") return numberOf(value);
  if (typeof value === "string") return textOf(value, place);
  if (Array.isArray(value)) return `[${value.map((it, at) => valueOf(it, `${place}[${at}]`)).join(", ")}]`;
  if (typeof value === "object" && isPlain(value)) {
    const members = Object.entries(value).filter(([, it]) => it !== undefined);
    return `{${members.map(([name, it]) => `${keyOf(name, place)} = ${valueOf(it, `${place}.${name}`)}`).join(", ")}}`;
  }
  const kind = typeof value === "object" ? `a ${value.constructor?.name ?? "class"}` : `of the type ${typeof value}`;
  throw new TypeError(`${place} is ${kind}, which the configuration does not have`);
}

function numberOf(value: number): string {
  if (Number.isFinite(value)) return Object.is(value, -0) ? "-0.0" : String(value);
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

function keyOf(name: string, place: string): string {
  return BARE_KEY.test(name) ? name : textOf(name, `a key of ${place}`);
}

function textOf(text: string, place: string): string {
  if (/\p{Surrogate}/u.test(text)) throw new TypeError(`${place} has half of a character: a lone surrogate`);
  const escaped = text.replace(ESCAPED, (it) =>
    it === '"' || it === "\\" ? `\\${it}` : `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `"${escaped}"`;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
