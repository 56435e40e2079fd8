"""Rows of the operator's door as its contracts are held on them: the fake, DynamoDB, and DynamoDB with lost answers."""

from collections.abc import Callable
from typing import Any

from tests.support.lost_answers import LostAnswers

KINDS = ("fake", "dynamodb", "lost answers")


def rows_of(request: Any, fake: Callable[[], Any], adapter: Callable[[Any, str], Any]) -> Any:
    """Rows of the kind that the test is run on; an adapter gets a table of its own."""
    if request.param == "fake":
        return fake()
    aws = request.getfixturevalue("embedded_aws")
    client = aws.client("dynamodb")
    return adapter(LostAnswers(client) if request.param == "lost answers" else client, aws.new_table())
