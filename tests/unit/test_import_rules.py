"""Imports point one way: function, wiring, adapters, domain; the doors do not know each other."""

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layers/piecework/piecework"
FUNCTIONS = ROOT / "functions"
EXECUTORS = ROOT / "layers/executors"

AWS = {"boto3", "botocore", "aws_lambda_powertools"}
NETWORK = {"urllib3", "requests", "httpx", "h11"}
MOST_MODULES = 16
MOST_LINES = 400
DOORS = {"runtime", "worker", "kernel", "ops"}
LIBRARIES = {  # what a room may use beside the standard library and `LAYERS`
    "worker": {"eth_keys", "eth_utils", "rfc8785", "jwt", "cryptography"},
    "kernel": {"yaml", "re2"},
    "webhooks": {"standardwebhooks"},
    "ops": {"cryptography"},  # signatures of people's tokens
    "net": {"h11"},  # the one way out: whoever calls somebody else goes through it
    "aws": AWS,
}
LAYERS = {"piecework", "executors", "pydantic", "pydantic_core", "jsonschema_rs"}
SHARED = {
    "chance",
    "clock",
    "errors",
    "jsons",
    "reasons",
    "settings",
    "schemas",
    "edge",
    "net",
    "webhooks",
    "extend",
    "durable",
    "samples",
    "models",
}
MAY_USE = {  # room: the rooms of the package that it may know
    "chance": set(),
    "clock": set(),
    "errors": set(),
    "values": set(),
    "jsons": {"errors"},
    "reasons": set(),
    "settings": {"errors"},
    "edge": {"errors", "jsons"},
    "net": {"errors", "jsons", "reasons"},
    "webhooks": {"chance", "clock", "errors", "jsons", "reasons", "net"},
    "schemas": {"errors", "jsons"},
    "extend": {"errors", "jsons"},
    "samples": {"jsons", "schemas", "extend"},
    "durable": {"chance", "clock", "errors", "jsons", "extend"},
    "models": {"errors", "jsons", "reasons", "settings", "net", "extend"},
    "aws": {"chance", "clock", "errors", "jsons", "extend", "durable", "models"},
    **{door: SHARED for door in DOORS},
    "ops": SHARED | {"worker", "kernel"},  # looks over what both have stored
    "testing": {"errors", "extend", "jsons", "runtime", "schemas"},  # runs an executor as the runtime door does
}
FACES = {"executors", "policies", "event_hook", "executor_secrets", "seeds"}  # what users import, of extend
COMPOSITION_ROOTS = {
    "piecework.runtime.wiring",
    "piecework.worker.wiring",
    "piecework.worker.backends",
    "piecework.kernel.wiring",
    "piecework.kernel.backends",
    "piecework.kernel.webhooks",
    "piecework.ops.wiring",
    "piecework.ops.kernel.wiring",
    "piecework.ops.money.wiring",
}
STORES = {f"piecework.{room}.store" for room in DOORS | {"webhooks"}}  # a room's own adapters
ONLY_WRAPS = {"piecework.models.openai"}  # an adapter that needs no AWS
SPEAK_BOTOCORE = {  # nothing else needs it, and nothing that answers a request imports these
    "piecework.aws.through_botocore",
    "piecework.aws.bedrock",
}
TRANSPORT = "piecework.aws.transport"  # speaks HTTP to AWS on plain sockets
DYNAMODB = {  # methods of its client; `query` is a verb of the gateway too
    *("get_item", "put_item", "update_item", "delete_item", "scan"),
    *("batch_get_item", "batch_write_item", "transact_get_items", "transact_write_items"),
}
CIRCLES: set[frozenset[str]] = set()  # none is left


def modules(folder: Path, prefix: str) -> dict[str, Path]:
    found = {}
    for file in sorted(folder.rglob("*.py")):
        dotted = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[".".join(filter(None, [prefix, dotted]))] = file
    return found


PIECEWORK = modules(PACKAGE, "piecework")
HANDLERS = modules(FUNCTIONS, "")
COMMANDS = modules(ROOT / "cli" / "piecework_cli", "piecework_cli")


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All of a file; each is parsed once, as the rules ask for it many times."""
    return tuple(ast.walk(ast.parse(file.read_text("utf-8"))))


@cache
def imports(file: Path, module: str) -> tuple[str, ...]:
    """Full names of all that a file imports, wherever it does; blocks for type checkers only are left out."""
    return tuple(named_in(file, module))


def named_in(file: Path, module: str) -> Iterator[str]:
    typing_only = {
        inner
        for node in nodes(file)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in nodes(file):
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


def room_of(name: str) -> str:
    """The room of a module of the package: the folder or module right under the package."""
    return name.split(".")[1] if name.startswith("piecework.") else ""


def is_wiring(name: str) -> bool:
    return any(reaches(name, root) for root in COMPOSITION_ROOTS)


def is_store(module: str) -> bool:
    return any(reaches(module, store) for store in STORES)


@cache
def own(module: str) -> set[str]:
    """The modules of the package that a module imports."""
    named = (name for name in imports(PIECEWORK[module], module) if top(name) == "piecework")
    return {name if name in PIECEWORK else name.rpartition(".")[0] for name in named} & PIECEWORK.keys() - {module}


def test_there_is_something_to_check():
    assert PIECEWORK.keys() >= COMPOSITION_ROOTS
    assert {"runtime.execute.app", "worker.hire.app", "kernel.http.app"} <= set(HANDLERS)
    assert {room_of(name) for name in PIECEWORK} - {""} == MAY_USE.keys() | FACES


def wrong(files: Mapping[str, Path], check: Callable[[str, Path], Iterable[str]]) -> dict[str, list[str]]:
    """What breaks a rule, by module. Each rule is one test: one for each module would cost more than what it does."""
    found = {module: sorted(check(module, file)) for module, file in files.items()}
    return {module: names for module, names in found.items() if names}


def test_a_room_knows_the_rooms_under_it():
    def unknown(module, file):
        room = room_of(module)
        known = {room, "values", *({"extend"} if room in FACES else MAY_USE[room])}
        known |= {"aws"} if is_wiring(module) or is_store(module) else set()
        return {room_of(name) for name in own(module)} - {""} - known

    assert wrong({name: file for name, file in PIECEWORK.items() if room_of(name)}, unknown) == {}


def test_a_room_uses_its_own_libraries():
    def foreign(module, file):
        allowed = LAYERS | LIBRARIES.get(room_of(module), set())
        allowed |= AWS if is_wiring(module) or is_store(module) else set()
        return [name for name in imports(file, module) if top(name) not in sys.stdlib_module_names | allowed]

    assert wrong(PIECEWORK, foreign) == {}


def test_what_is_decided_knows_neither_adapters_nor_wiring():
    def known(module, file):
        adapters = {name for name in own(module) if room_of(name) == "aws" or is_store(name) or name in ONLY_WRAPS}
        may_know = room_of(module) == "aws" or is_store(module)
        return (set() if may_know else adapters) | {name for name in own(module) if is_wiring(name)}

    assert wrong({name: file for name, file in PIECEWORK.items() if not is_wiring(name)}, known) == {}


def children(package: str) -> dict[str, set[str]]:
    """What each folder and module right under a package imports of its neighbours."""
    inside = [name for name in PIECEWORK if name.startswith(f"{package}.")]
    depth = package.count(".") + 2
    graph: dict[str, set[str]] = {}
    for name in inside:
        near = {".".join(other.split(".")[:depth]) for other in own(name) if other in inside}
        here = ".".join(name.split(".")[:depth])
        graph.setdefault(here, set()).update(near - {here})
    return graph


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of nodes that reach each other."""
    reached = {node: set(near) for node, near in graph.items()}
    for middle in graph:
        for node in graph:
            if middle in reached[node]:
                reached[node] |= reached[middle]
    rings = {frozenset({node, *(other for other in reached[node] if node in reached[other])}) for node in graph}
    return {frozenset(name.removeprefix("piecework.") for name in ring) for ring in rings if len(ring) > 1}


PACKAGES = sorted(name for name, file in PIECEWORK.items() if file.name == "__init__.py")


def test_nothing_goes_round_in_circles():
    assert set().union(*(circles(children(package)) for package in PACKAGES)) == CIRCLES


def test_nothing_but_the_outgoing_client_speaks_http():
    def spoken(module, file):
        used = imports(file, module)
        return {name for name in used if name.startswith(("http.client", "urllib.request")) or top(name) in NETWORK}

    client = {"piecework.net.http_client"}
    assert wrong({**PIECEWORK, **COMMANDS}, spoken).keys() <= client and client <= PIECEWORK.keys()


def test_numbers_are_drawn_where_no_snapshot_holds_the_generator():
    def drawn(module, file):
        return [name for name in imports(file, module) if top(name) == "random"]

    assert wrong({**PIECEWORK, **HANDLERS}, drawn).keys() <= {"piecework.chance"}


def test_botocore_stays_in_its_two_places():
    def named(module, file):
        return {top(name) for name in imports(file, module)} & {"boto3", "botocore"}

    assert wrong(PIECEWORK, named).keys() <= SPEAK_BOTOCORE


def test_nothing_but_the_adapters_knows_the_transport():
    def named(module, file):
        may_know = is_store(module) or room_of(module) == "aws"
        return [name for name in imports(file, module) if reaches(name, TRANSPORT) and not may_know]

    assert wrong({**PIECEWORK, **HANDLERS}, named) == {}


def test_nothing_but_the_gateway_speaks_to_dynamodb():
    def called(module, file):
        return {node.attr for node in nodes(file) if isinstance(node, ast.Attribute)} & DYNAMODB

    assert wrong({**PIECEWORK, **HANDLERS}, called).keys() == {"piecework.aws.table"}


def test_functions_use_no_client_and_no_other_function():
    def used(module, file):
        function = module.split(".")[:2]
        for name in imports(file, module):
            is_other = top(name) in DOORS and name.split(".")[:2] != function
            if top(name) in AWS or is_other or reaches(name, "piecework.aws") or is_store(name):
                yield name

    assert wrong(HANDLERS, used) == {}


def test_only_the_composition_root_reads_the_environment():
    def read(module, file):
        for node in nodes(file):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv", "os.environb"}:
                yield ast.unparse(node)
            if isinstance(node, ast.ImportFrom) and node.module == "os" and {"environ", "getenv"} & names_of(node):
                yield ast.unparse(node)

    may_read = COMPOSITION_ROOTS | {"piecework.aws.secrets"}  # which executors call, who have no door
    assert wrong({**PIECEWORK, **HANDLERS}, read).keys() <= may_read


@pytest.mark.parametrize("top_folder", ["layers", "functions", "local", "cli", "bench", "tests"])
def test_no_folder_holds_more_modules_than_one_look_takes_in(top_folder):
    folders = Counter(file.parent for file in (ROOT / top_folder).rglob("*.py") if file.name != "__init__.py")

    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("top_folder", ["layers", "functions", "local", "cli", "bench"])
def test_no_module_is_longer_than_one_sitting(top_folder):
    lines = {file: len(file.read_text("utf-8").splitlines()) for file in (ROOT / top_folder).rglob("*.py")}

    assert {str(file.relative_to(ROOT)): count for file, count in lines.items() if count > MOST_LINES} == {}


def test_the_packages_root_holds_a_dozen_modules_at_most():
    assert len([file for file in PACKAGE.glob("*.py") if file.name != "__init__.py"]) <= 12


def names_of(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


def test_executors_know_neither_doors_nor_wiring():
    def known(module, file):
        doors = tuple(f"piecework.{door}" for door in DOORS)
        return [name for name in imports(file, module) if is_wiring(name) or any(reaches(name, door) for door in doors)]

    assert wrong(modules(EXECUTORS, "executors"), known) == {}
