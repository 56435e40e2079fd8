"""Names of deliverables: whatever an executor calls a file, a name that every system can save, in its own script.

A name keeps its letters (NFC) and its extension. Controls, path separators, what Windows forbids and marks that turn
the direction of writing become `_`, or go where a name begins with them; so do leading dots and blanks. Windows' device
names get a `_`. A name has at most 127 characters and 255 bytes of UTF-8, which is what file systems take.
"""

import re
import unicodedata
from itertools import dropwhile
from typing import Final
from urllib.parse import quote

NAME_CHARACTERS: Final = 127
NAME_BYTES: Final = 255
EXTENSION_CHARACTERS: Final = 16  # a longer one is part of the name
NAMELESS: Final = "file"
JOINERS: Final = "\u200c\u200d"  # some scripts and emoji need them; the other format characters only mislead
FORBIDDEN: Final = frozenset('/\\<>:"|?*')
STRANGE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})  # Unicode's categories
DEVICES: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³])", re.IGNORECASE)


def safe_name(name: str) -> str:
    """The name as it is delivered; a safe name stays as it is."""
    stem, extension = _parts(unicodedata.normalize("NFC", name))
    begun = "".join(map(_plain, dropwhile(_is_edge, stem)))
    begun = re.sub(r"\.{2,}", "_", begun.rstrip("." if extension else " ." + JOINERS)).rstrip(" ." + JOINERS)
    shown = (begun or NAMELESS) + extension
    device, dot, rest = shown.partition(".")
    if DEVICES.fullmatch(device.rstrip()):
        shown = f"{device.rstrip()}_{dot}{rest}"
    return _fitted(shown)


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with ` (2)` and so on before its extension while its `same_name` is taken."""
    number, found = 1, name
    while same_name(found) in taken:
        number += 1
        found = _fitted(name, f" ({number})")
    return found


def same_name(name: str) -> str:
    """What two names share that some file system takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())


def disposition(name: str) -> str:
    """Every file is a download: html, svg and xml must never run under our address. `name` is a safe one (RFC 6266)."""
    stem, extension = (_ascii(part) for part in _parts(name))
    plain = (stem if any(map(str.isalnum, stem)) else NAMELESS) + extension
    return f"attachment; filename=\"{plain.rstrip(' .')}\"; filename*=UTF-8''{quote(name, safe='')}"


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().replace("%", "_")
    return "".join(map(_plain, plain))  # some letters come apart into marks that are forbidden


def _plain(character: str) -> str:
    if character in FORBIDDEN:
        return "_"
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    return "_" if category in STRANGE and character not in JOINERS else character


def _is_edge(character: str) -> bool:
    """Whether a name does not begin with it."""
    return character in " ." + JOINERS or _plain(character) != character


def _parts(name: str) -> tuple[str, str]:
    """The name before its extension, and the extension with its dot; empty where there is none."""
    stem, dot, extension = name.rpartition(".")
    is_plain = 0 < len(extension) <= EXTENSION_CHARACTERS and all(
        each != " " and _plain(each) == each for each in extension
    )
    has_extension = is_plain and stem.strip(".") != ""
    return (stem, dot + extension) if has_extension else (name, "")


def _fitted(name: str, mark: str = "") -> str:
    """The name with a mark before its extension, its stem as long as fits."""
    stem, extension = _parts(name)
    kept = stem[: NAME_CHARACTERS - len(mark) - len(extension)]
    room = NAME_BYTES - len(f"{mark}{extension}".encode())
    kept = kept.encode()[:room].decode("utf-8", "ignore").rstrip(" ." + JOINERS)
    return f"{kept or NAMELESS}{mark}{extension}"
