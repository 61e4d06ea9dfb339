"""The alerts: valid expressions, over series that the page of a running gateway has."""

import re

import checks
import promql_parser
import yaml

# Series that Prometheus itself makes.
OWN = {"up"}
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}


def check(root, page):
    rules = yaml.safe_load((root / "packaging/gateway/alerts.yaml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    known = OWN | names_of(page) | names_without_values(root)
    for rule in alerts:
        checks.check("alerts", rule["alert"], lambda: fits(rule, known))


def fits(rule, known):
    checks.expect({"alert", "expr", "labels", "annotations"} <= rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, "its members")
    checks.expect(rule["labels"]["severity"] in {"page", "ticket"}, "its severity")
    named = set(series(promql_parser.parse(rule["expr"])))
    checks.expect(named and named <= known, f"there are no series {named - known}")
    by = re.search(r"by \(([^)]*)\)", rule["expr"])
    kept = set(by[1].replace(" ", "").split(",")) if by else {"instance", "backend"}
    for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
        checks.expect(label in kept, f"the series has no label {label}")


def names_of(page):
    """Every series that the page can have."""
    kinds = re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE)
    checks.expect(kinds, "the page has no series")
    return {name + suffix for name, kind in kinds for suffix in SUFFIXES.get(kind, [""])}


def names_without_values(root):
    """Counters that a page has only after an event that a test cannot wait for: messages are given up after days."""
    source = (root / "crates/gateway/src/metrics.rs").read_text()
    (counter,) = re.findall(r'register\("(webhook_messages)", help, metrics\.webhook_messages', source)
    return {f"gateway_{counter}_total"}


def series(node):
    """The names of the series in an expression."""
    if hasattr(node, "matchers"):
        yield node.name
    for member in ("lhs", "rhs", "expr", "args", "vector_selector"):
        found = getattr(node, member, None)
        for child in found if isinstance(found, list) else [found] if found is not None else []:
            yield from series(child)
