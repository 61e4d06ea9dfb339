"""Settings of a server's configuration as its option `-c` reads them: a dotted key and a TOML value. The standard
library reads TOML, but does not write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: What a basic string holds escaped only: quotes, backslashes, and control characters.
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


def setting(key: str, value: Any) -> str:
    """`key=value`. Raises :class:`ValueError` or :class:`TypeError` for what TOML does not have."""
    return f"{key}={_value(value, f'config[{key!r}]')}"


def _value(value: Any, place: str) -> str:
    if value is None:
        raise ValueError(f"{place} is None, which TOML does not have: leave the key out to keep its default")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"{place} is {value}, which is larger than TOML's integers")
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(it, f'{place}[{at}]') for at, it in enumerate(value))}]"
    if isinstance(value, Mapping):
        members = [f"{_key(name, place)} = {_value(it, f'{place}[{name!r}]')}" for name, it in value.items()]
        return f"{{{', '.join(members)}}}"
    raise TypeError(f"{place} is of the type {type(value).__name__}, which the configuration does not have")


def _key(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of {place} is of the type {type(name).__name__}, and no text")
    return name if _BARE_KEY.fullmatch(name) else _text(name, f"a key of {place}")


def _text(text: str, place: str) -> str:
    if any("\ud800" <= it <= "\udfff" for it in text):
        raise ValueError(f"{place} has half of a character: a lone surrogate")
    escaped = _ESCAPED.sub(lambda it: "\\" + it[0] if it[0] in '"\\' else f"\\u{ord(it[0]):04x}", text)
    return f'"{escaped}"'
