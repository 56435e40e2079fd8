"""Which files of the console a view needs: its module and all that it imports, and what the page itself names."""

import re
from posixpath import dirname, join, normpath

from local.gateway.lambdas.variables import ROOT
from piecework.ops.console.files import read_files

STATIC = ROOT / "functions/ops/files/static"
OURS = read_files(STATIC)
IMPORTED = re.compile(r'^(?:import|export)\b[^;]*?"(\.{1,2}/[^"]+)";', re.MULTILINE)
PLACED = re.compile(r'\{static\}/([^"]+)"')


def imported(name, seen=()):
    """The module and all that it imports, each once."""
    if name in seen:
        return seen
    seen = (*seen, name)
    for other in IMPORTED.findall(OURS[name].decode()):
        seen = imported(normpath(join(dirname(name), other)), seen)
    return seen


def needed(view=None):
    """The files of a first view, the page itself not counted; of the frame alone without a view."""
    placed = PLACED.findall(OURS["index.html"].decode())
    return {*placed, *imported("main.js"), *(imported(f"pages/{view}.js") if view else ())}
