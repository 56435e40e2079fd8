"""A handler that only makes a DynamoDB client."""

import boto3

client = boto3.client("dynamodb")


def handler(event: object, context: object) -> dict[str, object]:
    """Answer nothing."""
    return {"statusCode": 200, "body": ""}
