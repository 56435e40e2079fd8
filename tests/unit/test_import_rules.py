"""Imports point one way: function, wiring, adapters, domain; the doors do not know each other."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layers/piecework/piecework"
FUNCTIONS = ROOT / "functions"
EXECUTORS = ROOT / "layers/executors"

AWS = {"boto3", "botocore", "aws_lambda_powertools"}
DOMAIN_MAY_USE = {"pydantic", "pydantic_core", "jsonschema_rs"}
DOOR_MAY_USE = {
    "hire": {"eth_account", "eth_keys", "eth_utils", "rfc8785", "standardwebhooks", "jwt", "cryptography"},
    "kernel": {"yaml"},
}
ADAPTERS = {"piecework.aws": AWS, "piecework.models.openai": set()}  # and what each of them is there to wrap
HTTP_CLIENT = {"piecework.http_client": {"h11"}}  # the one way out: whoever calls somebody else goes through it
NETWORK = {"urllib3", "requests", "httpx", "h11"}
DOORS = {"wattswarm", "hire", "kernel"}
COMPOSITION_ROOTS = {
    "piecework.wiring",
    "piecework.hire_wiring",
    "piecework.hire_edges_wiring",
    "piecework.kernel_wiring",
    "piecework.kernel_http_wiring",
    "piecework.kernel_hosted_wiring",
    "piecework.kernel_streams_wiring",
}


def modules(folder: Path, prefix: str) -> dict[str, Path]:
    found = {}
    for file in sorted(folder.rglob("*.py")):
        dotted = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[".".join(filter(None, [prefix, dotted]))] = file
    return found


PIECEWORK = modules(PACKAGE, "piecework")
HANDLERS = modules(FUNCTIONS, "")
ADAPTING = {name: home for name in PIECEWORK for home in ADAPTERS if name == home or name.startswith(f"{home}.")}
DOMAIN = {name: file for name, file in PIECEWORK.items() if name not in COMPOSITION_ROOTS | ADAPTING.keys()}


def imports(file: Path, module: str) -> Iterator[str]:
    """Full names of all that a file imports, wherever it does; blocks for type checkers only are left out."""
    tree = ast.parse(file.read_text("utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def top(name: str) -> str:
    return name.partition(".")[0]


def reaches(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def door_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if parts[0] == "piecework" and len(parts) > 1 and parts[1] in DOORS else ""


def is_wiring(name: str) -> bool:
    return any(reaches(name, root) for root in COMPOSITION_ROOTS)


def test_there_is_something_to_check():
    assert PIECEWORK.keys() >= COMPOSITION_ROOTS
    assert {"execute.app", "verify.app", "authorizer.app"} <= set(HANDLERS)
    assert any(name.startswith("piecework.aws.") for name in PIECEWORK)


@pytest.mark.parametrize("module", DOMAIN)
def test_the_domain_knows_nothing_of_aws_or_of_its_wiring(module):
    for name in imports(DOMAIN[module], module):
        allowed = DOMAIN_MAY_USE | {"piecework", "executors"} | DOOR_MAY_USE.get(door_of(module), set())
        allowed |= HTTP_CLIENT.get(module, set())
        assert top(name) in sys.stdlib_module_names or top(name) in allowed, f"{module} imports {name}"
        assert not any(reaches(name, home) for home in ADAPTERS), f"{module} imports {name}"
        assert not is_wiring(name), f"{module} imports {name}"


@pytest.mark.parametrize("module", ADAPTING)
def test_adapters_wrap_their_own_library_and_know_one_door_at_most_and_no_wiring(module):
    known = {door for name in imports(PIECEWORK[module], module) for door in DOORS if door_of(name) == door}
    assert len(known) <= 1, f"{module} knows {known}"
    elsewhere = (AWS | NETWORK) - ADAPTERS[ADAPTING[module]]
    for name in imports(PIECEWORK[module], module):
        assert top(name) not in elsewhere, f"{module} imports {name}"
        assert not is_wiring(name), f"{module} imports {name}"


@pytest.mark.parametrize("door", sorted(DOORS))
def test_doors_do_not_know_each_other(door):
    others = DOORS - {door}
    for module, file in PIECEWORK.items():
        if reaches(module, f"piecework.{door}"):
            for name in imports(file, module):
                assert not any(reaches(name, f"piecework.{other}") for other in others), f"{module} imports {name}"


@pytest.mark.parametrize("shared", [name for name in DOMAIN if name.count(".") == 1 and top(name) == "piecework"])
def test_what_doors_share_does_not_know_them(shared):
    if shared.removeprefix("piecework.") in DOORS:
        return
    for name in imports(DOMAIN[shared], shared):
        assert not any(reaches(name, f"piecework.{door}") for door in DOORS), f"{shared} imports {name}"


@pytest.mark.parametrize("module", PIECEWORK)
def test_nothing_but_the_outgoing_client_speaks_http(module):
    if module != "piecework.http_client":
        spoken = {
            name for name in imports(PIECEWORK[module], module) if name.startswith(("http.client", "urllib.request"))
        }
        assert spoken == set()


@pytest.mark.parametrize("module", HANDLERS)
def test_functions_use_no_client_and_no_other_function(module):
    others = {top(name) for name in HANDLERS} - {top(module)}
    for name in imports(HANDLERS[module], module):
        assert top(name) not in AWS | others, f"{module} imports {name}"
        assert not reaches(name, "piecework.aws"), f"{module} imports {name}"


@pytest.mark.parametrize("module", {**PIECEWORK, **HANDLERS})
def test_only_the_composition_root_reads_the_environment(module):
    if module in COMPOSITION_ROOTS:
        return
    file = {**PIECEWORK, **HANDLERS}[module]
    read = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv", "os.environb"})
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and {"environ", "getenv"} & names_of(node))
    }

    assert read == set()


def names_of(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


@pytest.mark.parametrize("module", modules(EXECUTORS, "executors"))
def test_executors_know_neither_doors_nor_wiring(module):
    for name in imports(modules(EXECUTORS, "executors")[module], module):
        assert not is_wiring(name), f"{module} imports {name}"
        assert not any(reaches(name, f"piecework.{door}") for door in DOORS), f"{module} imports {name}"
