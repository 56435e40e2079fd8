"""The runtime door's outer edge."""

import json

from piecework.runtime.door import serve
from tests.support.runtime.runtime_handlers import Context, Lines

EVENT = {"httpMethod": "POST", "resource": "/execute", "path": "/execute", "headers": {}, "requestContext": {}}


def test_a_bug_is_logged_and_answered_without_its_text():
    lines = Lines()

    def fail(request):
        raise RuntimeError("secret")

    answer = serve("execute", fail, EVENT, Context(), lines)

    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (500, "internal")
    assert "secret" not in answer["body"]
    assert lines.bugs == ["execute"]
