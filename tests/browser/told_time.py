"""A page whose time passes as told, and which is only told to go on once all that it asked for is answered."""

from playwright.sync_api import Page

# Counts requests and bodies that the page's code waits for. A count ends a task later than its answer, so that the code
# that waited has run by then, and has begun what follows. Streams are not counted.
COUNTING = """(() => {
  let open = 0;
  const waiting = [];
  const later = (act) => {
    const { port1, port2 } = new MessageChannel();  // a task of the browser, whatever became of the page's timers
    port1.onmessage = () => (port1.close(), act());
    port2.postMessage(0);
  };
  const counted = (real, isCounted = () => true) => function (...given) {
    const answer = real.apply(this, given);
    if (!isCounted(...given)) return answer;
    open += 1;
    const end = () => later(() => (open -= 1) || waiting.splice(0).forEach((resolve) => resolve()));
    answer.then(end, end);
    return answer;
  };
  window.fetch = counted(window.fetch, (url) => !String(url.url ?? url).endsWith('/stream'));
  for (const name of ['json', 'text', 'arrayBuffer']) Response.prototype[name] = counted(Response.prototype[name]);
  window.answered = () => new Promise((resolve) => later(() => (open ? waiting.push(resolve) : resolve())));
})()"""


class ToldTime:
    """The clock of a page that is not opened yet. `stop`, and then time passes in `go_on` alone."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.add_init_script(COUNTING)
        page.clock.install()

    def stop(self) -> None:
        """From now on time passes only as told; what the page has asked for until then is answered."""
        self._page.clock.pause_at(self._page.evaluate("Date.now()") / 1_000 + 1)
        self.answered()

    def go_on(self, seconds: int, step: int = 1) -> None:
        """Let so much time pass, in steps after which all is answered that was asked for."""
        for _ in range(0, seconds, step):
            self.go_by(step)
            self.answered()

    def go_by(self, seconds: int) -> None:
        """Let so much time pass, whatever is not answered."""
        self._page.clock.run_for(seconds * 1_000)

    def answered(self) -> None:
        """Wait until every request is answered, and the page's code has taken the answers."""
        self._page.evaluate("answered()")


def hide(page: Page, is_hidden: bool = True) -> None:
    """The person looks at another tab, or comes back."""
    page.evaluate(
        """(isHidden) => {
          Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        is_hidden,
    )
