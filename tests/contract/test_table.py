"""The gateway to DynamoDB: every verb on the embedded AWS, also with every answer lost, and against what AWS says."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from piecework.aws.attributes import attribute, plain, typed
from piecework.aws.table import TRIES, Index, Table
from piecework.aws.through_botocore import BotocoreClients
from piecework.aws.transport.failures import NoAnswer, ServiceRefused
from piecework.aws.writes import ABSENT, ABSENT_OR_EXPIRED, PRESENT, Delete, Put, Update, new_write
from piecework.errors import RequestRejected, Unavailable
from tests.support.kernel.tables import Strict
from tests.support.lost_answers import LostAnswers

VALUES = {
    "text": "Zürich \x00 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "number": 2**63,
    "fraction": 0.25,
    "negative": -1,
    "yes": True,
    "no": False,
    "bytes": b"\x00\xff",
    "list": ["a", 1, b"b", [True]],
    "empty": [],
    "set": frozenset({"a", "b"}),
}


@pytest.fixture(scope="module", params=["dynamodb", "lost answers", "botocore"])
def client(request, embedded_aws):
    if request.param == "botocore":
        with pytest.MonkeyPatch.context() as patch:
            for name, value in embedded_aws.variables.items():
                patch.setenv(name, value)
            return Strict(BotocoreClients(embedded_aws.variables).dynamodb)
    strict = Strict(embedded_aws.client("dynamodb"))
    return LostAnswers(strict) if request.param == "lost answers" else strict


@pytest.fixture(scope="module")
def names(embedded_aws):
    """A table with indexes, and another one."""
    return embedded_aws.new_table("KernelTable"), embedded_aws.new_table("WorkTable")


@pytest.fixture
def table(client, names):
    return Table(client, names[0], "the test table", sleep=lambda seconds: None)


@pytest.fixture
def other(client, names):
    return Table(client, names[1], "the other table", sleep=lambda seconds: None)


@pytest.fixture
def pk() -> str:
    return uuid4().hex


@pytest.fixture
def key(pk):
    return pk, "row"


def row(key, **attributes):
    return {"pk": key[0], "sk": key[1], **attributes}


class TestEveryVerb:
    def test_a_row_comes_back_in_plain_values(self, table, key):
        assert table.get(*key) is None

        table.put(row(key, **VALUES))

        found = table.get(*key)
        assert found == row(key, **VALUES)
        assert {name: type(value) for name, value in found.items()} == {
            name: type(value) for name, value in row(key, **VALUES).items()
        }

    def test_rows_are_found_by_their_keys_however_many(self, table, pk):
        keys = [(pk, f"{number:03d}") for number in range(230)]
        table.put_all([row(each, number=each[1]) for each in keys[::2]])

        found = table.find([*keys, *keys])

        assert list(found) != [] and found == {each: row(each, number=each[1]) for each in keys[::2]}
        assert table.find(keys[:4], only="pk, sk", hint=True) == {each: row(each) for each in keys[:4:2]}
        assert table.find([]) == {}

    def test_rows_that_nothing_depends_on_are_removed_however_many(self, table, pk):
        keys = [(pk, f"{number:03d}") for number in range(60)]
        table.put_all([row(each) for each in keys])

        table.delete_all([*keys[:55], keys[0]])

        assert [each["sk"] for each in table.query(pk)] == ["055", "056", "057", "058", "059"]

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            ({}, "abcde"),
            ({"after": "b"}, "cde"),
            ({"before": "d"}, "abc"),
            ({"after": "a", "before": "d"}, "bc"),
            ({"after": "a", "before": "b"}, ""),
            ({"newest_first": True}, "edcba"),
            ({"newest_first": True, "before": "d"}, "cba"),
            ({"consistent": False}, "abcde"),
            ({"where": "even = :yes", "values": {"yes": True}}, "bd"),
            ({"where": "#even = :yes", "values": {"yes": True}, "after": "b"}, "d"),
            ({"only": "sk"}, "abcde"),
        ],
    )
    @pytest.mark.parametrize("page", [0, 1, 2, 100])
    def test_a_query_gives_what_lies_between_page_by_page(self, table, pk, bounds, expected, page):
        for number, sk in enumerate("abcde"):
            table.put(row((pk, sk), even=number % 2 == 1))

        assert "".join(each["sk"] for each in table.query(pk, page=page, **bounds)) == expected

    def test_a_query_goes_by_an_index(self, table, pk):
        for number in range(3):
            table.put(row((f"{pk}{number}", "META"), agent_id=pk, created_id=f"{number}"))
        by_agent = Index("ByAgent", "agent_id", "created_id")

        assert [each["created_id"] for each in table.query(pk, index=by_agent, newest_first=True, before="2")] == [
            "1",
            "0",
        ]

    def test_a_put_is_done_while_nothing_stands(self, table, key):
        assert table.put(row(key, write=new_write()), ABSENT).done
        assert table.put(row(key, write="later")).done
        assert table.get(*key)["write"] == "later"

    def test_a_put_that_another_was_faster_with_tells_what_stands(self, table, key):
        table.put(row(key, write="another's"), ABSENT)

        written = table.put(row(key, write=new_write()), ABSENT)

        assert not written.done and written.row == row(key, write="another's")

    def test_a_put_is_its_own_by_what_it_says_of_itself(self, table, key):
        ours = {"claim": "t1"}
        assert table.put(row(key, claim="t1"), ABSENT, ours=ours).done
        assert table.put(row(key, claim="t1"), ABSENT, ours=ours).done

        assert not table.put(row(key, claim="t2"), ABSENT, ours={"claim": "t2"}).done

    def test_the_same_row_of_another_is_not_our_own(self, embedded_aws, names, key):
        once = Table(embedded_aws.client("dynamodb"), names[0], "the test table")
        assert once.put(row(key, n=1), ABSENT).done

        assert not once.put(row(key, n=1), ABSENT).done

    def test_a_put_without_a_token_is_done_although_its_answer_was_lost(self, table, key):
        assert table.put(row(key, n=1), ABSENT).done
        assert table.get(*key) == row(key, n=1)

    def test_a_put_gives_what_it_replaced_when_asked(self, table, key):
        first, second = row(key, write="w1"), row(key, write="w2")
        assert table.put(first, returning=True).row in ({}, first)

        assert table.put(second, PRESENT).row == {}
        assert table.put(first, PRESENT, returning=True).row in (first, second)  # the former: an answer was lost

    def test_an_expired_row_counts_as_absent(self, table, key):
        table.put(row(key, write="w1", expires_at=10))

        assert not table.put(row(key, write="w2", expires_at=20), ABSENT_OR_EXPIRED, {"now_s": 9}).done
        assert table.put(row(key, write="w3", expires_at=20), ABSENT_OR_EXPIRED, {"now_s": 10}).done

    def test_an_update_is_done_once_and_gives_the_row_when_asked(self, table, key):
        table.put(row(key, state="open", n=1))
        values = {"open": "open", "closed": "closed", "n": 2}

        written = table.update(
            key, "SET #state = :closed, n = :n", values, "#state = :open", returning=True, ours={"n": 2}
        )

        assert written.done and written.row == row(key, state="closed", n=2)
        assert table.update(key, "SET n = :n", {"n": 3}).row == {}

    def test_an_update_whose_condition_fails_tells_what_stands(self, table, key):
        table.put(row(key, state="held", by="another"))
        values = {"free": "free", "held": "held", "me": "me"}

        written = table.update(key, "SET #state = :held, by = :me", values, "#state = :free")

        assert not written.done and written.row == row(key, state="held", by="another")
        assert table.get(*key)["by"] == "another"

    def test_an_update_that_moves_its_own_condition_is_done_although_its_answer_was_lost(self, table, key):
        table.put(row(key, job="j1"))

        assert table.update(key, "SET job = :none", {"none": "", "job": "j1"}, "job = :job").done
        assert table.get(*key) == row(key, job="")

    def test_an_update_that_adds_to_a_set_is_done_once(self, table, key):
        table.put(row(key, told=[]))
        values = {"one": ["x"], "writes": frozenset({"w"}), "write": "w"}
        update = "SET told = list_append(told, :one) ADD told_writes :writes"

        for _ in range(2):
            condition = "NOT contains(told_writes, :write)"
            assert table.update(key, update, values, condition, ours={"told_writes": "w"}).done
        assert table.get(*key)["told"] == ["x"]

    def test_an_update_of_what_is_not_there_is_not_done(self, table, key):
        written = table.update(key, "SET n = :n", {"n": 1}, PRESENT)

        assert not written.done and written.row == {} and table.get(*key) is None

    def test_attributes_may_have_any_name(self, table, key):
        table.update(key, "ADD #0 :0, #1 :1", {"0": 1, "1": 0.5}, names={"0": "=a b", "1": "=c.d"})
        table.update(key, "ADD #0 :0", {"0": 1}, names={"0": "=a b"})

        assert table.get(*key) == row(key, **{"=a b": 2, "=c.d": 0.5})

    def test_a_delete_is_done_once_and_not_when_its_condition_fails(self, table, key):
        table.put(row(key, n=1))

        refused = table.delete(key, "n = :n", {"n": 2})
        assert not refused.done and refused.row == row(key, n=1)
        assert table.delete(key, "n = :n", {"n": 1}).done
        assert table.get(*key) is None
        assert table.delete(key).done

    def test_a_transaction_writes_all_of_it_in_every_table(self, table, other, pk):
        stays, goes, made, there = ((pk, name) for name in ("stays", "goes", "made", "there"))
        table.put_all([row(stays, n=1), row(goes)])
        writes = [
            Put(row(made, write=new_write()), condition=ABSENT),
            Update(stays, "SET n = :two", condition="n = :one", values={"one": 1, "two": 2}),
            Delete(goes),
            Put(row(there), table=other.name),
        ]

        assert table.transact(writes) == []

        assert {each["sk"]: each.get("n") for each in table.query(pk)} == {"made": None, "stays": 2}
        assert other.get(*there) == row(there)

    def test_a_transaction_whose_condition_fails_writes_nothing_and_tells_which(self, table, pk):
        first, second = (pk, "first"), (pk, "second")
        table.put(row(second, write="another's"))
        writes = [Put(row(each, write="ours"), condition=ABSENT) for each in (first, second)]

        assert table.transact(writes) == [False, True]
        assert table.get(*first) is None

    def test_a_transaction_is_its_own_by_the_token_of_what_it_put(self, table, pk):
        first, second = (pk, "first"), (pk, "second")
        writes = [Put(row(first, write="w1"), condition=ABSENT), Put(row(second))]
        assert table.transact(writes) == [] == table.transact(writes)

        assert table.transact([Put(row(first, write="w2"), condition=ABSENT), Put(row(second))]) == [True, False]

    def test_one_write_is_no_transaction(self, table, key):
        assert table.transact([Put(row(key, write="w1"), condition=ABSENT)]) == []
        assert table.transact([Put(row(key, write="w2"), condition=ABSENT)]) == [True]
        assert table.transact([Delete(key)]) == []


class Says:
    """A client that gives its answers in turn, the last one for ever, and keeps what it was asked."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, dict[str, Any]]]()

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> dict[str, Any]:
            self.asked.append((name, given))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def failure(code: str, *, item: dict[str, Any] | None = None, tries: int = 0, **more: Any) -> ServiceRefused:
    """What DynamoDB answers, as the client raises it; `tries` is how often it had been sent before."""
    return ServiceRefused(code, "m", answer=more | ({"Item": typed(item)} if item is not None else {}), retries=tries)


def canceled(*codes: str, items: tuple[dict[str, Any] | None, ...] = ()) -> ServiceRefused:
    """A transaction that was refused, with the reason of each write."""
    rows = [*items, *([None] * len(codes))]
    reasons = [
        {"Code": code} | ({"Item": typed(item)} if item else {}) for code, item in zip(codes, rows, strict=False)
    ]
    return failure("TransactionCanceledException", CancellationReasons=reasons)


def says(*answers: dict[str, Any] | Exception) -> tuple[Table, Says, list[float]]:
    """A table on such a client, and the pauses that it made."""
    client, pauses = Says(*answers), list[float]()
    return Table(client, "t", "the test table", sleep=pauses.append), client, pauses  # type: ignore[arg-type]


KEY = ("p", "s")
ROW = row(KEY)
WRITES: dict[str, Callable[[Table], Any]] = {
    "put": lambda table: table.put(ROW, ABSENT).done,
    "update": lambda table: table.update(KEY, "SET n = :n", {"n": 1}, PRESENT).done,
    "delete": lambda table: table.delete(KEY, PRESENT).done,
    "transact one": lambda table: table.transact([Delete(KEY, condition=PRESENT)]) == [],
}
VERBS: dict[str, Callable[[Table], Any]] = {
    **WRITES,
    "get": lambda table: table.get(*KEY),
    "find": lambda table: table.find([KEY]),
    "hint": lambda table: table.find([KEY], hint=True),
    "query": lambda table: list(table.query("p")),
    "put all": lambda table: table.put_all([ROW]),
    "delete all": lambda table: table.delete_all([KEY]),
    "transact": lambda table: table.transact([Put(ROW), Delete(("p", "other"))]),
}
FAILED = "ConditionalCheckFailedException"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "code", ["ProvisionedThroughputExceededException", "ThrottlingException", "InternalServerError"]
)
def test_what_may_pass_is_said_with_the_name_of_the_table(verb, code):
    table, client, _ = says(failure(code))

    with pytest.raises(Unavailable, match="the test table is out of reach; try again"):
        VERBS[verb](table)
    assert len(client.asked) == 1  # the client itself has tried again before


@pytest.mark.parametrize("verb", VERBS)
def test_a_table_that_is_out_of_reach_says_so(verb):
    with pytest.raises(Unavailable, match="the test table"):
        VERBS[verb](says(NoAnswer("TimeoutError: nobody is there"))[0])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("code", ["ValidationException", "AccessDeniedException"])
def test_what_will_never_be_taken_is_no_time_out(verb, code):
    with pytest.raises(RequestRejected) as refused:
        VERBS[verb](says(failure(code))[0])
    assert not refused.value.retryable and "the test table" in refused.value.message


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_meets_a_transaction_is_sent_again_after_a_pause(verb):
    table, client, pauses = says(failure("TransactionConflictException"), failure("TransactionConflictException"), {})

    assert WRITES[verb](table)
    assert len(client.asked) == 3 and len(pauses) == 2 and all(0 <= pause <= 0.05 for pause in pauses)


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_always_meets_a_transaction_gives_up(verb):
    table, client, _ = says(failure("TransactionConflictException"))

    with pytest.raises(Unavailable, match="the test table is busy; try again"):
        WRITES[verb](table)
    assert len(client.asked) == TRIES


@pytest.mark.parametrize(
    ("verb", "landed", "differs"),
    [
        ("put", ROW, row(KEY, n=2)),
        ("update", row(KEY, n=1), row(KEY, n=2)),
        ("delete", None, ROW),
        ("transact one", None, ROW),
    ],
)
def test_only_a_repeat_recognises_the_row_that_its_first_try_left(verb, landed, differs):
    assert WRITES[verb](says(failure(FAILED, item=landed, tries=1))[0])
    assert not WRITES[verb](says(failure(FAILED, item=landed, tries=0))[0])
    assert not WRITES[verb](says(failure(FAILED, item=differs, tries=1))[0])


def test_a_repeat_that_met_a_transaction_first_still_recognises_its_first_try():
    met = failure("TransactionConflictException", tries=1)

    assert says(met, failure(FAILED, item=row(KEY, n=1)))[0].update(KEY, "SET n = :n", {"n": 1}, PRESENT).done


def test_what_says_of_itself_what_is_its_own_is_not_taken_for_anothers_that_looks_alike():
    anothers = failure(FAILED, item=row(KEY, claim="another", lease=5), tries=1)
    table = says(anothers)[0]

    written = table.update(
        KEY, "SET lease = :lease", {"lease": 5, "claim": "mine"}, "claim = :claim", ours={"claim": "mine"}
    )

    assert not written.done and written.row == row(KEY, claim="another", lease=5)
    assert not table.put(row(KEY, claim="another", lease=5, write="mine"), ABSENT).done


def test_a_transaction_that_meets_another_is_sent_again_unless_it_has_one_try():
    writes = [Put(ROW), Delete(("p", "other"))]
    table, client, pauses = says(canceled("None", "TransactionConflict"), canceled("ThrottlingError", "None"), {})
    assert table.transact(writes) == [] and len(client.asked) == 3 and len(pauses) == 2

    table, client, pauses = says(canceled("None", "TransactionConflict"))
    assert table.transact(writes, tries=1) == [False, False] and len(client.asked) == 1 and pauses == []

    with pytest.raises(Unavailable, match="the test table is busy; try again"):
        table.transact(writes)


def test_a_transaction_whose_condition_fails_is_not_sent_again():
    table, client, _ = says(canceled("TransactionConflict", "ConditionalCheckFailed"))

    assert table.transact([Put(ROW), Delete(("p", "other"), condition=PRESENT)]) == [False, True]
    assert len(client.asked) == 1


def test_a_transaction_recognises_its_own_row_wherever_it_stands():
    writes = [Put(ROW), Put(row(("p", "two"), write="w"), condition=ABSENT)]
    own, anothers = (row(("p", "two"), write=write) for write in ("w", "x"))

    assert says(canceled("None", "ConditionalCheckFailed", items=(None, own)))[0].transact(writes) == []
    assert says(canceled("None", "ConditionalCheckFailed", items=(None, anothers)))[0].transact(writes) == [False, True]


def test_a_transaction_that_is_refused_for_good_says_so():
    with pytest.raises(RequestRejected):
        says(canceled("None", "ValidationError"))[0].transact([Put(ROW), Delete(("p", "other"))])


def unprocessed(*keys: tuple[str, str]) -> dict[str, Any]:
    """A batch read that found nothing and left these over."""
    left = {"t": {"Keys": [typed(dict(zip(("pk", "sk"), key, strict=True))) for key in keys]}} if keys else {}
    return {"Responses": {}, "UnprocessedKeys": left}


def test_keys_that_a_batch_left_over_are_asked_for_again_and_alone():
    found = {"Responses": {"t": [typed(ROW)]}, "UnprocessedKeys": unprocessed(("p", "two"))["UnprocessedKeys"]}
    table, client, pauses = says(unprocessed(KEY, ("p", "two")), found, unprocessed())

    assert table.find([KEY, ("p", "two")]) == {KEY: ROW}
    asked = [len(given["RequestItems"]["t"]["Keys"]) for _, given in client.asked]
    assert asked == [2, 2, 1] and len(pauses) == 2


def test_keys_that_are_always_left_over_are_no_absent_rows():
    table, client, _ = says(unprocessed(KEY))
    with pytest.raises(Unavailable, match="the test table is busy; try again"):
        table.find([KEY])
    assert len(client.asked) == TRIES

    table, client, _ = says(unprocessed(KEY))
    assert table.find([KEY], hint=True) == {} and len(client.asked) == 1


def test_reads_are_strongly_consistent_unless_said_otherwise():
    table, client, _ = says({"Responses": {}, "Items": []})

    table.get(*KEY)
    table.find([KEY])
    list(table.query("p"))
    table.find([KEY], hint=True)
    list(table.query("p", consistent=False))

    (_, got), (_, found), (_, queried), (_, hinted), (_, loose) = client.asked
    assert got["ConsistentRead"] and found["RequestItems"]["t"]["ConsistentRead"] and queried["ConsistentRead"]
    assert "ConsistentRead" not in hinted["RequestItems"]["t"] and loose["ConsistentRead"] is False


def test_a_page_is_fetched_when_its_first_row_is_asked_for():
    pages = [{"Items": [typed(row(("p", sk)))], "LastEvaluatedKey": {"pk": {"S": sk}}} for sk in "ab"]
    table, client, _ = says(*pages, {"Items": []})
    rows = table.query("p", page=1)
    assert client.asked == []

    assert next(rows)["sk"] == "a" and len(client.asked) == 1
    assert [each["sk"] for each in rows] == ["b"]
    assert [given.get("ExclusiveStartKey") for _, given in client.asked] == [
        None,
        {"pk": {"S": "a"}},
        {"pk": {"S": "b"}},
    ]


@pytest.mark.parametrize("verb", ["put_all", "delete_all"])
def test_rows_that_a_batch_left_over_are_written_again_until_it_gives_up(verb):
    keys = [("p", f"{number:02d}") for number in range(30)]
    given: list[Any] = keys if verb == "delete_all" else [row(key) for key in keys]
    left = {"UnprocessedItems": {"t": [{"DeleteRequest": {"Key": {}}}] * 2}}
    table, client, pauses = says(left, {})
    getattr(table, verb)(given)
    sizes = [len(asked["RequestItems"]["t"]) for _, asked in client.asked]
    assert sizes == [25, 7] and len(pauses) == 1

    with pytest.raises(Unavailable, match="the test table is busy; try again"):
        getattr(says(left)[0], verb)(given)


def test_a_row_is_asked_back_only_by_who_wants_it():
    table, client, _ = says({})

    table.put(ROW)
    table.put(ROW, ABSENT)
    table.put(ROW, ABSENT, returning=True)
    table.update(KEY, "SET n = :n", {"n": 1}, returning=True)

    assert [
        (given.get("ReturnValues"), given.get("ReturnValuesOnConditionCheckFailure")) for _, given in client.asked
    ] == [(None, None), (None, "ALL_OLD"), ("ALL_OLD", "ALL_OLD"), ("ALL_NEW", None)]


@pytest.mark.parametrize("value", [None, {}, set(), object(), bytearray(b"x")], ids=type)
def test_a_value_that_has_no_attribute_is_refused_before_it_is_sent(value):
    table, client, _ = says({})

    with pytest.raises(TypeError, match="has no attribute"):
        table.put(row(KEY, value=value))
    assert client.asked == []


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_and_its_attribute_are_one(value):
    assert plain({"a": attribute(value)}) == {"a": value}


def test_an_attribute_of_a_kind_that_is_never_written_is_left_as_it_is():
    strange = {"M": {"a": {"S": "b"}}}

    assert plain({"a": strange, "b": {"NULL": True}, "n": {"N": "1E+2"}}) == {
        "a": strange,
        "b": {"NULL": True},
        "n": 100.0,
    }
