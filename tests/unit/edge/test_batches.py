"""Messages that could not be handled come back; the others do not."""

from piecework.edge.batches import handled
from piecework.errors import Unavailable


def event(*bodies):
    return {"Records": [{"messageId": f"m-{body}", "body": body} for body in bodies]}


def test_only_what_could_not_be_handled_comes_back_and_the_rest_is_looked_at():
    seen, told = [], []

    def look(body):
        seen.append(body)
        if body == "b":
            raise Unavailable("the table")

    answer = handled(event("a", "b", "c"), look, lambda: told.append(1))

    assert seen == ["a", "b", "c"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m-b"}]}
    assert told == [1]
