"""Due times in DynamoDB: rows of other versions hold up nobody, and no partition holds up another."""

import pytest

from piecework.aws.attributes import typed
from piecework.aws.due_table import DueTable, key_of
from piecework.aws.writes import at
from piecework.durable.due import SHARDS, Due
from tests.support.fakes import START_MS

KIND = "kind"


@pytest.fixture
def table(embedded_aws):
    name = embedded_aws.new_table("DueTable")
    made = DueTable(embedded_aws.client("dynamodb"), name)
    made.name = name
    return made


def test_a_row_that_cannot_be_read_is_left_and_the_others_are_met(table, embedded_aws):
    due = Due(START_MS, KIND, "one")
    table.put(due)
    for sort in ("000soon#one", "000000000000001", "0v2#000000001#one"):
        embedded_aws.client("dynamodb").put_item(
            TableName=table.name, Item={"pk": {"S": due.partition}, "sk": {"S": sort}}
        )
    embedded_aws.client("dynamodb").put_item(TableName=table.name, Item=typed(at(key_of(due)) | {"newer": "member"}))

    assert list(table.ripe(KIND, START_MS)) == [due]


def test_partitions_take_turns(table):
    crowded = Due(START_MS, KIND, "crowded")
    same = [f"id-{number}" for number in range(2_000)]
    alike = [name for name in same if Due(START_MS, KIND, name).partition == crowded.partition][:40]
    other = next(name for name in same if Due(START_MS, KIND, name).partition == f"{KIND}#{SHARDS - 1}")
    for name in alike:
        table.put(Due(START_MS - 1, KIND, name))
    if other not in alike:
        table.put(Due(START_MS, KIND, other))

    met = [due.id for due in table.ripe(KIND, START_MS)]

    assert sorted(met) == sorted({*alike, other})
    assert met.index(other) <= 10 or other in alike
