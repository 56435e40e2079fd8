"""Run by the Python of ministack's environment: loops as an emulator writes them out that was measured against AWS.

.venv-ministack/bin/python tests/support/ministack_loops.py < template.json
"""

import json
import sys

from ministack.services.cloudformation.language_extensions import apply


def main() -> None:
    """Write the template without its loops to standard output."""
    template = json.load(sys.stdin)
    parameters = {name: body.get("Default", "") for name, body in template["Parameters"].items()}
    json.dump(apply(template, parameters), sys.stdout)


if __name__ == "__main__":
    main()
