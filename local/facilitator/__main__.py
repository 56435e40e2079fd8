"""Run the stub facilitator: `python -m local.facilitator --port 8791`."""

import argparse
import contextlib

from local.facilitator.server import serve


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="A facilitator that checks signatures and fails on demand")
    parser.add_argument("--port", type=int, default=8791)
    with contextlib.suppress(KeyboardInterrupt):
        serve(parser.parse_args().port)


if __name__ == "__main__":
    main()
