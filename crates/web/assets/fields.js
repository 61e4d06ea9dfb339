// The fields of forms that the server asks for: questions of the agent, and elicitations of MCP servers. Each
// field has an `element` and a `read`, which returns the value; `undefined` stands for none.

import { el } from "./dom.js";
import { visible } from "./text.js";

let count = 0;

/** A question with its options and, where it takes one, a text. */
export function questionField({ header, question, options, isOther, isSecret }) {
  const name = `question-${count++}`;
  const choices = (options ?? []).map(({ label, description }) => choice("radio", name, label, label, description));
  const takesText = isOther || !options?.length;
  const text = takesText && el("input", {
    type: isSecret ? "password" : "text", autocomplete: "off", placeholder: choices.length ? "Something else" : "",
    "aria-label": choices.length ? `Another answer to: ${visible(header)}` : visible(question),
  });
  const element = el("fieldset", {},
    el("legend", {}, visible(header)), el("p", {}, question), ...choices.map((one) => one.element), text);
  const read = () => {
    const chosen = choices.filter((one) => one.input.checked).map((one) => one.value);
    return text && text.value ? [...chosen, text.value] : chosen;
  };
  return { element, read };
}

function choice(type, name, value, label, description) {
  const input = el("input", { type, name });
  const element = el("label", { className: "choice" }, input,
    el("span", {}, visible(label), description && el("span", { className: "hint" }, description)));
  return { element, input, value };
}

/** A field for a property of an elicitation's schema. */
export function schemaField(name, schema, isRequired) {
  const label = visible(schema.title || name);
  const hint = schema.description && el("span", { className: "hint" }, schema.description);
  if (schema.type === "boolean") return booleanField(label, hint, schema);
  if (schema.type === "array") return listField(label, hint, schema);
  const options = optionsOf(schema);
  return options ? selectField(label, hint, schema, options, isRequired) : inputField(label, hint, schema, isRequired);
}

/** The options of an enumeration: the value and what it is called. */
function optionsOf({ enum: values, enumNames, oneOf, anyOf }) {
  const titled = oneOf ?? anyOf;
  if (titled) return titled.map((option) => [option.const, option.title ?? option.const]);
  return values?.map((value, at) => [value, enumNames?.[at] ?? value]);
}

function booleanField(label, hint, schema) {
  const input = el("input", { type: "checkbox", checked: schema.default === true });
  const element = el("label", { className: "choice" }, input, el("span", {}, label, hint));
  return { element, read: () => input.checked };
}

function listField(label, hint, schema) {
  const name = `list-${count++}`;
  const choices = (optionsOf(schema.items) ?? []).map(([value, title]) => choice("checkbox", name, value, title));
  for (const one of choices) one.input.checked = (schema.default ?? []).includes(one.value);
  const error = el("p", { className: "field-error", role: "alert" });
  const element = el("fieldset", {}, el("legend", {}, label), hint, ...choices.map((one) => one.element), error);
  const read = () => choices.filter((one) => one.input.checked).map((one) => one.value);
  const check = () => {
    const { length } = read();
    const isFew = schema.minItems != null && length < schema.minItems;
    const isMany = schema.maxItems != null && length > schema.maxItems;
    error.textContent = isFew ? `Choose at least ${schema.minItems}.` : isMany ? `Choose at most ${schema.maxItems}.` : "";
    return !error.textContent;
  };
  return { element, read, check };
}

function selectField(label, hint, schema, options, isRequired) {
  const none = isRequired ? [] : [el("option", { value: "" }, "—")];
  const entries = options.map(([value, title], at) =>
    el("option", { value: String(at + 1), selected: value === schema.default }, visible(title)));
  const select = el("select", { required: isRequired }, ...none, ...entries);
  const element = el("label", {}, label, select, hint);
  return { element, read: () => options[Number(select.value) - 1]?.[0] };
}

/** A moment as fields for local times take it, to the second; nothing where it is none. */
function localTime(text) {
  const moment = new Date(text ?? NaN);
  if (Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const INPUT_TYPES = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

function inputField(label, hint, schema, isRequired) {
  const isNumber = schema.type === "number" || schema.type === "integer";
  const input = el("input", {
    type: isNumber ? "number" : INPUT_TYPES[schema.format] ?? "text", required: isRequired, autocomplete: "off",
    value: schema.format === "date-time" ? localTime(schema.default) : schema.default ?? "",
  });
  const bounds = isNumber
    ? { min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any" }
    : { minlength: schema.minLength, maxlength: schema.maxLength, step: schema.format === "date-time" ? 1 : null };
  for (const [bound, value] of Object.entries(bounds)) if (value != null) input.setAttribute(bound, value);
  const element = el("label", {}, label, input, hint);
  const read = () => {
    if (input.value === "") return undefined;
    if (isNumber) return Number(input.value);
    return schema.format === "date-time" ? new Date(input.value).toISOString() : input.value;
  };
  return { element, read };
}
