"""Run by the Python of SAM's environment: the SAM transform, offline, as CloudFormation would do it at a deployment.

    .venv-sam/bin/python tests/support/sam_transform.py < {"template": {…}, "parameters": [{"OpenKernel": "true"}, {}]}

Standard input is a template without loops and a list of parameter sets; standard output the list of transformed
templates. Code and layers are taken for uploaded: where they lie does not matter to what is tested.
"""

import copy
import json
import logging
import sys
from typing import Any

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

UPLOADED = "s3://uploaded/file.zip"


def transformed(source: dict[str, Any], parameters: dict[str, str]) -> Any:
    """The template after the transform."""
    template = copy.deepcopy(source)
    template["Globals"]["Function"]["CodeUri"] = UPLOADED
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            resource["Properties"]["ContentUri"] = UPLOADED
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name="us-east-1"))
    return translator.translate(template, parameters)


def main() -> None:
    """Transform once for each set of parameters."""
    logging.disable(logging.CRITICAL)
    given = json.load(sys.stdin)
    json.dump([transformed(given["template"], parameters) for parameters in given["parameters"]], sys.stdout)


if __name__ == "__main__":
    main()
