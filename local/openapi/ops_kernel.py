"""What the operator's door's OpenAPI document says of the kernel: the kernel door's bodies, under names of theirs."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from local.openapi.kernel_bodies import ANSWERS, LABELS, TIME, maybe
from local.openapi.ops_answers import TRIES, page
from local.openapi.ops_parts import SOUGHT, found
from local.openapi.parts import COUNT, REF, STRING, Schema, an_object, path_parameter, ref
from piecework.edge.roles import needed
from piecework.kernel.edge import ID_BYTES
from piecework.kernel.model.state import Status
from piecework.kernel.policy.verdicts import Decision, OnTimeout
from piecework.kernel.service.bulk import COUNTED, OPEN
from piecework.ops.kernel.acting import REASON_CHARACTERS as ANSWER_CHARACTERS
from piecework.ops.kernel.asking import BODY_BYTES
from piecework.ops.kernel.finding import BY, KINDS
from piecework.ops.kernel.policies import MOST_AGE_MS, MOST_STEPS
from piecework.ops.kernel.reading import EVENTS, EVENTS_MOST, LIST, LIST_MOST, OWNERS, OWNERS_MOST, REASONS, STATES
from piecework.ops.kernel.webhooks import PAGE, PAGE_MOST
from piecework.ops.kernel.webhooks import STATES as HOOK_STATES
from piecework.ops.kernel_routes import EVALUATE, KERNEL, NEEDS, ONE, STEP, STREAM
from piecework.ops.records import REASON_CHARACTERS

PREFIX: Final = "Kernel"
TAKEN: Final = (  # of the kernel door's schemas
    *("Execution", "Executions", "Event", "Events", "Approvals", "Approval", "Agents", "Runners", "Paused"),
    *("Signalled", "Cancellable", "Standing"),
)
ID: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9_.~-]{1,128}$"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": ID_BYTES}
REASON: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": REASON_CHARACTERS}
SWITCH: Final[Schema] = {"type": "boolean"}
CURSOR: Final[Schema] = STRING


def _number(default: int, most: int, least: int = 1) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


def _named(schemas: Schema) -> Schema:
    """The same schemas under names that no other part of the document has."""
    begin = REF.format(model="")
    text = json.dumps({f"{PREFIX}{name}": schemas[name] for name in TAKEN}).replace(begin, f"{begin}{PREFIX}")
    made: Schema = json.loads(text)
    return made


SCHEMAS: Final[Schema] = {
    **_named(ANSWERS),
    f"{PREFIX}Tools": an_object({"tools": ANSWERS["Tools"], "next_cursor": STRING}),
    f"{PREFIX}Policy": an_object(
        {
            "files": {"type": "array", "items": an_object({"name": STRING, "text": STRING})},
            "is_complete": SWITCH,
            "problem": maybe(STRING, "why it does not load"),
        }
    ),
    f"{PREFIX}Verdict": an_object(
        {
            "decision": {"enum": [decision.value for decision in Decision]},
            "reason": STRING,
            "rule_id": STRING,
            "timeout_ms": maybe(COUNT, "of the step; null: the step timeout"),
            "rate_limit": maybe(an_object({"max": COUNT, "window": STRING}), "is not taken from by the question"),
            "wait": maybe(an_object({"timeout": STRING, "on_timeout": {"enum": [end.value for end in OnTimeout]}})),
            "is_private": SWITCH,
            "rules": {
                "type": "array",
                "items": an_object(
                    {
                        "id": STRING,
                        "priority": {"type": "integer"},
                        "matches": SWITCH,
                        "problems": {"type": "array", "items": an_object({"condition": STRING, "problem": STRING})},
                    }
                ),
            },
        }
    ),
    f"{PREFIX}Found": found(KINDS, BY),
    f"{PREFIX}Webhooks": page(
        an_object(
            {
                **dict.fromkeys(("execution_id", "event_id", "name", "notice", "step_id"), STRING),
                "at_ms": maybe(COUNT, "when it was handed over; null: an earlier release kept it"),
                "state": {"enum": list(HOOK_STATES)},
                "attempt": COUNT,
                "tries": TRIES,
            }
        )
    ),
    f"{PREFIX}Refusal": an_object(
        {
            "error": STRING,
            "code": STRING,
            "details": {"anyOf": [ref(f"{PREFIX}Standing"), ref(f"{PREFIX}Cancellable")]},
        },
        optional=("details",),
    ),
}
FIND: Final = f"{KERNEL}/find"
CANCEL: Final = f"{KERNEL}/executions/cancel"
# method and path → (what it does, name, answer, further statuses)
OPERATIONS: Final[Mapping[tuple[str, str], tuple[str, str, str, tuple[int, ...]]]] = {
    ("GET", f"{KERNEL}/executions"): ("List executions, the newest first", "kernel_executions", "Executions", (400,)),
    ("POST", f"{KERNEL}/executions"): ("Create an execution", "kernel_create", "Execution", (409,)),
    ("POST", CANCEL): ("Count open executions; cancel that many", "kernel_cancel_many", "Cancellable", (409,)),
    ("GET", ONE): ("Show one execution as it stands", "kernel_execution", "Execution", (400, 404)),
    ("POST", f"{ONE}/cancel"): ("End an execution", "kernel_cancel", "Execution", (404, 409)),
    ("POST", f"{ONE}/again"): ("Run an execution again", "kernel_again", "Execution", (404, 409)),
    ("POST", f"{ONE}/forget"): ("Erase what an execution was about", "kernel_forget", "Execution", (404, 409)),
    ("POST", f"{ONE}/signal"): ("Send a signal", "kernel_signal", "Signalled", (404, 409)),
    ("GET", f"{ONE}/events"): ("Read an execution's log", "kernel_events", "Events", (400, 404)),
    ("GET", STREAM): ("Follow an execution's log", "kernel_watch", "", (400, 404)),
    ("GET", STEP): ("Show what a person is asked", "kernel_approval", "Approval", (400, 404)),
    ("POST", STEP): ("Grant or deny a step", "kernel_answer", "Signalled", (404, 409)),
    ("GET", f"{KERNEL}/approvals"): ("List what people are asked", "kernel_approvals", "Approvals", (400,)),
    ("GET", FIND): ("Say what has an id in the kernel", "kernel_find", "Found", (400,)),
    ("GET", f"{KERNEL}/agents"): ("List agents", "kernel_agents", "Agents", (400,)),
    ("POST", f"{KERNEL}/agents/pause"): ("Give an agent no new executions", "kernel_pause", "Paused", ()),
    ("POST", f"{KERNEL}/agents/resume"): ("Give an agent executions again", "kernel_resume", "Paused", ()),
    ("GET", f"{KERNEL}/runners"): ("List runners", "kernel_runners", "Runners", (400,)),
    ("GET", f"{KERNEL}/tools"): ("List tools", "kernel_tools", "Tools", (400,)),
    ("GET", f"{KERNEL}/webhooks"): ("List webhooks about approvals", "kernel_webhooks", "Webhooks", (400,)),
    ("GET", f"{KERNEL}/policy"): ("Show the policy's files", "kernel_policy", "Policy", (400,)),
    ("POST", EVALUATE): ("Say what the policy says of a call", "kernel_evaluate", "Verdict", ()),
}
FRAMES: Final[Schema] = {"description": "frames", "content": {"text/event-stream": {"schema": STRING}}}
LAST_EVENT: Final[Schema] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "as after_sequence, where that is absent",
    "required": False,
    "schema": COUNT,
}
CREATES: Final = (("POST", f"{KERNEL}/executions"), ("POST", f"{ONE}/again"))
EMPTY_OR_TIME: Final[Schema] = {"anyOf": [{"const": ""}, TIME]}  # an empty parameter counts as none
OWNERS_ASKED: Final[Schema] = {"limit": _number(OWNERS, OWNERS_MOST), "cursor": CURSOR}
QUERIES: Final[Mapping[str, Schema]] = {
    f"{KERNEL}/executions": {
        "status": {"enum": [status.value for status in Status]},
        "agent_id": STRING,
        "label": {"type": "array", "items": {"type": "string", "pattern": "^[^:]+:"}},
        "created_after": EMPTY_OR_TIME,
        "created_before": EMPTY_OR_TIME,
        "include": {"enum": [REASONS]},
        "limit": _number(LIST, LIST_MOST),
        "cursor": CURSOR,
    },
    f"{ONE}/events": {"after_sequence": COUNT, "limit": _number(EVENTS, EVENTS_MOST)},
    STREAM: {"after_sequence": COUNT},
    f"{KERNEL}/approvals": {"state": {"enum": list(STATES)}, "limit": _number(LIST, LIST_MOST), "cursor": CURSOR},
    FIND: SOUGHT,
    f"{KERNEL}/webhooks": {
        "execution_id": STRING,
        "state": {"enum": list(HOOK_STATES)},
        "limit": _number(PAGE, PAGE_MOST),
        "cursor": CURSOR,
    },
    f"{KERNEL}/agents": {"agent_id": STRING, **OWNERS_ASKED},
    f"{KERNEL}/runners": {"runner_id": STRING, **OWNERS_ASKED},
    f"{KERNEL}/tools": {"prefix": STRING, "cursor": CURSOR},
}
OF_AN_AGENT: Final = an_object({"agent_id": NAME, "reason": REASON})
BODIES: Final[Mapping[str, Schema]] = {
    f"{KERNEL}/executions": an_object(
        {"agent_id": NAME, "input": {}, "labels": maybe(LABELS), "idempotency_key": NAME},
        ("input", "labels", "idempotency_key"),
    ),
    CANCEL: an_object(
        {
            "status": {"enum": [status.value for status in OPEN]},
            "agent_id": NAME,
            "labels": maybe(LABELS),
            "cursor": CURSOR,
            "confirm": {"type": "integer", "minimum": 0, "maximum": COUNTED * 10},
        },
        ("status", "agent_id", "labels", "cursor", "confirm"),
    ),
    f"{ONE}/cancel": an_object({}),
    f"{ONE}/again": an_object({"idempotency_key": NAME}, ("idempotency_key",)),
    f"{ONE}/forget": an_object({"reason": REASON}),
    f"{ONE}/signal": an_object({"signal_type": NAME, "payload": {}}, ("payload",)),
    STEP: an_object({"approved": SWITCH, "reason": {"type": "string", "maxLength": ANSWER_CHARACTERS}}, ("reason",)),
    f"{KERNEL}/agents/pause": OF_AN_AGENT,
    f"{KERNEL}/agents/resume": OF_AN_AGENT,
    EVALUATE: an_object(
        {
            "agent_id": NAME,
            "tool_id": NAME,
            "arguments": {},
            "labels": maybe(LABELS),
            "step_count": _number(0, MOST_STEPS, 0),
            "age_ms": _number(0, MOST_AGE_MS, 0),
            "at": maybe(TIME),
        },
        ("arguments", "labels", "step_count", "age_ms", "at"),
    ),
}


def made(
    method: str,
    path: str,
    other: Callable[[str], Schema],
    always: tuple[int, ...],
    failure: Callable[[int], Schema],
) -> Schema:
    """One operation, `other` makes those that are not the kernel's; `failure` describes a refusal by its status."""
    return _operation(method, path, always, failure) if (method, path) in OPERATIONS else other(path)


def _operation(method: str, path: str, always: tuple[int, ...], failure: Callable[[int], Schema]) -> Schema:
    summary, name, answer, statuses = OPERATIONS[method, path]
    made: Schema = {
        "summary": summary,
        "description": f"{needed(NEEDS[method, path]).capitalize()}. More in docs/ops.md and docs/kernel/roles.md.",
        "operationId": name,
        "tags": ["kernel"],
    }
    if method == "POST":
        body = {"application/json": {"schema": BODIES[path] | {"additionalProperties": False}}}
        made["requestBody"] = {"required": True, "description": f"At most {BODY_BYTES} bytes.", "content": body}
        statuses = (*statuses, 400, 413, 415)
    if parameters := _parameters(method, path):
        made["parameters"] = parameters
    refusals = {str(status): failure(status) for status in (*always, 404, *statuses)}
    if "409" in refusals:
        refusals["409"]["content"]["application/json"]["schema"] = ref(f"{PREFIX}Refusal")
    content = {"application/json": {"schema": ref(f"{PREFIX}{answer}")}}
    if path == STREAM:
        made["responses"] = {"200": FRAMES, "204": {"description": "nothing is newer, and nothing will be"}, **refusals}
        return made
    success = "201" if (method, path) in CREATES else "200"
    made["responses"] = {success: {"description": answer, "content": content}, **refusals}
    return made


def _parameters(method: str, path: str) -> list[Schema]:
    named = [path_parameter(name, ID["pattern"]) for name in re.findall(r"{(\w+)}", path)]
    asked = QUERIES.get(path, {}).items() if method == "GET" else ()
    named += [LAST_EVENT] if path == STREAM else []
    needed = ("id",) if path == FIND else ()
    return named + [{"name": name, "in": "query", "required": name in needed, "schema": body} for name, body in asked]
