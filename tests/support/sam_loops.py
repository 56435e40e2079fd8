"""Run by the Python of SAM's environment: the loops of a template as SAM's own language extensions write them out.

.venv-sam/bin/python tests/support/sam_loops.py template.yaml
"""

import json
import logging
import sys

from samcli.lib.cfn_language_extensions import TemplateProcessingContext
from samcli.lib.cfn_language_extensions.processors import ForEachProcessor
from samcli.yamlhelper import yaml_parse


def main() -> None:
    """Write the template without its loops to standard output; parameters stay references."""
    logging.disable(logging.CRITICAL)
    with open(sys.argv[1], encoding="utf-8") as file:
        context = TemplateProcessingContext(fragment=yaml_parse(file.read()))
    ForEachProcessor().process_template(context)
    json.dump(context.fragment, sys.stdout)


if __name__ == "__main__":
    main()
