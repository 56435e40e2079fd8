"""Webhooks about approvals through the functions themselves, over the embedded AWS, to a server with TLS."""

import time

import pytest
from standardwebhooks import Webhook

from piecework.kernel.model.commands import Intent
from piecework.net.addresses import AddressRefused
from piecework.values import replace
from piecework.webhooks.sending import SafePost
from piecework.webhooks.store import kernel_deliveries
from tests.support.fakes import FakeClock
from tests.support.kernel.functions import kernel_function
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables
from tests.support.worker.contracts import SECRET
from tests.support.worker.handlers import Context
from tests.support.worker.hooks import a_post, hook_server

GATE = 'rules: [{id: gate, then: {decision: require_approval, private: true, notify: "webhook:desk"}}]'


class Stack:
    """The tables, and a queue for each function."""

    def __init__(self, aws) -> None:
        self.aws, self.sqs = aws, aws.client("sqs")
        self.store = new_tables(aws, FakeClock(int(time.time()) * 1000))
        self.stage = KernelStage(clock=FakeClock(int(time.time()) * 1000), store=self.store, policy=a_policy(GATE))
        names = {name: f"webhooks-{name}-{self.store.table[-8:]}" for name in ("notices", "webhooks")}
        self.queues = {name: self.sqs.create_queue(QueueName=queue)["QueueUrl"] for name, queue in names.items()}

    @property
    def settings(self) -> dict[str, str]:
        return {
            **self.aws.variables,
            "PIECEWORK_KERNEL_TABLE": self.store.table,
            "PIECEWORK_DUE_TABLE": self.store.due_times._table.name,
            "PIECEWORK_BUCKET": self.store.bucket,
            "PIECEWORK_KERNEL_NOTICES_QUEUE_URL": self.queues["notices"],
            "PIECEWORK_KERNEL_WEBHOOKS_QUEUE_URL": self.queues["webhooks"],
            "PIECEWORK_KERNEL_WEBHOOKS_SECRET_ARN": self.listed(),
        }

    def listed(self) -> str:
        """The secret with the list of receivers."""
        text = f"desk=https://hooks.example.com/approvals {SECRET}"
        made = self.aws.client("secretsmanager").create_secret(Name=self.queues["webhooks"][-12:], SecretString=text)
        return str(made["ARN"])

    def messages(self, name: str) -> dict:
        answer = self.sqs.receive_message(QueueUrl=self.queues[name], MaxNumberOfMessages=10, WaitTimeSeconds=2)
        records = [{"messageId": one["MessageId"], "body": one["Body"]} for one in answer["Messages"]]
        return {"Records": records}

    def ask(self) -> str:
        line = self.stage.agent("desk", "one")
        execution = self.stage.create(agent_id="desk")
        session = line.take("execution.assigned")["session_id"]
        self.stage.kernel.intent(execution, session, Intent("invoke_tool", "pay.refund", {"card": "4111"}, True))
        return str(execution)


@pytest.fixture
def server():
    with hook_server() as running:
        yield running


def test_the_sweep_the_notices_and_the_sender_bring_a_waiting_approval_to_its_server(embedded_aws, server):
    stack, settings = (found := Stack(embedded_aws)), found.settings
    execution = stack.ask()
    server.statuses = [500, 200]
    post = a_post()

    with kernel_function("due", settings) as due:
        due.handler({}, Context())
    with kernel_function("notices", settings) as notices:
        assert notices.handler(stack.messages("notices"), Context()) == {"batchItemFailures": []}
    with kernel_function("webhooks", settings) as webhooks:
        sender = replace(webhooks.door.sender, post=lambda url, *more: post(server.url(url[25:]), *more))
        vars(webhooks.door)["sender"] = sender
        tried = stack.messages("webhooks")
        assert webhooks.handler(tried, Context()) == {"batchItemFailures": []}
        assert webhooks.handler(tried, Context()) == {"batchItemFailures": []}  # a doubled message is stale

    [posted] = server.posted
    assert posted.headers["user-agent"] == "piecework-kernel/1"
    assert posted.path == "/approvals" and b"4111" not in posted.body
    told = Webhook(SECRET).verify(posted.body, posted.headers)
    assert (told["execution_id"], told["notice"], told["notify"]) == (execution, "needed", "webhook:desk")
    kept = kernel_deliveries(stack.store.client, stack.store.table).read(execution, told["notice_id"])
    assert (kept.attempt, [made.status for made in kept.tries]) == (2, [500])
    asked = stack.sqs.get_queue_attributes(QueueUrl=stack.queues["webhooks"], AttributeNames=["All"])["Attributes"]
    assert asked["ApproximateNumberOfMessagesDelayed"] == "1"  # the next try


def test_the_function_goes_out_by_the_guarded_way_alone():
    with kernel_function("webhooks") as webhooks:
        post = webhooks.door.sender.post

    assert isinstance(post, SafePost)
    for url in ("https://169.254.169.254/latest", "https://hooks.internal/approvals"):
        with pytest.raises(AddressRefused):
            post(url, b"", {})
