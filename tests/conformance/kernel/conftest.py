"""The kernel's cases run over stores in memory, and in `make test-all` over DynamoDB on the embedded AWS as well."""

import pytest

from tests.support.kernel import stage as kernel_stage
from tests.support.kernel.tables import new_tables


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.slow)])
def stored(request, monkeypatch):
    """Where what a test's kernels keep is stored."""
    if request.param == "dynamodb":
        aws = request.getfixturevalue("embedded_aws")
        monkeypatch.setattr(kernel_stage, "new_store", lambda clock, rules: new_tables(aws, clock, rules))
    return request.param
