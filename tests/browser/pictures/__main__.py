"""Draws the pictures of docs/console.md: ordinary work of some days, on a machine of its own.

`python -m tests.browser.pictures` writes docs/console/*.png anew. Texts that break pages are the tests' own matter; the
pictures show what an operator sees on a usual day.
"""

import base64
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Page, sync_playwright

from local import aws
from local.facilitator.ledger import Ledger
from local.facilitator.server import StubFacilitator
from local.gateway.lambdas.variables import ROOT
from local.gateway.sessions import LINK, ONCE, SECRET
from local.template import Template
from piecework.aws.due_table import DueTable
from piecework.durable.pieces import piece_key
from piecework.extend.executors import Outcome, Run, Task
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.browser.chromium import find_chromium
from tests.support import aws_calls
from tests.support.fakes import FakeClock
from tests.support.kernel.desk import Work
from tests.support.machine import HTTP_SECONDS, Aws, Gateways, RunningGateway
from tests.support.runtime.requests import a_scripted_request, an_execute_request, execute
from tests.support.runtime.verification import a_candidate, a_verify_body
from tests.support.served.kernel import ServedDesk
from tests.support.worker.doubtful import TABLES, doubtful
from tests.support.worker.stage import Stage

FOLDER: Final = ROOT / "docs/console"
DOORS: Final = {"DeployWorkerDoor": "true", "DeployKernelDoor": "true", "DeployConsole": "true"}
FIRST_LINK: Final = "the-first-link"
DAY_MS: Final = 86_400_000
SIZE: Final = {"width": 1280, "height": 720}
POLICY: Final = """
rules:
  - id: large-refund
    priority: 10
    when: {tool_id: "pay.*", arguments: [{field: cents, min: 5000}]}
    then: {decision: require_approval, reason: "refunds over 50.00 need a person", timeout: 144h, on_timeout: deny}
  - id: never-delete
    priority: 20
    when: {tool_id: "crm.delete*"}
    then: {decision: deny, reason: customers are never deleted}
default: {decision: allow}
"""
RECEIVED: Final = (
    ("12.50", 6),
    ("7.00", 5),
    ("21.00", 4),
    ("3.25", 2),
    ("18.00", 1),
    ("5.00", 0),
    ("9.75", 0),
)  # USDC, days ago


class Desk(ServedDesk):
    """Agents, runners and tools under their own names: nobody else is at this door."""

    def named(self, name: str) -> str:
        return name


@dataclass
class Office:
    """The machine, and what stands on it."""

    runtime: RunningGateway
    console: RunningGateway
    desk: Desk
    names: dict[str, str]


def main() -> None:
    """Make the machine and its days, and draw every page."""
    os.environ.setdefault(aws_calls.RUN, "pictures")
    template = Template.load(ROOT / "template.yaml", DOORS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        endpoint = stack.enter_context(aws.embedded_aws())
        facilitator = stack.enter_context(StubFacilitator(ledger=Ledger()))
        aws.provision(template, endpoint)
        emulated = Aws(endpoint, template)
        gateways = Gateways(emulated, folder)
        stack.callback(gateways.close)
        office = an_office(gateways, emulated, facilitator, folder)
        stack.callback(office.desk.close)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
            draw(office, browser.new_page, LINK.format(url=office.console.url, token=FIRST_LINK))
            browser.close()


def an_office(gateways: Gateways, emulated: Aws, facilitator: StubFacilitator, folder: Path) -> Office:
    """The doors, and what came to them."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, "utf-8")
    parameters = {f"PIECEWORK_PARAM_{name}": value for name, value in DOORS.items()} | {"PIECEWORK_POLICY": str(policy)}
    parameters |= {"PIECEWORK_EXECUTORS_PATH": None}  # the product's own
    runtime = gateways(PIECEWORK_PARAM_DeployConsole="true", PIECEWORK_RUNTIME_TOKENS="node-zurich=node-secret")
    runtime.http.headers["Authorization"] = "Bearer node-secret"
    names = pieces(runtime, emulated) | hired(emulated, facilitator)
    kernel = gateways(api="KernelApi", PIECEWORK_KERNEL_TOKENS="support-app=app-secret", **parameters)
    credential = {"Authorization": "Bearer app-secret"}
    desk = Desk(httpx.Client(base_url=kernel.url, headers=credential, timeout=HTTP_SECONDS, trust_env=False))
    names |= executions(desk)
    own = {
        "FACILITATOR_URL": facilitator.url,
        "BASE_RPC_URL": facilitator.rpc_url,
        ONCE: FIRST_LINK,
        SECRET: "ann-secret",
    }
    roles = {"PIECEWORK_OPS_TOKENS": "ann=ann-secret", "PIECEWORK_OPS_TOKEN_ROLES": "ann=operator+approver+client"}
    ledger = {"PIECEWORK_PARAM_LedgerCompleteFrom": time.strftime("%Y-%m-%d", time.gmtime(time.time() - 30 * 86_400))}
    return Office(runtime, gateways(api="ConsoleApi", **parameters, **own, **roles, **ledger), desk, names)


def pieces(runtime: RunningGateway, emulated: Aws) -> dict[str, str]:
    """Answers with evidence, one of which was changed in the bucket since; a failure; verdicts."""
    for text in ("We should adopt it", "I am against it", "Perhaps, if the price falls"):
        execute(runtime, an_execute_request("echo", {"prompt": text}, schema={}))
    changed = a_scripted_request(
        {"output": {"answer": "42"}, "artifacts": [["notes.txt", "The count is 42.", "text/plain"]]}
    )
    answer = execute(runtime, changed)
    text = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}
    for number, output in enumerate((answer.json()["candidate_output"], {"answer": 7})):
        candidate = a_candidate(output, execution_id=changed["execution_id"], candidate_id=f"candidate-{number}")
        runtime.http.post("/verify", json=a_verify_body(candidate=candidate, schema=text))
    execute(runtime, a_scripted_request({"fail": "refused", "text": "the source has no such page"}))
    s3 = emulated.boto3("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for found in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
            if s3.get_object(Bucket=bucket["Name"], Key=found["Key"])["Body"].read() == b"The count is 42.":
                s3.put_object(Bucket=bucket["Name"], Key=found["Key"], Body=b"The count is 43.")
    return {
        "piece": piece_key(
            "runtime", "node-zurich", *(changed[name] for name in ("task_id", "execution_id", "attempt_id"))
        )
    }


def hired(emulated: Aws, facilitator: StubFacilitator) -> dict[str, str]:
    """Paid work of seven days, and a payment in doubt; a dead letter."""
    client, now_ms = emulated.client("dynamodb"), int(time.time() * 1000)
    for amount, days in RECEIVED:
        clock = FakeClock(now_ms - days * DAY_MS)
        ports = {
            "executions": ExecutionsTable(client, TABLES[1], TABLES[2], clock),
            "due_times": DueTable(client, TABLES[2]),
        }
        stage = Stage(facilitator, clock=clock, ports={"contracts": ContractsTable(client, TABLES[0], clock), **ports})
        stage.do = written
        contract = stage.contract(terms__price__amount=amount)
        answer = stage.post(contract, {"brief": "Summarise the annual report"}, stage.pay(contract))
        assert answer.status == 200, answer.text
    sqs = emulated.client("sqs")
    url = sqs.get_queue_url(QueueName="piecework-webhook-dead-letters")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=f'{{"contract_id":"{contract.contract_id}","event_id":"evt_result"}}')
    names = {"paid": contract.contract_id, "doubt": doubtful(client, facilitator)}
    facilitator.say("settle", "ok")
    return names


def written(task: Task, run: Run) -> Outcome:
    """What the executor of hired work delivers."""
    run.artifact("summary.md", b"# Annual report\n", "text/markdown")
    return Outcome({"score": 7, "summary": "Revenue grew by 4 percent.", "pages": 38})


def executions(desk: Desk) -> dict[str, str]:
    """Agents at work: one execution that waits for a person, one for a signal, ended and failed ones; a runner."""
    desk.stage.runner("search-1", tools="web.search,web.fetch")
    tools = [tool("web.search", "Searches the web", "query"), tool("web.fetch", "Fetches a page", "url")]
    assert desk.post("/v0/runners/search-1/tools", {"tools": tools}).is_success
    for order, cents in (("A-1041", 1_250), ("A-1077", 4_900)):
        refund(desk, order, cents, 0.05)
    lost = desk.work("refund-desk", input={"order": "A-0999", "cents": 900}, labels={"team": "support"})
    lost.intend("fail", error="no such order: A-0999")
    desk.work("research", input={"topic": "grid batteries"}, labels={"team": "research"}).intend(
        "wait", signal_type="sources-checked"
    )
    desk.create("translator", input={"text": "Guten Tag"}, labels={"team": "support"})
    waits, step = refund(desk, "A-1093", 18_450, 0.5)
    return {"execution": waits.id, "step": step}


def refund(desk: Desk, order: str, cents: int, seconds: float) -> tuple[Work, str]:
    """What the refund desk does for one request; a large one waits for a person at the end."""
    work = desk.work("refund-desk", input={"order": order, "cents": cents}, labels={"team": "support", "order": order})
    for name, given, found, times in (
        ("crm.find_order", {"order": order}, {"customer": "C-208", "paid_cents": cents}, 1.0),
        ("ledger.payments", {"customer": "C-208"}, {"settled": True}, 2.2),
    ):
        step = work.step(name, arguments=given)
        time.sleep(seconds * times)
        work.report(step, data=found)
        time.sleep(seconds * 0.3)
    if cents > 10_000:
        work.call("crm.delete_order", arguments={"order": order})
    step = work.step("pay.refund", arguments={"order": order, "cents": cents, "currency": "EUR", "to": "C-208"})
    if cents < 5_000:
        time.sleep(seconds)
        work.report(step, data={"receipt": f"R-{order}"})
        work.intend("complete", output={"order": order, "refunded": True})
    return work, step


def tool(name: str, description: str, argument: str) -> dict[str, Any]:
    """A runner's tool with one argument."""
    schema = {"type": "object", "required": [argument], "properties": {argument: {"type": "string"}}}
    return {"id": name, "name": name, "description": description, "input_schema": schema}


def draw(office: Office, new_page: Callable[..., Page], link: str) -> None:
    """Every picture; the console's own words say when a page is complete."""
    page = new_page(viewport=SIZE, color_scheme="light")
    page.goto(f"{office.console.url}/console/now")
    page.get_by_role("heading", name="Sign in").wait_for()
    save(page, "sign-in")
    page.goto("about:blank")  # else only the fragment would change
    page.goto(link)
    page.locator("#main h1").wait_for()
    names = office.names

    def picture(name: str, path: str, shown: str, act: Callable[[], None] | None = None) -> None:
        page.goto(f"{office.console.url}/console{path.format(**names)}")
        page.get_by_text(shown).first.wait_for()
        if act is not None:
            act()
        page.locator("#main:not([aria-busy=true])").wait_for()
        page.wait_for_timeout(500)  # for what comes after the first drawing
        save(page, name)

    picture("executions", "/executions", "pay.refund")
    picture(
        "execution",
        "/executions/{execution}",
        "Live",
        page.get_by_role("button", name="ledger.payments").first.click,
    )
    picture("inbox", "/inbox", "large-refund")
    page.keyboard.press("y")
    page.get_by_role("dialog").wait_for()
    save(page, "inbox-question")
    page.keyboard.press("Escape")
    picture("approval", "/inbox/{execution}/{step}", "Arguments")
    picture("agents", "/agents", "refund-desk")
    picture("runners", "/agents?show=runners", "search-1")
    picture("tools", "/agents?show=tools", "web.search")
    picture("policy", "/policy?execution={execution}&step={step}", "large-refund")
    picture("search", "/find?q=A-1093", "A-1093")
    page.emulate_media(color_scheme="dark")
    picture("now", "/now", "in the last hour")
    page.emulate_media(color_scheme="light")
    picture("pieces", "/pieces", "node-zurich")
    picture("piece", "/pieces/{piece}", "Changed")
    picture("verdicts", "/verdicts", "candidate-1")
    picture("hired", "/hired", "ctr_")
    picture("evidence", "/hired/{doubt}", "This payment is in doubt", lambda: ask_the_chain(page))
    picture("money", "/hired/money", "Received on base")
    picture("contracts", "/hired/contracts", "ctr_")
    picture("operations", "/operations?queue=webhook", "Nothing in the last 30 days")


def ask_the_chain(page: Page) -> None:
    """Have the evidence shown."""
    page.get_by_role("button", name="Ask the chain").first.click()
    page.get_by_role("button", name="It was paid…").wait_for()


def save(page: Page, name: str) -> None:
    """The whole page as it stands, at half the size of a file of every pixel."""
    height = page.evaluate("Math.min(1400, document.documentElement.scrollHeight)")
    clip = {"x": 0, "y": 0, "width": SIZE["width"], "height": height, "scale": 1}
    session = page.context.new_cdp_session(page)
    given = {"format": "webp", "quality": 88, "captureBeyondViewport": True, "clip": clip}
    (FOLDER / f"{name}.webp").write_bytes(base64.b64decode(session.send("Page.captureScreenshot", given)["data"]))
    session.detach()


if __name__ == "__main__":
    main()
