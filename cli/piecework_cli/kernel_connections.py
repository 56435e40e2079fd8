"""`piecework agents` and `piecework runners`: who is connected to the kernel door; agents are paused and resumed."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from piecework_cli.kernel import KernelClient, add_kernel_options, query
from piecework_cli.output import printable, show

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add(commands: "Commands") -> None:
    """Add both groups to the command line."""
    for name, told, run in (
        ("agents", "list the agents of the kernel door, their consumers and what waits for them", list_agents),
        ("runners", "list the runners of the kernel door, their jobs and the tools that they offer", list_runners),
    ):
        parser = commands.add_parser(name, help=told)
        add_kernel_options(parser)
        group = parser.add_subparsers(required=True, metavar="ACTION")
        listing = group.add_parser("ls", help="one line for each, and one for each of its connections")
        listing.add_argument("--json", action="store_true", help="print one JSON object per line, as the door tells it")
        listing.set_defaults(run=run)
        if name == "agents":
            _add_verbs(group)


def _add_verbs(group: "Commands") -> None:
    for verb, told in (
        ("pause", "give an agent no new executions: creates get 503, what runs goes on"),
        ("resume", "give an agent executions again"),
    ):
        telling = group.add_parser(verb, help=told)
        telling.add_argument("agent", help="the agent's id")
        telling.add_argument("--reason", required=True, help="why; it is kept and listed")
        telling.set_defaults(run=tell, verb=verb)


def tell(options: argparse.Namespace) -> None:
    """Pause or resume an agent, and print its last pause."""
    path = f"/v0/agents/{quote(options.agent, safe='')}/{options.verb}"
    show(KernelClient.of(options).ask("POST", path, {"reason": options.reason}))


def list_agents(options: argparse.Namespace) -> None:
    """Print each agent, its consumers, and what they work on."""
    for agent in _all(options, "agents"):
        waiting = f"{agent['waiting']}{'+' if agent['more_waiting'] else ''} waiting"
        hosted = f"  hosted{_work(agent['hosted'])}" if agent["hosted"] else ""
        print(printable(f"{agent['agent_id']}  {waiting}{hosted}{_pause(agent.get('pause'))}"))
        for consumer in agent["consumers"]:
            print(printable(f"  {_connection(consumer)}{_work(consumer)}"))
        _print_more(agent["more_consumers"])


def list_runners(options: argparse.Namespace) -> None:
    """Print each runner, its connections, and the job in the hand of each."""
    for runner in _all(options, "runners"):
        print(printable(runner["runner_id"]))
        for connection in runner["connections"]:
            job = connection["job"]
            hand = f"{job['tool_id'] or 'a step that is gone'} of {job['execution_id']}" if job else "idle"
            tools = ",".join(connection["tools"]) + (",…" if connection["more_tools"] else "")
            print(printable(f"  {_connection(connection)}  {hand}  offers {tools or 'nothing'}"))
        _print_more(runner["more_connections"])


def _all(options: argparse.Namespace, what: str) -> Iterator[dict[str, Any]]:
    """Everybody of all pages; with `--json` they are printed, and nothing is left to do."""
    kernel, cursor = KernelClient.of(options), ""
    while True:
        page = kernel.ask("GET", f"/v0/{what}{query({'cursor': cursor})}")
        for one in page[what]:
            if options.json:
                print(json.dumps(one))
            else:
                yield one
        if not (cursor := page["next_cursor"]):
            return


def _connection(one: dict[str, Any]) -> str:
    state = "connected" if one["connected"] else "away"
    return f"{one['consumer_id']}  {state}  since {one['since'] or 'unknown'}  until {one['lease_until']}"


def _pause(pause: dict[str, Any] | None) -> str:
    """That an agent is paused; a door of an earlier release does not tell."""
    if pause is None or pause["resumed_at"]:
        return ""
    return f"  paused since {pause['at']} by {pause['by'] or 'somebody'}: {pause['reason']}"


def _work(one: dict[str, Any]) -> str:
    shown = [*one["executions"], *(["…"] if one["more_executions"] else [])]
    return f"  {' '.join(shown)}" if shown else ""


def _print_more(is_more: bool) -> None:
    if is_more:
        print("  …")
