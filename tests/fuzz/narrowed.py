"""The published document, narrowed so that random requests get past the first checks and reach the core."""

import copy
from typing import Any

from tests.support.runtime.verification import KERNEL_HASHES

Schema = dict[str, Any]

KEYWORDS: Schema = {  # of the schemas that requests carry: the ones that lead somewhere, with references and loops
    "type": {"enum": ["object", "array", "string", "integer", "number", "boolean", "null"]},
    "required": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
    "enum": {"type": "array", "minItems": 1, "maxItems": 3},
    "const": {},
    "minimum": {"type": "integer"},
    "maxLength": {"type": "integer", "minimum": 0},
    "minItems": {"type": "integer", "minimum": 0},
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
    "pattern": {"enum": ["^a+$", "(a+)+$", "(?=a)", "[", "a{1000}{1000}", "\\p{L}{2,5}"]},
    "$ref": {"enum": ["#", "#/properties/a", "#/$defs/none", "https://example.com/schema"]},
}
ARBITRARY: Schema = {"anyOf": [{"type": "boolean"}, {"type": "object", "properties": KEYWORDS}]}
NESTED: Schema = {
    **KEYWORDS,
    "properties": {"type": "object", "properties": {"a": ARBITRARY, "b": ARBITRARY}},
    "items": ARBITRARY,
    "anyOf": {"type": "array", "items": ARBITRARY, "minItems": 1, "maxItems": 3},
    "not": ARBITRARY,
}


def narrowed(document: Schema) -> Schema:
    """Known policies, the default profile, and output schemas made of real keywords."""
    made = copy.deepcopy(document)
    schemas = made["components"]["schemas"]
    schemas["ExecuteRequest"]["properties"]["profile"] = {"type": "string", "enum": ["default"]}
    for holder in ("Contract", "VerifyRequest"):
        schemas[holder]["properties"]["output_schema"] = {"type": "object", "properties": NESTED}
    schemas["PolicyBinding"] = {"anyOf": [_binding(policy_id, known) for policy_id, known in KERNEL_HASHES.items()]}
    return made


def _binding(policy_id: str, known: str) -> Schema:
    properties = {
        "policy_id": {"type": "string", "enum": [policy_id]},
        "policy_version": {"type": "string", "enum": ["1"]},
        "policy_hash": {"type": "string", "enum": [known]},
        "policy_params": {"type": "object", "properties": {"min_confidence": {}, "min_check_summary_len": {}}},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}
