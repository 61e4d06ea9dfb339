"""The input of a turn: a text, or texts and images."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from .types import UserInput

    #: What a message consists of: a text, or texts, images and other parts of the protocol.
    Input = Union[str, UserInput, Sequence[Union[str, UserInput]]]
else:
    Input = Any

#: The beginnings of the image files that models take.
_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def image(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> UserInput:
    """An image as a part of a message.

    `source` is a path on the server's machine (relative to the turn's folder), an `https:` or `data:` URL, or the
    bytes of a PNG, JPEG, WebP or GIF file. Raises :class:`ValueError` for bytes of anything else and for URLs of
    another kind.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        kind = next((it for start, it in _IMAGES.items() if data.startswith(start)), None)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            kind = "image/webp"
        if kind is None:
            raise ValueError("`source` has bytes that are no PNG, JPEG, WebP or GIF file")
        return {"type": "image", "url": f"data:{kind};base64,{base64.b64encode(data).decode()}"}
    if isinstance(source, os.PathLike):
        return {"type": "localImage", "path": os.fspath(source)}
    if not isinstance(source, str):
        raise TypeError(f"`source` is of the type {type(source).__name__}, not a path, a URL or bytes")
    if source.startswith(("https:", "data:")):
        return {"type": "image", "url": source}
    if "://" in source:
        raise ValueError(f"`source` is {source!r:.80}: an image is sent by an https: or data: URL, or by its path")
    return {"type": "localImage", "path": source}


def parts_of(message: Input) -> list[UserInput]:
    """The parts of a message. Raises :class:`TypeError` for anything else."""
    if isinstance(message, (str, Mapping)):
        return [_part("message", message)]
    if not isinstance(message, Sequence) or isinstance(message, (bytes, bytearray)):
        raise TypeError(f"`message` is of the type {type(message).__name__}, not a text or a list of parts")
    return [_part(f"message[{at}]", it) for at, it in enumerate(message)]


def _part(name: str, part: Any) -> UserInput:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise TypeError(f"`{name}` is of the type {type(part).__name__}, not a text or a part such as `image(…)`")
    if not isinstance(part.get("type"), str):
        raise TypeError(f"`{name}` has no `type`")
    return cast("UserInput", dict(part))
