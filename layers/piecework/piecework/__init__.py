"""Piecework: one executor behind three protocol doors.

`PUBLIC` names the modules for your own code: their names and their contents stay. Everything else may move.
"""

PUBLIC = (
    "piecework.aws.bedrock",
    "piecework.aws.secrets",
    "piecework.errors",
    "piecework.event_hook",
    "piecework.executor_secrets",
    "piecework.executors",
    "piecework.jsons",
    "piecework.models",
    "piecework.policies",
    "piecework.reasons",
    "piecework.samples",
    "piecework.schemas",
    "piecework.seeds",
    "piecework.testing",
)

__version__ = "0.1.0"
