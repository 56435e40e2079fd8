"""Commands for the operator's door."""

from piecework_cli.operations.commands import add as add
