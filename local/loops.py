"""Fn::ForEach: what repeats in a template by shape, written out as CloudFormation's language extensions write it.

CloudFormation replaces a loop's identifier in three places only: in the keys of the loop's fragment, in the text of
`Fn::Sub`, and in a `Ref` to the identifier itself. It leaves it as it stands everywhere else, which no local tool of
AWS shows. So what this reader would have to guess is an error here:

    | in a loop                                               | CloudFormation                                   |
    |---------------------------------------------------------|--------------------------------------------------|
    | an identifier in a plain text or in a key further down  | stays as text, such as the resource `${Name}Log` |
    | an identifier in `Fn::Sub` beside `${AWS::StackName}`   | the whole text stays unresolved                  |
    | a function as the name of a condition in `Fn::If`       | is refused                                       |
    | a fragment's key without the identifier                 | makes the same thing twice                       |
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

LOOP: Final = "Fn::ForEach::"
TRANSFORM: Final = "AWS::LanguageExtensions"
SECTIONS: Final = ("Conditions", "Resources", "Outputs")
_PLACEHOLDER: Final = re.compile(r"[$&]\{([A-Za-z0-9]+)\}")
_ID: Final = re.compile(r"[A-Za-z0-9]+")


class TemplateError(Exception):
    """The template uses something that cannot be resolved here."""


def written_out(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template without loops and without the transform that allows them; one without loops is returned as it is.

    Raises:
        TemplateError: a loop is one that CloudFormation would not take, or not as it is meant.
    """
    loops = list(_loops(raw))
    if not loops:
        return raw
    transforms = raw.get("Transform")
    if not isinstance(transforms, list) or transforms[:1] != [TRANSFORM]:
        raise TemplateError(f"loops need {TRANSFORM} as the first of a list of transforms")
    taken = {*(raw.get("Parameters") or {}), *(name for part in SECTIONS for name in raw.get(part) or {})}
    names = [name for name, _ in loops]
    if clash := {name for name in names if names.count(name) > 1 or name in taken}:
        raise TemplateError(f"a loop's name must be its own: {', '.join(sorted(clash))}")
    if clash := {identifier for _, identifier in loops if identifier in taken}:
        raise TemplateError(f"a loop's identifier must be its own: {', '.join(sorted(clash))}")
    sections = {part: dict(_members(raw[part], {})) for part in SECTIONS if part in raw}
    return {**raw, "Transform": transforms[1] if len(transforms) == 2 else transforms[1:], **sections}


def _loops(node: Any) -> Iterator[tuple[str, str]]:
    """Name and identifier of each loop, wherever it stands."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if str(key).startswith(LOOP):
                yield str(key).removeprefix(LOOP), _parts(str(key), value)[0]
            yield from _loops(value)
    elif isinstance(node, list):
        for value in node:
            yield from _loops(value)


def _parts(key: str, value: Any) -> tuple[str, list[str], Mapping[str, Any]]:
    """A loop's identifier, its items and the fragment that is repeated."""
    match value:
        case [str(identifier), [*items], dict(fragment)] if fragment and all(isinstance(item, str) for item in items):
            return identifier, items, fragment
    raise TemplateError(f"{key} must be an identifier, a list of texts and what is repeated")


def _members(node: Mapping[str, Any], bound: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The members of a section, or of a loop's fragment, with loops written out."""
    seen: set[str] = set()
    for key, value in node.items():
        for name, body in _repeated(key, value, bound) if key.startswith(LOOP) else [(key, _plain(value, bound))]:
            made = _filled(name, bound)
            if made in seen or not _ID.fullmatch(made):
                raise TemplateError(f"{key} makes {made}, which is there already or no logical id")
            seen.add(made)
            yield made, body


def _repeated(key: str, value: Any, bound: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    identifier, items, fragment = _parts(key, value)
    for name in fragment:
        if not name.startswith(LOOP) and not set(_PLACEHOLDER.findall(name)) >= {identifier, *bound}:
            raise TemplateError(f"{name} of {key} must name the identifier of each loop around it")
    for item in items:
        yield from _members(fragment, {**bound, identifier: item})


def _plain(node: Any, bound: Mapping[str, str]) -> Any:
    """What a loop repeats, with the identifiers' values where CloudFormation puts them."""
    if isinstance(node, str):
        return _text(node, bound)
    if isinstance(node, list):
        return [_plain(value, bound) for value in node]
    if not isinstance(node, Mapping):
        return node
    if any(key.startswith(LOOP) for key in map(str, node)):
        raise TemplateError("loops stand in sections and in other loops only")
    match node:
        case {"Ref": str(name)} if name in bound:
            return bound[name]
        case {"Fn::Sub": str(text)}:
            return _substituted(text, bound)
        case {"Fn::If": [name, *_]} if bound and not isinstance(name, str):
            raise TemplateError("the name of a condition in Fn::If must be a text")
    return {_text(str(key), bound): _plain(value, bound) for key, value in node.items()}


def _text(text: str, bound: Mapping[str, str]) -> str:
    if set(_PLACEHOLDER.findall(text)) & set(bound):
        raise TemplateError(f"{text!r} stays as it is: only a fragment's own keys and Fn::Sub are filled in")
    return text


def _substituted(text: str, bound: Mapping[str, str]) -> Any:
    filled = _filled(text, bound)
    if filled == text:
        return {"Fn::Sub": text}
    if "${" in filled or "&{" in text:
        raise TemplateError(f"Fn::Sub {text!r} must hold identifiers of loops alone, or none")
    return filled


def _filled(text: str, bound: Mapping[str, str]) -> str:
    for identifier, item in bound.items():
        text = text.replace(f"${{{identifier}}}", item)
    return text
