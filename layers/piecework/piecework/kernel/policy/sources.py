"""Where the policy comes from at start: a path, S3, the executors layer; or nowhere, and then everything is denied.

| set                                       | policy                                                          |
|-------------------------------------------|-----------------------------------------------------------------|
| `PIECEWORK_POLICY`                        | that file or directory                                          |
| `PIECEWORK_POLICY_S3` = s3://bucket/key   | that object if the key ends in .yaml or .yml, else that folder  |
| neither                                   | `policy.yaml` or `policy/` beside the executors, if it is there |
| neither, and there is none beside them    | `PIECEWORK_POLICY_DEFAULT`: `secure` (default) or `permissive`  |
"""

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, Self

from piecework.errors import SettingsError
from piecework.kernel.policy.loading import SUFFIXES, is_passed_over, load_directory, load_file
from piecework.kernel.policy.reading import MAX_BYTES, PolicyInvalid
from piecework.kernel.policy.rules import PERMISSIVE, SECURE, Policy
from piecework.settings import Reader

DEFAULTS: Final[Mapping[str, Policy]] = {"secure": SECURE, "permissive": PERMISSIVE}
S3_ADDRESS: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)")
LAYER_FILE: Final = "policy.yaml"
LAYER_FOLDER: Final = "policy"

Objects = Callable[[str, str], Mapping[str, bytes]]  # bucket and key, or folder that ends in "/": contents by name


class PolicySettings(NamedTuple):
    """Which policy is wanted."""

    path: str = ""
    s3: str = ""
    default: str = "secure"

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: a setting has no meaning.
        """
        reader = Reader(env)
        settings = cls(
            path=reader.text("PIECEWORK_POLICY", ""),
            s3=reader.text("PIECEWORK_POLICY_S3", ""),
            default=reader.choice("PIECEWORK_POLICY_DEFAULT", ("secure", "permissive")),
        )
        if settings.s3 and not S3_ADDRESS.fullmatch(settings.s3):
            reader.problem("PIECEWORK_POLICY_S3 must read s3://bucket/key")
        reader.finish()
        return settings


def policy_from(settings: PolicySettings, objects: Objects, layer: Path | None = None) -> Policy:
    """The policy that the settings name; `layer` is the folder of the executors, found by itself.

    Raises:
        SettingsError: there is none at that place, or it cannot be loaded; the message names file, rule and key.
    """
    if settings.path:
        return load_path(Path(settings.path))
    if settings.s3:
        return _from_s3(settings.s3, objects)
    beside = _beside(layer)
    return load_path(beside) if beside else DEFAULTS[settings.default]


def texts_of(settings: PolicySettings, objects: Objects, layer: Path | None = None) -> dict[str, str]:
    """The text of each file of that policy by name; none where it is a default.

    Raises:
        SettingsError: there is none at that place.
    """
    if settings.s3 and not settings.path:
        contents = _objects(settings.s3, objects)
    else:
        path = Path(settings.path) if settings.path else _beside(layer)
        contents = _files(path) if path else {}
    return {name: data.decode("utf-8", "replace") for name, data in contents.items()}


def load_path(path: Path) -> Policy:
    """The policy of a file or a directory.

    Raises:
        PolicyInvalid: it cannot be read, or holds no policy.
    """
    contents = _files(path)
    return load_directory(contents) if path.is_dir() else load_file(contents[path.name], path.name)


def _files(path: Path) -> Mapping[str, bytes]:
    """The contents of a file, or of a directory's files, by name. Raises PolicyInvalid."""
    try:
        files = [path]
        if path.is_dir():
            files = [file for file in sorted(path.iterdir()) if file.is_file() and not is_passed_over(file.name)]
        return {file.name: _content(file) for file in files}
    except OSError as error:
        raise PolicyInvalid(f"{path}: {error.strerror}") from None


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _from_s3(address: str, objects: Objects) -> Policy:
    contents = _objects(address, objects)
    if not address.endswith(SUFFIXES):
        return load_directory(contents)
    name = address.rpartition("/")[2]
    return load_file(contents[name], name)


def _objects(address: str, objects: Objects) -> Mapping[str, bytes]:
    place = S3_ADDRESS.fullmatch(address)
    if not place:
        raise SettingsError("PIECEWORK_POLICY_S3 must read s3://bucket/key")
    bucket, key = place.groups()
    return objects(bucket, key if key.endswith(SUFFIXES) else key.rstrip("/") + "/")


def _beside(layer: Path | None) -> Path | None:
    """The policy that lies beside the executors."""
    beside = layer or _executors()
    places = (beside / name for name in (LAYER_FILE, LAYER_FOLDER)) if beside else ()
    return next((place for place in places if place.exists()), None)


def _executors() -> Path | None:
    spec = find_spec("executors")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None
