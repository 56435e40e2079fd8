"""How the console's files come: few at a time, once, again where the door is busy; what is said where they do not."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.support.ops.console_files import needed

pytestmark = pytest.mark.slow
FILE = re.compile(r"/static/[0-9a-f]{16}/(.+)$")
AT_ONCE = 4  # of load.js
TRIES = 4


def without_waits(page):
    page.add_init_script("setTimeout = ((real) => (act, ms) => real(act, ms / 50))(setTimeout)")


class Network:
    """What a page asked for, and did not have in its cache."""

    def __init__(self, page):
        self.asked, self.cached, self.fetching, self.most = {}, set(), set(), 0
        listening = page.context.new_cdp_session(page)
        listening.send("Network.enable")
        listening.on("Network.requestWillBeSent", self._sent)
        listening.on("Network.requestServedFromCache", lambda event: self.cached.add(event["requestId"]))
        listening.on("Network.responseReceived", self._received)
        listening.on("Network.loadingFinished", lambda event: self.fetching.discard(event["requestId"]))

    def _sent(self, event):
        self.asked[event["requestId"]] = urlsplit(event["request"]["url"]).path
        if event["type"] == "Fetch" and FILE.search(self.asked[event["requestId"]]):
            self.fetching.add(event["requestId"])
        self.most = max(self.most, len(self.fetching))

    def _received(self, event):
        if event["response"].get("fromDiskCache"):
            self.cached.add(event["requestId"])

    def paths(self):
        """The paths since the last time, without those of the door."""
        found = [path for request, path in self.asked.items() if request not in self.cached]
        self.asked.clear(), self.cached.clear()
        return sorted(path for path in found if path.startswith("/console/") and path != "/console/session")


def test_a_first_view_asks_for_its_files_once_and_few_at_a_time_and_a_second_for_the_page_alone(console, new_context):
    page = new_context().new_page()
    network = Network(page)
    page.goto(console.link)
    expect(page.get_by_role("region", name="What came")).to_contain_text("in the last hour")
    first = network.paths()
    assert sorted(found[1] for path in first if (found := FILE.search(path))) == sorted(needed("now"))
    assert network.most == AT_ONCE

    page.get_by_role("link", name="Pieces", exact=True).click()
    expect(page.get_by_role("region", name="Pieces")).to_be_visible()
    assert network.paths() == []  # Now has them already
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    assert {FILE.search(path)[1] for path in network.paths()} == needed("operations") - needed("now") - needed("pieces")
    page.reload()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    assert network.paths() == ["/console/operations"]


@pytest.fixture
def failing(watch):
    """Lets one file fail so many times, and tells how often it was asked for."""
    watch.allow("429|503|404|ERR_")

    def let(page, name, times, **answer):
        asked = []

        def of_file(route):
            asked.append(route.request.url)
            if len(asked) > times:
                return route.continue_()
            return route.fulfill(body="{}", **answer) if answer else route.abort()

        without_waits(page)
        page.route(re.compile(rf"/static/\w+/{name}$"), of_file)
        return asked

    return let


@pytest.mark.parametrize("answer", [{"status": 429}, {"status": 503, "headers": {"Retry-After": "2"}}, {}])
@pytest.mark.parametrize("name", ["main.js", "render.js", "pages/operations.js", "console.css"])
def test_a_file_that_does_not_come_at_once_is_asked_for_again(open_console, console, failing, name, answer):
    page = open_console()
    asked = failing(page, name, TRIES - 1, **answer)
    page.goto(f"{console.url}/console/operations")

    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    expect(page.locator("h1")).to_have_css("font-size", "22px")  # of console.css
    assert len(asked) >= TRIES


def test_a_page_whose_file_does_not_come_says_so_and_tries_again_when_asked(open_console, failing):
    page = open_console()
    asked = failing(page, "pages/operations.js", TRIES, status=429)
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_role("alert")).to_contain_text("A file of the console did not come: the door answered 429.")
    assert len(asked) == TRIES

    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()


def test_a_console_whose_files_do_not_come_says_so_and_is_loaded_again_when_asked(open_console, console, failing):
    page = open_console()
    asked = failing(page, "render.js", TRIES)
    page.goto(f"{console.url}/console/operations")
    expect(page.get_by_role("alert")).to_have_text("A file of the console did not come: the door cannot be reached.")
    assert len(asked) == TRIES

    page.get_by_role("button", name="Load the page again").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()


@pytest.fixture
def stalling(open_console, watch):
    """A page for which the file of each view is asked for in vain so many times; it waits a second for an answer."""
    watch.allow("ERR_")

    def let(times):
        page = open_console()
        without_waits(page)
        page.add_init_script("AbortSignal.timeout = ((real) => (ms) => real(ms / 20))(AbortSignal.timeout)")
        page.reload()
        expect(page.locator("#main h1")).to_be_visible()
        asked = []

        def of_view(route):
            name = FILE.search(urlsplit(route.request.url).path)[1]
            asked.append(name)
            if asked.count(name) > times:
                route.continue_()  # else no answer ever comes

        page.route(re.compile(r"/static/\w+/pages/"), of_view)  # and not what they import: that would be told of next
        return page, asked

    return let


def test_a_file_whose_answer_never_comes_is_asked_for_again_and_told_of(stalling):
    page, asked = stalling(TRIES)
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_role("alert")).to_contain_text("A file of the console did not come: the door cannot be reached.")
    assert asked.count("pages/operations.js") == TRIES

    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()


def test_files_that_never_come_keep_no_later_view_from_coming(stalling):
    page, _ = stalling(1)
    for name in ("Executions", "Hired work", "Policy", "Agents"):  # as many as may be under way at once
        page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#main")).to_have_attribute("aria-busy", "true")
    page.get_by_role("link", name="Operations").click()

    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()


def test_a_file_of_an_older_release_is_not_waited_for_and_the_page_is_loaded_anew(open_console, failing):
    page = open_console()
    asked = failing(page, "pages/operations.js", 1, status=404)
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_role("alert")).to_contain_text("The console was updated. Load the page again.")
    assert len(asked) == 1

    with page.expect_navigation():
        page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
