"""TypeScript types of the operator's door's answers; `python -m local.openapi.types` checks the console with them.

The types are made from the OpenAPI document, so that a page that reads a member which is not there is found.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from local.gateway.lambdas.variables import ROOT
from local.openapi.ops import document

Schema = Mapping[str, Any]

MADE: Final = ROOT / "build" / "types" / "ops.d.ts"
CONFIG: Final = Path(__file__).parent / "tsconfig.json"
TSC: Final = ROOT / "build" / "node" / "node_modules" / "typescript" / "bin" / "tsc"
NOT_CHECKED: Final = "the console's types were not checked: {why}"
PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def declarations(openapi: Schema) -> str:
    """A type for each schema of a document."""
    schemas = openapi["components"]["schemas"]
    return "".join(f"export type {name} = {type_of(schema)};\n" for name, schema in sorted(schemas.items()))


def type_of(schema: Schema) -> str:
    """The TypeScript type of what a schema accepts; what it cannot say is left out, such as patterns."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return "(" + " | ".join(type_of(each) for each in schema[choice]) + ")"
    if "enum" in schema or "const" in schema:
        return "(" + " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")])) + ")"
    kinds = schema.get("type", [])
    named = [kinds] if isinstance(kinds, str) else kinds
    return "(" + " | ".join(_plain(kind, schema) for kind in named) + ")" if named else "unknown"


def _plain(kind: str, schema: Schema) -> str:
    if kind == "array":
        return f"Array<{type_of(schema.get('items', {}))}>"
    if kind != "object":
        return PLAIN[kind]
    needed, members = schema.get("required", ()), schema.get("properties", {})
    if not members:
        rest = schema.get("additionalProperties")
        return f"Record<string, {type_of(rest) if isinstance(rest, Mapping) else 'unknown'}>"
    listed = (f"{json.dumps(name)}{'' if name in needed else '?'}: {type_of(of)}" for name, of in members.items())
    return "{ " + "; ".join(listed) + " }"


def main() -> int:
    """Make the types and check the console with them; where Node or TypeScript is missing, say so and pass."""
    MADE.parent.mkdir(parents=True, exist_ok=True)
    MADE.write_text(declarations(document()), "utf-8")
    node = shutil.which("node")
    if node is None or not TSC.is_file():
        print(NOT_CHECKED.format(why="Node is not installed" if node is None else "run make build/node/.synced"))
        return 0
    return subprocess.run([node, str(TSC), "--project", str(CONFIG)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
