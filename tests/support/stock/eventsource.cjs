// A browser's EventSource, the stock one for Node: reads a stream to its end, however often it has to come back.
// Takes `url` as JSON from standard input; prints each event and connection as a line, and ends when the client stops.
// Packages come from the working directory's node_modules.
const { createRequire } = require("node:module");
const path = require("node:path");
const load = createRequire(path.join(process.cwd(), "reader.cjs"));

const { EventSource } = load("eventsource");
const KINDS = ["progress", "output", "item", "done", "error"];

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function noted(url, init) {
  const answer = await fetch(url, init);
  const headers = new Headers(init.headers);
  say({ connection: { lastId: headers.get("last-event-id"), status: answer.status } });
  return answer;
}

const order = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const source = new EventSource(order.url, { fetch: noted });
for (const kind of KINDS) {
  source.addEventListener(kind, (event) => {
    if (event.data !== undefined) say({ event: { id: event.lastEventId, kind, data: JSON.parse(event.data) } });
    if (source.readyState === EventSource.CLOSED) say({ ended: true });
  });
}
