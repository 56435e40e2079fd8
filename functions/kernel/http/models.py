"""The shapes of bodies as pydantic's models: why a body is refused, in words, and what the OpenAPI document says."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from kernel.http.shapes import OPTIONAL, Body, Rule
from piecework.jsons import Json

STRICT: Final = ConfigDict(strict=True, extra="ignore")


def explained(body: type[Body], value: Json) -> str:
    """Why a value does not have this shape, which it must not have."""
    try:
        model_of(body).model_validate(value)
    except ValidationError as misfit:
        first = misfit.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc']) or 'body'}: {first['msg']}"
    raise AssertionError(f"the model of {body.__name__} takes what its shape refuses")


def make_all() -> None:
    """Make every model now, where the start may take its time, so that no wrong body has to wait for its own."""
    for body in Body.__subclasses__():
        model_of(body)


def model_of(body: type[Body]) -> type[BaseModel]:
    """The model of a shape."""
    return _made(body)  # type: ignore[arg-type]  # mypy takes the hash of an object of the class for the class's own


@cache
def _made(body: type[Body]) -> type[BaseModel]:
    members: dict[str, Any] = {name: (_type(kind) | None, None) for name, kind in body.members().items()}
    return create_model(body.__name__, __config__=STRICT, __doc__=body.__doc__, **members)


def _type(kind: Any) -> Any:
    """A member's type as pydantic knows it; that null is absent is said of the whole member."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(_type(parts[0]), *(told for rule in parts[1:] for told in _told(rule)))]
    if origin in OPTIONAL:
        return _type(parts[0])
    if origin is list:
        return list[_type(parts[0])]  # type: ignore[misc]
    return model_of(kind) if isinstance(kind, type) and issubclass(kind, Body) else kind


def _told(rule: Rule) -> Iterator[Any]:
    """A rule as pydantic knows it."""
    if check := rule.check:
        yield AfterValidator(lambda text: check(text) or text)
    if rule.most:
        yield Field(max_length=rule.most)
    if rule.description:
        yield Field(description=rule.description)
    if rule.longest or rule.among:
        yield Field(json_schema_extra={"maxLength": rule.longest} if rule.longest else {"enum": list(rule.among)})
