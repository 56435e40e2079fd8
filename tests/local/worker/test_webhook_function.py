"""The webhook function over the embedded AWS: a message leads to a try, and that to the next message."""

import json
from types import SimpleNamespace

import pytest

from piecework.webhooks.deliveries import Delivery
from piecework.webhooks.store import work_deliveries
from tests.support.worker.handlers import handler

DELIVERY = Delivery("ctr_hooked", "evt_1", "https://seeker.invalid/hooks/hire", b"{}")  # a name that never resolves


@pytest.fixture(scope="module")
def table(embedded_aws):
    return embedded_aws.new_table("WorkTable")


@pytest.fixture(scope="module")
def queue_url(embedded_aws):
    return embedded_aws.client("sqs").create_queue(QueueName="webhook-function-test")["QueueUrl"]


@pytest.fixture(scope="module")
def webhook(embedded_aws, table, queue_url):
    variables = {"PIECEWORK_WORK_TABLE": table, "PIECEWORK_WEBHOOK_QUEUE_URL": queue_url}
    with handler("worker.webhook.app", embedded_aws.variables, **variables) as running:
        yield lambda *bodies: running.handle(
            {"Records": [{"messageId": str(place), "body": body} for place, body in enumerate(bodies)]},
            SimpleNamespace(),
        )


def test_a_try_that_fails_is_followed_by_another(webhook, embedded_aws, table, queue_url):
    deliveries = work_deliveries(embedded_aws.client("dynamodb"), table)
    deliveries.put(DELIVERY)

    answer = webhook(json.dumps({"contract_id": "ctr_hooked", "event_id": "evt_1"}))

    assert answer == {"batchItemFailures": []}
    assert deliveries.read("ctr_hooked", "evt_1").attempt == 2
    attributes = embedded_aws.client("sqs").get_queue_attributes(
        QueueUrl=queue_url, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
    )
    assert attributes["Attributes"]["ApproximateNumberOfMessagesDelayed"] == "1"


def test_a_message_that_is_none_comes_back_and_harms_no_other(webhook):
    answer = webhook("no JSON", json.dumps({"other": 1}), json.dumps({"contract_id": "ctr_x", "event_id": "evt_x"}))

    assert answer == {"batchItemFailures": [{"itemIdentifier": "0"}, {"itemIdentifier": "1"}]}
