"""One local operator's door with seeded data; a browser context for each test, which fails on any error of the console.

def test_something(open_console):
    page = open_console("/pieces")           # signed in by a link that works once
    expect(page.get_by_role("heading", name="Pieces")).to_be_visible()
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    expect,
    sync_playwright,
)

from local import aws
from local.facilitator.server import StubFacilitator
from local.gateway.lambdas.variables import ROOT
from local.gateway.sessions import LINK, ONCE, SECRET
from local.template import Template
from tests.browser.chromium import LEFT_OUT, REQUIRED, find_chromium
from tests.browser.kernel import KernelDoor, policy_in, start_kernel
from tests.browser.seeds import Seeded, seed
from tests.support.machine import Aws, Gateways, RunningGateway
from tests.support.worker.stage import stub_facilitator

DOORS = {"DeployWorkerDoor": "true", "DeployKernelDoor": "true", "DeployConsole": "true"}
TOKENS = "local=local-secret,ann=ann-secret,vic=vic-secret,bob=bob-secret"
ROLES = "local=operator+approver+viewer,ann=operator,vic=viewer,bob=approver"
FIRST_LINK = "the-first-link"
SCREENS = ROOT / "build/screens"
NEXT_LINK = re.compile(r"the next browser signs in at (\S+)")
WAIT_MS = 10_000
expect.set_options(timeout=WAIT_MS)  # what is waited for may take long on a crowded machine


@dataclass
class Console:
    """A local operator's door that a browser can be signed in at."""

    running: RunningGateway
    aws: Aws
    seeded: Seeded
    facilitator: StubFacilitator
    gateways: Gateways
    runtime: RunningGateway

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def link(self) -> str:
        """The link that signs in the next browser."""
        used = NEXT_LINK.findall(self.running.logged())
        return used[-1] if used else LINK.format(url=self.url, token=FIRST_LINK)


@dataclass
class Watch:
    """What must not happen while a test runs; a test names what it causes on purpose."""

    url: str
    allowed: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", lambda error: self.seen.append(f"uncaught: {error.error}"))
        context.on("request", self._request)

    def allow(self, pattern: str) -> None:
        """Expect errors of this form, such as the browser's line about an answer of 401."""
        self.allowed.append(pattern)

    def problems(self) -> list[str]:
        return [text for text in self.seen if not any(re.search(pattern, text) for pattern in self.allowed)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.seen.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.seen.append(f"a request to another host: {request.url}")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium; without it the tests are left out, or fail where they are required."""
    found = find_chromium()
    if found is None and os.environ.get(REQUIRED) == "required":
        pytest.fail(LEFT_OUT)
    if found is None:
        pytest.skip(LEFT_OUT)
    return found


@pytest.fixture(scope="session")
def console(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The door, over an embedded AWS of its own with seeded data."""
    template = Template.load(ROOT / "template.yaml", DOORS)
    with aws.embedded_aws() as endpoint, stub_facilitator() as facilitator:
        aws.provision(template, endpoint)
        emulated = Aws(endpoint, template)
        gateways = Gateways(emulated, tmp_path_factory.mktemp("browser"))
        try:
            runtime = gateways(PIECEWORK_PARAM_DeployConsole="true")  # its verdicts are read from its log
            seeded = seed(runtime, emulated, facilitator)
            parameters = {f"PIECEWORK_PARAM_{name}": value for name, value in DOORS.items()}
            own = {"PIECEWORK_OPS_TOKENS": TOKENS, "PIECEWORK_OPS_TOKEN_ROLES": ROLES}
            own |= {"FACILITATOR_URL": facilitator.url, "BASE_RPC_URL": facilitator.rpc_url}
            link = {ONCE: FIRST_LINK, SECRET: "local-secret"}
            policy = {"PIECEWORK_POLICY": str(policy_in(gateways.folder))}
            running = gateways(api="ConsoleApi", **parameters, **own, **link, **policy)
            yield Console(running, emulated, seeded, facilitator, gateways, runtime)
        finally:
            gateways.close()


@pytest.fixture(scope="session")
def kernel(console: Console) -> KernelDoor:
    """A kernel door over the same AWS, which starts when a test first needs it."""
    return start_kernel(console.gateways, console.gateways.folder, DOORS)


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium; of a module, because its loop would stand in the way of other tests' loops."""
    with sync_playwright() as playwright:
        launched = _launch(playwright, chromium)
        yield launched
        launched.close()


@pytest.fixture
def watch(console: Console) -> Iterator[Watch]:
    """Fails the test at its end for whatever it did not allow."""
    watching = Watch(console.url)
    yield watching
    assert watching.problems() == []


@pytest.fixture
def new_context(browser: Browser, watch: Watch) -> Iterator[Callable[..., BrowserContext]]:
    """Makes watched contexts: new_context(color_scheme="dark", viewport=…)."""
    made: list[BrowserContext] = []

    def make(**options: object) -> BrowserContext:
        context = browser.new_context(**options)
        context.set_default_timeout(WAIT_MS)
        watch.follow(context)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture
def open_console(console: Console, new_context: Callable[..., BrowserContext]) -> Callable[..., Page]:
    """Opens a view in a signed-in browser: open_console("/pieces", color_scheme="dark")."""

    def open_it(path: str = "/now", **options: object) -> Page:
        page = new_context(**options).new_page()
        page.goto(console.link)
        page.locator("#main h1").wait_for()
        if path != "/now":
            page.goto(f"{console.url}/console{path}")
            page.locator("#main h1").wait_for()
        return page

    return open_it


@pytest.fixture
def sign_in(console: Console, new_context: Callable[..., BrowserContext], watch: Watch) -> Callable[..., Page]:
    """Opens a view and pastes a token: sign_in("ann-secret", "/pieces")."""
    watch.allow("401")

    def with_token(token: str, path: str = "/now", **options: object) -> Page:
        page = new_context(**options).new_page()
        page.goto(f"{console.url}/console{path}")
        page.get_by_label("Token").fill(token)
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        return page

    return with_token


@pytest.fixture
def resumes(console: Console) -> Iterator[None]:
    """What the test pauses gets work again at its end, however that comes."""
    yield
    with httpx.Client(base_url=console.url, headers={"Authorization": "Bearer ann-secret"}, timeout=30) as door:
        standing = door.get("/ops/status").raise_for_status().json()
        for scope in [one["scope"] for one in [*standing["paused"], *standing["paused_agents"]]]:
            kind, _, name = scope.partition(":")
            which = {"agent_id": name} if kind == "agent" else {"scope": scope}
            path = "/ops/kernel/agents/resume" if kind == "agent" else "/ops/resume"
            door.post(path, json={**which, "reason": "the test has ended"}).raise_for_status()


def _launch(playwright: Playwright, executable: str) -> Browser:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
    return playwright.chromium.launch(executable_path=executable, args=arguments)


def escape_and(page: Page, key: str) -> None:
    """Press Escape in the open dialog and a key at once: before the browser tells that the dialog is closed."""
    page.evaluate(
        """() => addEventListener("close", (event) => {
            event.stopImmediatePropagation();
            setTimeout(() => event.target.dispatchEvent(new Event("close")), 500);
        }, { capture: true, once: true })"""
    )
    page.keyboard.press("Escape")
    page.keyboard.press(key)


def screen(page: Page, name: str) -> Path:
    """A picture of the whole page, in build/screens."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}.png", full_page=True)
    return SCREENS / f"{name}.png"
