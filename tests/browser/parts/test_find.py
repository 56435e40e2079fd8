"""Search by any id: straight to what has it, or where it was looked for and what cannot be searched."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings

pytestmark = pytest.mark.slow
TIME = 1_790_000_000_000
NOTHING = {"items": [], "looked": []}


def searched(page, wanted):
    page.get_by_role("searchbox").fill(wanted)
    page.keyboard.press("Enter")


def item(kind, by, id_="x", of=None):
    return {"kind": kind, "by": by, "id": id_, "of": of, "at_ms": None, "is_whole": True}


def looked(kind, by, since_ms=None):
    return {"kind": kind, "by": by, "since_ms": since_ms}


@pytest.fixture
def told(open_console):
    """A page whose doors answer searches as the test says; the queries of each search are kept."""
    page, asked = open_console("/find"), []

    def tell(*, ours=NOTHING, kernel=NOTHING, status=200):
        def answer(route):
            is_kernel = "/ops/kernel/" in route.request.url
            asked.append(route.request.url.partition("?")[2])
            given = kernel if is_kernel else ours
            made = given(len(asked)) if callable(given) else given
            route.fulfill(status=status if is_kernel else 200, json=made)

        page.route(re.compile(r"/ops/(kernel/)?find\?"), answer)
        return asked

    return page, tell


def test_every_id_leads_straight_to_what_has_it(console, open_console, kernel):
    work = kernel.asks("pay.find", {"cents": 2}, agent_id="finding desk")
    contract = console.seeded.contracts["paid"]
    page = open_console("/hired/" + contract)
    nonce = page.locator("dd", has=page.get_by_role("button", name="Copy the nonce")).locator("code").inner_text()
    whole = console.seeded.keys["whole"]
    page.goto(f"{console.url}/console/pieces/{whole}")
    attempt = page.locator("dd", has=page.get_by_role("button", name="Copy attempt_id")).locator("code").inner_text()

    with kernel.runner("finding-box", [{"id": "look", "description": "looks", "input_schema": {"type": "object"}}]):
        for wanted, path in {
            work.id: f"/executions/{work.id}",
            work.step_id: f"/inbox/{work.id}/{work.step_id}",
            "finding desk": "/agents?agent=finding+desk",
            "finding-box": "/agents?show=runners&runner=finding-box",
            whole: f"/pieces/{whole}",
            attempt: f"/pieces/{whole}",
            contract: f"/hired/{contract}",
            nonce.upper().replace("0X", "0x"): f"/hired/{contract}",
        }.items():
            searched(page, wanted)
            expect(page).to_have_url(f"{console.url}/console{path}")
        searched(page, "finding-box")
        expect(page.get_by_role("article", name="Runner finding-box")).to_be_visible()
        expect(page.get_by_role("article")).to_have_count(1)


def test_a_record_that_is_found_is_shown_in_the_list_of_its_time(console, open_console):
    ann = {"Authorization": "Bearer ann-secret"}
    with httpx.Client(base_url=console.url, headers=ann, timeout=30) as door:
        for scope in ("executor:first", "executor:later"):
            door.post("/ops/pause", json={"scope": scope, "reason": "for a search"}).raise_for_status()
            door.post("/ops/resume", json={"scope": scope, "reason": "for a search"}).raise_for_status()
        records = door.get("/ops/records").json()["items"]
    first = next(one for one in records if (one["verb"], one["target"]) == ("pause", "executor:first"))
    page = open_console(f"/find?q={first['record_id']}")
    page.get_by_role("link", name=first["record_id"]).click()

    rows = page.get_by_role("region", name="What operators did").locator("tbody tr")
    expect(rows.first).to_contain_text("executor:first")
    page.get_by_role("link", name="The newest").click()
    expect(rows.filter(has_text="executor:later").first).to_be_visible()


def test_several_things_of_one_id_are_links_with_their_kinds(told, console):
    page, tell = told
    tell(
        ours={"items": [item("piece", "execution_id", "a" * 64)], "looked": []},
        kernel={
            "items": [item("execution", "execution_id", "e-1"), item("step", "step_id", "s-1", "e-1")],
            "looked": [],
        },
    )
    searched(page, "e-1")

    table = page.get_by_role("region", name="What has this id")
    expect(table.get_by_role("link")).to_have_count(3)
    addresses = [link.get_attribute("href") for link in table.get_by_role("link").all()]
    assert addresses == [f"/console/pieces/{'a' * 64}", "/console/executions/e-1", "/console/executions/e-1?step=s-1"]
    assert [row.split("\t")[0] for row in table.get_by_role("row").all_inner_texts()[1:]] == [
        "Piece",
        "Execution",
        "Step",
    ]


def test_what_has_the_beginning_of_a_long_id_is_offered_and_not_gone_to(told, console):
    page, tell = told
    tell(ours={"items": [item("piece", "execution_id", "a" * 64) | {"is_whole": False}], "looked": []})
    searched(page, "e" * 90)

    row = page.get_by_role("region", name="What has this id").locator("tbody tr")
    expect(row).to_contain_text("the beginning of the execution's id: lists keep 77 bytes of a long id")
    assert page.url == f"{console.url}/console/find?q={'e' * 90}"


def test_a_text_that_is_too_long_for_an_id_is_refused_and_not_cut(console, open_console, watch):
    watch.allow("400")
    page = open_console("/now")
    searched(page, "e" * 600)

    expect(page.get_by_text("id is over 512 characters").first).to_be_visible()
    assert page.url == f"{console.url}/console/find?q={'e' * 600}"


def test_where_nothing_is_found_it_is_said_how_far_was_looked_and_what_cannot_be_searched(told):
    page, tell = told
    asked = tell(
        ours=lambda count: {"items": [], "looked": [looked("piece", "task_id", TIME - count), looked("piece", "key")]},
        kernel={"items": [], "looked": [looked("execution", "execution_id")]},
    )
    searched(page, "nothing has this")

    expect(page.get_by_text("Nothing that was looked at has this id")).to_be_visible()
    rows = page.get_by_role("region", name="Kinds that were looked at").get_by_role("row").all_inner_texts()
    assert [row.split("\t")[0] for row in rows[1:]] == ["Piece", "Piece", "Execution"]
    assert rows[2].endswith("all that is kept") and "2026-" in rows[1]
    for kind in ("Verdicts", "Dead letters", "Evidence by its digest", "Ids of sessions"):
        expect(page.get_by_role("region", name="What cannot be searched here")).to_contain_text(kind)
    assert findings(page) == []
    befores = [re.findall(r"until_ms=(\d+)", query) for query in asked]
    assert len(asked) == 8 and befores[:2] == [[], []] and all(befores[2:])  # each further back than the one before

    page.get_by_role("button", name="Look further back").click()
    expect(page.get_by_role("button", name="Look further back")).to_be_visible()
    assert len(asked) == 16 and len({query for query in asked if query.startswith("id")}) > 4


@pytest.mark.parametrize(
    ("status", "said"),
    [(404, "the kernel door: it is not deployed."), (403, "the kernel door: your roles do not cover it.")],
)
def test_a_door_that_cannot_be_asked_is_named(told, watch, status, said):
    watch.allow(str(status))
    page, tell = told
    tell(kernel={"error": "no", "code": "x"}, status=status)
    searched(page, "nothing")

    expect(page.get_by_text(f"Not at {said}")).to_be_visible()


def test_one_thing_is_not_gone_to_while_a_door_has_not_answered(told, watch):
    watch.allow("409")
    page, tell = told
    tell(
        ours={"items": [item("piece", "key", "a" * 64)], "looked": []},
        kernel={"error": "broken", "code": "x"},
        status=409,
    )
    searched(page, "a" * 64)

    expect(page.get_by_role("alert")).to_contain_text("broken")
    expect(page.get_by_role("region", name="What has this id").get_by_role("link")).to_be_visible()


def test_a_text_that_is_no_id_is_refused_in_the_doors_words(open_console, watch):
    watch.allow("400")
    page = open_console("/find?q=a%07b")

    expect(page.get_by_role("alert").first).to_contain_text("id must be a text of 1 to 512 bytes")
