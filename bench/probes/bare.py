"""The smallest handler: the cost of a cold start without our code."""


def handler(event: object, context: object) -> dict[str, object]:
    """Answer nothing."""
    return {"statusCode": 200, "body": ""}
