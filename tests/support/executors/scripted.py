"""An executor that does what its `inputs` say, right or wrong, so that tests see what the door makes of it.

`output` is the answer (`{"answer": "scripted"}` unless given), or `nested` that many arrays, or `repeat` a text so
often; `evidence` lists `[mime, content]`, `artifacts` lists `[name, text, mime]`, `fail` names a failure and `text`
what it says.
"""

from typing import NoReturn

from piecework.errors import UpstreamFailed
from piecework.executors import Outcome, Refused, Retryable, Run, Task, executor
from piecework.jsons import Json


@executor("scripted", task_types=("scripted",), expected_ms=1_000)
def scripted(task: Task, run: Run) -> Outcome:
    """Follow the script."""
    script = task.inputs
    if "fail" in script:
        _fail(script["fail"], script.get("text", "no reason given"))
    for mime, content in script.get("evidence", ()):
        run.evidence(content, mime)
    for name, text, mime in script.get("artifacts", ()):
        run.artifact(name, text.encode(), mime)
    return Outcome(_output(script))


def _output(script: dict[str, Json]) -> Json:
    if "repeat" in script:
        text, times = script["repeat"]
        return text * times
    if "nested" not in script:
        return script.get("output", {"answer": "scripted"})
    nested: Json = []
    for _ in range(script["nested"] - 1):
        nested = [nested]
    return nested


def _fail(how: str, text: str) -> NoReturn:
    failures = {"retryable": Retryable, "upstream": UpstreamFailed, "refused": Refused, "bug": RuntimeError}
    raise failures[how](text)
