"""The kernel table's rows, by their keys. `…` is an id, or the digest of an id that is not a plain word.

| pk              | sk                    | row                                                                    |
|-----------------|-----------------------|------------------------------------------------------------------------|
| EXEC#execution  | META                  | the checkpoint; also in the indexes ByAge, ByAgent and ByStatus        |
|                 | INPUT, OUTPUT, LABELS | values, written once; labels only when they are too long for META      |
|                 | EV#sequence           | the events of one command, under the sequence of the last one          |
|                 | STEP#…, DONE#…        | a step's tool and arguments; its outcome                               |
|                 | ASKED#…               | what a person is told of a step that needs one                         |
|                 | SAID#…                | what a person answered about a step                                    |
|                 | SIG#sequence          | a signal's event payload                                               |
|                 | HIST#version          | terminal attempts of steps that one command noted                      |
|                 | KEY#digest            | the answer to an intent with an idempotency key                        |
| SESS#session    | SESS                  | the execution it was given for (TTL)                                   |
| AGENT#…         | C#                    | the agent's last pause, which earlier code takes for a lapsed consumer |
|                 | C#…                   | a consumer                                                             |
|                 | T                     | the round-robin counter                                                |
|                 | W#created#execution   | an execution that waits for a consumer                                 |
| NAMES#…         | …                     | a name of a token by which the agent has connected (TTL)               |
| HELD#…          | execution             | an execution whose session the consumer holds                          |
| OUT#kind#…      | time#execution#…      | a message for a consumer or connection (TTL)                           |
| AGENTS#shard    | …                     | that an agent has had a connection lately (TTL)                        |
| RUNNERS#shard   | …                     | the same of a runner                                                   |
| RUN#…           | LINK#…                | a runner's connection                                                  |
|                 | RUNNER                | that it was seen, and its last list of tools                           |
| TOOL#…          | generation#…          | a connection that offers the tool: a hint, the link tells              |
|                 | TURN                  | the tool's round-robin counter                                         |
| QUEUE#…         | time#job              | a job that waits                                                       |
| PAUSED          | …                     | that an agent is paused: who, when, why                                |
| DIRECTORY       | …                     | the tools that one runner published                                    |
| APPROVALS       | time#execution        | a step that waits for a person                                         |
| ANSWERED        | time#execution#step   | a step that a person, or time, has answered about (TTL)                |
| COUNT#part      | P#slot, P#slot#Tshard | numbers behind /metrics; those about one tool apart                    |
| COUNT           | S#shard, T#shard      | the same, of earlier code                                              |

Others' rows: RATE#… (rate_table.py), BELL#… (hints.py), HOSTED#… (hosted.py), STEP#… (aws/steps_table.py), WEBHOOK#…
(webhooks/store.py), which are in ByAge, too.
"""

import hashlib
import json
import re
import zlib
from typing import Final

from piecework.aws.table import Index
from piecework.aws.writes import Key

META: Final = "META"
INPUT: Final = "INPUT"
OUTPUT: Final = "OUTPUT"
LABELS: Final = "LABELS"
EVENTS: Final = "EV#"
HISTORY: Final = "HIST#"
CONSUMERS: Final = "C#"
TURN: Final = "T"
WAITING: Final = "W#"
LINKS: Final = "LINK#"
AFTER_LINKS: Final = "LINK$"
APPROVALS: Final = "APPROVALS"
ANSWERED: Final = "ANSWERED"
PAUSED: Final = "PAUSED"
DIRECTORY: Final = "DIRECTORY"
EARLIER_COUNTS: Final = "COUNT"
BY_AGE: Final = Index("ByAge", "age_shard", "created_id")
BY_AGENT: Final = Index("ByAgent", "agent_id", "created_id")
BY_STATUS: Final = Index("ByStatus", "status_shard", "created_id")
COUNT_PARTS: Final = 16  # partitions of numbers: each command writes 2 units of them, and would be refused with them
LIST_SHARDS: Final = 4  # of the indexes ByAge and ByStatus: some 4,000 index writes a second each; a list reads all

OWNER_SHARDS: Final = 16  # of the rows by which lists find agents and runners
OWNER_KEY: Final = re.compile(r"[0-9A-Za-z_.-]{1,64}|~[0-9a-f]{40}")
AGENTS: Final = "AGENTS"
RUNNERS: Final = "RUNNERS"

_PLAIN: Final = re.compile(r"[0-9A-Za-z_.-]{1,64}")


def key_part(*ids: str) -> str:
    """An id that may be any text, as part of a key: itself if it is a plain word, else a digest."""
    if len(ids) == 1 and _PLAIN.fullmatch(ids[0]):
        return ids[0]
    return "~" + hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:40]


def time(at_ms: int) -> str:
    """A time that sorts."""
    return f"{at_ms:015d}"


def number(value: int) -> str:
    """A sequence or version that sorts."""
    return f"{value:012d}"


def execution(execution_id: str) -> str:
    """The partition of an execution."""
    return f"EXEC#{key_part(execution_id)}"


def event(execution_id: str, sequence: int) -> Key:
    """The events of one command, by the last of them."""
    return execution(execution_id), EVENTS + number(sequence)


def meta(execution_id: str) -> Key:
    """The checkpoint."""
    return execution(execution_id), META


def step(execution_id: str, step_id: str) -> Key:
    """A step's record."""
    return execution(execution_id), f"STEP#{key_part(step_id)}"


def done(execution_id: str, step_id: str) -> Key:
    """A step's outcome."""
    return execution(execution_id), f"DONE#{key_part(step_id)}"


def asked(execution_id: str, step_id: str) -> Key:
    """What a person is told of a step."""
    return execution(execution_id), f"ASKED#{key_part(step_id)}"


def decided(execution_id: str, step_id: str) -> Key:
    """A person's answer about a step."""
    return execution(execution_id), f"SAID#{key_part(step_id)}"


def signal(execution_id: str, sequence: int) -> Key:
    """A signal's payload."""
    return execution(execution_id), f"SIG#{number(sequence)}"


def answered(execution_id: str, key: str) -> Key:
    """The answer to an idempotency key."""
    return execution(execution_id), "KEY#" + hashlib.sha256(json.dumps(key).encode()).hexdigest()


def session(session_id: str) -> Key:
    """A session's execution."""
    return f"SESS#{key_part(session_id)}", "SESS"


def agent(agent_id: str) -> str:
    """The partition of an agent's board."""
    return f"AGENT#{key_part(agent_id)}"


def consumer(agent_id: str, consumer_id: str) -> Key:
    """A consumer."""
    return agent(agent_id), CONSUMERS + key_part(consumer_id)


def pause(agent_id: str) -> Key:
    """An agent's last pause: the first row of its board, so that who looks at the consumers reads it, too."""
    return agent(agent_id), CONSUMERS


def paused(agent_id: str) -> Key:
    """That an agent is paused, in one place for all agents."""
    return PAUSED, key_part(agent_id)


def served(agent_id: str, name: str) -> Key:
    """That an agent has connected by the token of a name."""
    return f"NAMES#{key_part(agent_id)}", key_part(name)


def owner(kind: str, id_: str) -> Key:
    """That an agent or a runner (`AGENTS`, `RUNNERS`) has had a connection."""
    part = key_part(id_)
    return owners(kind)[zlib.crc32(part.encode()) % OWNER_SHARDS], part


def owners(kind: str) -> list[str]:
    """The partitions of all that have had a connection."""
    return [f"{kind}#{shard:02d}" for shard in range(OWNER_SHARDS)]


def waiting(agent_id: str, created_at_ms: int, execution_id: str) -> Key:
    """The marker of an execution that waits."""
    return agent(agent_id), f"{WAITING}{time(created_at_ms)}#{execution_id}"


def held(agent_id: str, consumer_id: str) -> str:
    """The partition of a consumer's sessions."""
    return f"HELD#{key_part(agent_id, consumer_id)}"


def waiting_approval(since_ms: int, execution_id: str) -> Key:
    """A step that waits for a person; an execution has one at most."""
    return APPROVALS, f"{time(since_ms)}#{execution_id}"


def answered_approval(at_ms: int, execution_id: str, step_id: str) -> Key:
    """A step that was answered about."""
    return ANSWERED, f"{time(at_ms)}#{execution_id}#{step_id}"


def outbox(kind: str, owner: str, consumer_id: str) -> str:
    """The partition of a consumer's or connection's messages."""
    return f"OUT#{kind}#{key_part(owner, consumer_id)}"


def runner(runner_id: str) -> str:
    """The partition of a runner."""
    return f"RUN#{key_part(runner_id)}"


def seen(runner_id: str) -> Key:
    """That a runner was seen."""
    return runner(runner_id), "RUNNER"


def link(runner_id: str, consumer_id: str) -> Key:
    """A runner's connection."""
    return runner(runner_id), LINKS + key_part(consumer_id)


def tool(tool_id: str) -> str:
    """The partition of the connections that offer a tool."""
    return f"TOOL#{key_part(tool_id)}"


def offer(tool_id: str, generation: int, runner_id: str, consumer_id: str) -> Key:
    """That a connection offers a tool."""
    return tool(tool_id), f"{time(generation)}#{key_part(runner_id, consumer_id)}"


def queue(tool_id: str) -> str:
    """The partition of a tool's queue."""
    return f"QUEUE#{key_part(tool_id)}"


def queued(tool_id: str, not_before_ms: int, job_id: str) -> Key:
    """A job in its queue."""
    return queue(tool_id), f"{time(not_before_ms)}#{job_id}"


def count_parts() -> list[str]:
    """The partitions that hold numbers."""
    return [EARLIER_COUNTS, *(f"COUNT#{part:02d}" for part in range(COUNT_PARTS))]


def counts(slot: int, more: str = "") -> Key:
    """A row of numbers of a slot."""
    return f"COUNT#{slot % COUNT_PARTS:02d}", f"P#{slot:03d}{more}"


def shard(execution_id: str) -> int:
    """Where an execution lies in the indexes that all executions share."""
    return zlib.crc32(execution_id.encode()) % LIST_SHARDS
