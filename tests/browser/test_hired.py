"""Hired work: webhooks sent again, payments in doubt decided upon evidence, money by day, strangers' texts."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from piecework.worker.chain.networks import BASE
from tests.browser.axe import findings
from tests.browser.conftest import screen
from tests.browser.hired import EVENT, LARGE, in_doubt, owed_back

pytestmark = pytest.mark.slow
TREASURY = "0x" + "77" * 20
PHONE = {"width": 360, "height": 740}
ANN = {"Authorization": "Bearer ann-secret"}


@pytest.fixture
def doubt(console):
    """A contract whose payment is unresolved: the chain shows that it was taken."""
    return in_doubt(console.aws, console.facilitator)


@pytest.fixture
def door(console):
    """The same door, as another operator uses it."""
    with httpx.Client(base_url=console.url, headers=ANN, timeout=30) as client:
        yield client


def evidence_of(page):
    page.get_by_role("button", name="Ask the chain what it says").click()
    expect(page.get_by_role("heading", name="What each answer does")).to_be_visible()


def asked_whether_paid(open_console, doubt):
    """A page that shows the evidence and asks for the reason of "it was paid"."""
    page = open_console(f"/hired/{doubt}")
    evidence_of(page)
    page.get_by_role("button", name="It was paid…").click()
    return page


def test_a_payment_in_doubt_is_decided_upon_what_the_chain_shows(console, open_console, door, doubt):
    page = open_console("/hired?doubt=1")
    page.get_by_role("link", name=doubt).click()
    expect(page.get_by_role("heading", name="This payment is in doubt")).to_be_visible()
    assert page.get_by_role("button", name="It was paid…").count() == 0  # nobody decides before the evidence is seen
    evidence_of(page)

    shown = door.post(f"/ops/tasks/{doubt}/payment/evidence", json={}).json()
    section = page.get_by_role("region", name="This payment is in doubt")
    for whole in (shown["payer"], shown["pay_to"], shown["nonce"], shown["chain"]["paid_by"], shown["evidence"]):
        expect(section.get_by_text(whole, exact=True).first).to_be_visible()
    expect(section).to_contain_text(f"{shown['atomic']} atomic units")
    page.get_by_role("button", name="It was paid…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(shown["answers"]["paid"]["then"])
    expect(dialog).to_contain_text(shown["nonce"])
    expect(dialog.get_by_label("Transaction that paid")).to_have_value(shown["chain"]["paid_by"])
    assert dialog.get_by_label("The contract's id once more").count() == 0  # the chain shows it
    dialog.get_by_label("Reason").fill("the chain shows it")
    page.clock.install()
    dialog.get_by_role("button", name="It was paid").click()

    expect(page.get_by_role("heading", name=re.compile("COMPLETED.*settled"))).to_be_visible()
    expect(page.get_by_role("figure").filter(has_text="An operator's decision")).to_contain_text("the chain shows it")
    page.clock.run_for(60_000)
    news = page.locator("#toasts")
    expect(news).to_contain_text("The payment is settled, the task COMPLETED")
    news.get_by_role("button", name="Close").click()
    expect(news).to_be_empty()
    task = door.get(f"/ops/tasks/{doubt}").json()
    assert (task["state"], task["payment"], task["resolution"]["operator"]) == ("COMPLETED", "settled", "local")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_evidence_and_the_question_are_readable_for_all_and_fit_a_phone(console, open_console, theme):
    page = open_console(f"/hired/{console.seeded.contracts['doubt']}", color_scheme=theme)
    evidence_of(page)
    screen(page, f"evidence-{theme}")
    assert findings(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    page.get_by_role("button", name="It was not paid…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= PHONE["width"]
    page.set_viewport_size({"width": 1280, "height": 900})
    screen(page, f"decision-{theme}")
    assert findings(page) == []


def test_who_decides_what_the_chain_does_not_show_names_the_contract_once_more(open_console, door, doubt, watch):
    watch.allow("400")
    page = open_console(f"/hired/{doubt}")
    evidence_of(page)
    expect(page.get_by_text("✗ The chain does not show it.").first).to_be_visible()
    page.get_by_role("button", name="It was not paid…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("they gave the money back")
    dialog.get_by_label("The contract's id once more").fill("ctr_another")
    dialog.get_by_role("button", name="It was not paid").click()
    expect(dialog.get_by_role("alert")).to_contain_text("override must be the contract's id once more")

    dialog.get_by_label("The contract's id once more").fill(doubt)
    dialog.get_by_role("button", name="It was not paid").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", name=re.compile("Task.*UNPAID"))).to_be_visible()
    assert door.get(f"/ops/tasks/{doubt}").json()["resolution"]["by"] == "override"


def test_the_second_operator_is_told_who_was_faster_and_nothing_is_decided_twice(
    console, open_console, door, doubt, watch
):
    watch.allow("409")
    page = asked_whether_paid(open_console, doubt)
    shown = door.post(f"/ops/tasks/{doubt}/payment/evidence", json={}).json()
    word = {"decision": "paid", "transaction": shown["chain"]["paid_by"], "evidence": shown["evidence"]}
    assert door.post(f"/ops/tasks/{doubt}/payment/resolve", json={**word, "reason": "ann saw it"}).status_code == 200

    page.get_by_role("dialog").get_by_label("Reason").fill("I am late")
    page.get_by_role("dialog").get_by_role("button", name="It was paid").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("Nothing was decided by you: .*ann decided"))
    expect(page.get_by_role("heading", name=re.compile("COMPLETED.*settled"))).to_be_visible()
    assert door.get(f"/ops/tasks/{doubt}").json()["resolution"]["operator"] == "ann"


def test_evidence_that_is_another_by_now_decides_nothing_and_is_asked_for_again(
    console, open_console, door, doubt, watch
):
    watch.allow("409")
    page = asked_whether_paid(open_console, doubt)
    console.facilitator.say("rpc", "behind:90000")  # the node has another word now
    try:
        page.get_by_role("dialog").get_by_label("Reason").fill("as I saw it")
        page.get_by_role("dialog").get_by_role("button", name="It was paid").click()
        expect(page.get_by_role("alert")).to_contain_text(
            "Nothing was decided by you: the evidence is not what was shown"
        )
    finally:
        console.facilitator.say("rpc", "ok")

    expect(page.get_by_role("button", name="It was paid…")).to_have_count(0)  # not without a new look
    assert door.get(f"/ops/tasks/{doubt}").json()["payment"] == "unresolved"


def test_a_decision_whose_answer_is_lost_is_said_to_be_unknown(console, open_console, door, doubt, watch):
    watch.allow("ERR_FAILED")
    page = asked_whether_paid(open_console, doubt)
    page.route("**/payment/resolve", lambda route: (route.fetch(), route.abort()))
    page.get_by_role("dialog").get_by_label("Reason").fill("the answer will be lost")
    page.get_by_role("dialog").get_by_role("button", name="It was paid").click()

    expect(page.get_by_role("alert")).to_contain_text("It is not known whether the decision was made")
    expect(page.get_by_role("heading", name=re.compile("COMPLETED.*settled"))).to_be_visible()


@pytest.fixture
def owed(console, door):
    """What a task owes back, as its page shows it."""
    name = owed_back(console.aws, console.facilitator)
    [debt] = door.get(f"/ops/tasks/{name}").json()["debts"]
    return {**debt, "contract_id": name}


def send_back(console, debt, atomic=None):
    """A transfer by the operator's own hand."""
    return console.facilitator.ledger.send(BASE.usdc, TREASURY, debt["wallet"], atomic or int(debt["atomic"])).hash


def test_what_is_owed_back_was_paid_upon_what_the_chain_shows_and_the_second_is_told(
    console, open_console, door, owed, watch
):
    watch.allow("409")
    page = open_console(f"/hired/{owed['contract_id']}")
    debts = page.get_by_role("region", name="Debts").get_by_role("row").filter(has_text="5 USDC")
    expect(debts).to_contain_text("owed")
    debts.get_by_role("button", name="It was paid back…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Transaction of the transfer back").fill(send_back(console, owed, 4_999_999))
    dialog.get_by_role("button", name="Ask the chain what it says").click()
    expect(dialog.get_by_role("alert")).to_contain_text("it moved 4999999 of 5000000 atomic units")

    transaction = send_back(console, owed)
    dialog.get_by_label("Transaction of the transfer back").fill(transaction)
    dialog.get_by_role("button", name="Ask the chain what it says").click()
    expect(dialog).to_contain_text("✓ The chain shows it")
    for whole in (transaction, owed["wallet"], TREASURY, "5000000 atomic units"):
        expect(dialog).to_contain_text(whole)
    assert dialog.get_by_label("The contract's id once more").count() == 0
    assert findings(page) == []
    dialog.get_by_label("Reason").fill("sent from the treasury")
    dialog.get_by_role("button", name="It was paid back").click()

    expect(page.get_by_role("region", name="Debts")).to_contain_text("local: sent from the treasury")
    expect(page.get_by_role("button", name="It was paid back…")).to_have_count(0)
    expect(page.get_by_role("region", name="Moves")).to_contain_text("refunded")
    task = door.get(f"/ops/tasks/{owed['contract_id']}").json()
    assert (task["is_owed_back"], task["debts"][0]["refund"]["operator"]) == (False, "local")

    late = owed_back(console.aws, console.facilitator)
    page.goto(f"{console.url}/console/hired/money")
    row = page.get_by_role("region", name="Owed back, and fees").last.get_by_role("row").filter(has_text=late)
    row.get_by_role("button", name="It was paid back…").click()
    dialog.get_by_label("Transaction of the transfer back").fill(transaction)
    dialog.get_by_role("button", name="Ask the chain what it says").click()
    expect(dialog.get_by_role("alert")).to_contain_text(f"counts for a refund of {owed['contract_id']} already; local")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("owed")
    paid_back = page.get_by_role("region", name="Paid back").last.get_by_role("row").filter(has_text=transaction)
    expect(paid_back).to_contain_text("local: sent from the treasury")


def test_a_day_that_cannot_be_read_after_a_refund_was_said_says_so_until_it_is_read_again(
    console, open_console, owed, watch
):
    watch.allow("503")
    page = open_console("/hired/money")
    row = page.get_by_role("region", name="Owed back, and fees").last.get_by_role("row")
    row = row.filter(has_text=owed["contract_id"])
    row.get_by_role("button", name="It was paid back…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Transaction of the transfer back").fill(send_back(console, owed))
    dialog.get_by_role("button", name="Ask the chain what it says").click()
    dialog.get_by_label("Reason").fill("sent from the treasury")
    page.route("**/ops/ledger*", lambda route: route.fulfill(status=503, json={"error": "the work table is busy"}))
    dialog.get_by_role("button", name="It was paid back").click()

    failed = page.get_by_role("alert").filter(has_text="the work table is busy")
    expect(page.get_by_text("This is what was owed before:")).to_be_visible()
    page.unroute("**/ops/ledger*")
    failed.get_by_role("button", name="Try again").click()
    expect(failed).to_have_count(0)
    expect(row).to_contain_text("local: sent from the treasury")


def test_a_webhook_is_sent_again_with_a_reason(console, open_console, door):
    paid = console.seeded.contracts["paid"]
    page = open_console(f"/hired/{paid}")
    row = page.get_by_role("region", name="Webhooks").get_by_role("row").filter(has_text=EVENT)
    expect(row).to_contain_text("given_up")
    expect(row).to_contain_text("2: no answer")
    row.get_by_role("button", name="Send again…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("their server is back")
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()

    expect(page.get_by_text("It was given_up, and will be sent again")).to_be_visible()
    expect(row).to_contain_text("pending")
    [kept] = [one for one in door.get("/ops/records").json()["items"] if one["target"] == f"{paid}/{EVENT}"]
    assert (kept["by"], kept["reason"]) == ("local", "their server is back")


def test_what_a_contract_was_about_is_forgotten_and_its_money_stays(open_console, console, door):
    name = console.seeded.contracts["erased"]
    page = open_console(f"/hired/{name}")
    page.get_by_role("button", name="Forget what it was about…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the seeker asked for it")
    page.get_by_role("dialog").get_by_role("button", name="Erase for good").click()

    expect(page.get_by_text(re.compile("was forgotten .* by you"))).to_be_visible()
    expect(page.get_by_role("region", name="Moves")).to_contain_text("5 USDC")
    assert door.get(f"/ops/tasks/{name}").json()["forgotten"]["complete"] is True


def test_the_picture_says_where_a_task_stands_and_may_go(console, open_console):
    page = open_console(f"/hired/{console.seeded.contracts['failed']}")
    picture = page.get_by_role(
        "img", name=re.compile("It stands in FAILED_TRANSIENT: .* it may go to EXECUTING, TIMED_OUT")
    )

    expect(picture).to_be_visible()
    expect(picture.locator(".state.at")).to_have_attribute("data-state", "FAILED_TRANSIENT")
    assert set(picture.locator(".state.next").evaluate_all("all => all.map(one => one.dataset.state)")) == {
        "EXECUTING",
        "TIMED_OUT",
    }


def test_money_of_a_day_is_exact_by_network_and_says_whether_it_is_all(console, open_console, door):
    page = open_console("/hired/money")
    day = door.get("/ops/ledger").json()
    owed = int(day["totals_atomic"]["eip155:8453"]["refund_due"])
    others = [row for row in day["owed"] if row["debt"] and row["contract_id"] != console.seeded.contracts["hostile"]]
    # no number of JavaScript is this sum
    assert owed - sum(int(row["atomic"]) for row in others) == LARGE + LARGE - 1 > 2**53
    row = page.get_by_role("region", name="Sums by network").get_by_role("row").filter(has_text="eip155:8453")
    whole = f"{owed // 10**6:,}".replace(",", "\u202f") + f".{owed % 10**6:06d}".rstrip("0")
    expect(row).to_contain_text(f"{whole} USDC")
    expect(page.get_by_text(re.compile("This is all|It is not known whether this is all")).first).to_be_visible()
    expect(page.get_by_role("region", name="At risk now")).to_contain_text(
        re.compile(r"\b(1 waits|(?!1 )\d+ wait) for an operator")
    )

    page.get_by_label("Day (UTC)").fill("2026-01-02")
    expect(page.get_by_role("heading", name="2026-01-02")).to_be_visible()
    assert page.url.endswith("?day=2026-01-02")
    page.go_back()
    expect(page.get_by_role("heading", name=day["day"])).to_be_visible()


def test_what_strangers_write_at_the_worker_door_is_text(console, open_console):
    name = console.seeded.contracts["hostile"]
    page = open_console(f"/hired/{name}")
    for region in ("Failure", "Payment", "Moves", "Webhooks"):
        expect(page.get_by_role("region", name=region, exact=True).first).to_contain_text("<img src=x")
    for view in (f"/hired/{name}", "/hired", "/hired/money", "/now", "/operations"):
        page.goto(f"{console.url}/console{view}")
        page.locator("#main h1").wait_for()
        page.wait_for_load_state("networkidle")
        assert page.locator("#main img, #main script, #main iframe").count() == 0
        assert "document" not in page.title()


def test_a_viewer_sees_all_of_it_without_a_button(console, sign_in, watch):
    watch.allow("404")  # the signed contract has no task
    contracts = console.seeded.contracts
    page = sign_in("vic-secret", f"/hired/{contracts['doubt']}")
    expect(page.get_by_text("An operator can ask the chain, and decide.")).to_be_visible()
    for name in ("doubt", "paid", "signed"):
        page.goto(f"{console.url}/console/hired/{contracts[name]}")
        page.get_by_label("Token").fill("vic-secret")
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        page.locator("#main h1").wait_for()
        assert page.get_by_role("button", name=re.compile("Ask the chain|Send again|Forget|It was")).count() == 0


def test_hired_work_is_found_filtered_and_kept_in_the_address(console, open_console, watch):
    contracts = console.seeded.contracts
    page = open_console("/hired")
    page.get_by_label("Payment").select_option("unresolved")
    expect(page.get_by_role("link", name=contracts["doubt"])).to_be_visible()
    expect(page.get_by_role("link", name=contracts["paid"])).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Payment")).to_have_value("unresolved")
    page.get_by_label("Only in doubt").check()
    expect(page.get_by_role("link", name=contracts["doubt"])).to_be_visible()

    watch.allow("404")  # the contract has no task
    page.get_by_role("searchbox").fill(contracts["signed"])
    page.keyboard.press("Enter")
    expect(page.get_by_text("This contract has no task")).to_be_visible()
    page.get_by_role("link", name="Contracts", exact=True).click()
    expect(page.get_by_role("row").filter(has_text=contracts["signed"])).to_contain_text("SIGNED")
