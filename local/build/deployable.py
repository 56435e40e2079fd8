"""`python -m local.build.deployable TEMPLATE`: write the loops of a built template out, in place, as it is deployed.

CloudFormation could do that, too. But its language extensions put the parameters' values into the template that
everybody reads who may read the stack, a parameter with NoEcho like any other, and an update with the previous template
then keeps the old values. A template without loops does not need them.
"""

import sys
from pathlib import Path

import yaml

from local.loops import TemplateError
from local.template import read


def write_out(path: Path) -> None:
    """Replace the file by the same template without loops.

    Raises:
        TemplateError: a loop cannot be written out.
    """
    text = yaml.safe_dump(dict(read(path)), sort_keys=False, allow_unicode=True, width=120)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Write the named template out; returns the exit status."""
    try:
        write_out(Path(sys.argv[1]))
    except TemplateError as error:
        print(f"the template cannot be deployed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
