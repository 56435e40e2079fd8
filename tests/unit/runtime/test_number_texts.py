"""Numbers of free-form values keep the text they were written in, as kernels built since July 2026 keep it."""

import copy
import hashlib
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from piecework import jsons
from piecework.aws.attributes import plain
from piecework.aws.pieces_table import from_item
from piecework.durable.pieces import State
from piecework.edge.http import Request
from piecework.errors import BadRequest, KeyConflict
from piecework.extend.executors import Outcome
from piecework.runtime.execute.flow import StoredFailure
from piecework.schemas import compile_schema, minimal_ok
from piecework.worker.answer.outputs import OutputRefused, output_of
from tests.support.runtime.flows import FlowBench, answering
from tests.support.runtime.verification import THRESHOLDS, Verifier, a_verify_body

# Written with serde_json 1.0.149 (`arbitrary_precision`, `float_roundtrip`): input, canonical form, bytes, SHA-256, and
# whether `n` is an integer (i64 or u64) and a double to that codec. The next surprise is one more line.
VECTORS = [
    ('{"n":1.50}', '{"n":1.50}', 10, "cc2502b0dcb47e2f236fb9aa2a83b13dbb185d1104c14b63f224520863bec784", False, True),
    ('{"n":1e-07}', '{"n":1e-07}', 11, "ff7a1315299260617fe404199e54e6d976a0b03e47da54fccec073c2fa48ff5c", False, True),
    ('{"n":1E5}', '{"n":1e+5}', 10, "b666985a41a07f3248cd2feec4b31464e06dd6606fc4fb8253cc67afb7cff05c", False, True),
    (
        *('{"n":1.0E-5}', '{"n":1.0e-5}', 12),
        *("c438fbac1281c51ddd25e51b2f6a448586182302efe9f43c9cd4c259136f7df5", False, True),
    ),
    ('{"n":-0}', '{"n":0}', 7, "f3013f933b9fb80ab6d995e7ad9da36f683837ba1d81e950c943d40111eac2f0", True, False),
    ('{"n":-0.0}', '{"n":-0.0}', 10, "a8a313cade05001e69f7ddb5db01e1e2d06fb8f6913ab492cc4506d4e65d465a", False, True),
    (
        *('{"n":1e400}', '{"n":1e+400}', 12),
        *("b4f0938ccde27974a7cc199a2d5ea6a20888c429d9aac4c9d4d44793bc7e2cd5", False, False),
    ),
    (
        *('{"n":18446744073709551616}', '{"n":18446744073709551616}', 26),
        *("5171b3f02739553257cde342c54398ac7f809898b9fbce52c1b40f7ff07c5d22", False, False),
    ),
    (
        *('{"n":0.1234567890123456789012345678901234567}', '{"n":0.1234567890123456789012345678901234567}', 45),
        *("eab1913aa6f0cf7c596e515907eb29c80126e120bbc997a9a2e0ed1d41818885", False, True),
    ),
    (
        r'{"n":1e+16,"b":[2.0,100000000000000000000.0],"a":"caf\u00e9"}',
        *('{"a":"café","b":[2.0,100000000000000000000.0],"n":1e+16}', 57),
        *("daa4701e2ac52882016c09778a8439fda6695a6addf4fde238273da7d0d0aba7", False, True),
    ),
    (
        *('{"n":0.9556395672092627}', '{"n":0.9556395672092627}', 24),
        *("bbc39c6e6ffa24ab120e763fd157b9bc0195066e5ebddd1d33c14f9f46964f39", False, True),
    ),
    ('{"n":1e05}', '{"n":1e+05}', 11, "c484589277f61402e9c1bca60352815a2380104e6fc9c4694675d1d8fcf7fa3b", False, True),
    ('{"n":-0e5}', '{"n":-0e+5}', 11, None, False, True),
    ('{"n":-0.00}', '{"n":-0.00}', 11, None, False, True),
    ('{"n":1E-0}', '{"n":1e-0}', 10, None, False, True),
    ('{"n":0.00001}', '{"n":0.00001}', 13, None, False, True),
    ('{"n":1e-400}', '{"n":1e-400}', 12, None, False, True),
    ('{"n":18446744073709551615}', '{"n":18446744073709551615}', 26, None, True, False),
    ('{"n":-9223372036854775808}', '{"n":-9223372036854775808}', 26, None, True, False),
    ('{"n":-9223372036854775809}', '{"n":-9223372036854775809}', 26, None, False, False),
    ('{"n":%s}' % ("7" * 2_000), '{"n":%s}' % ("7" * 2_000), 2_006, None, False, False),
]
STORED = json.loads((Path(__file__).parents[2] / "support" / "stored" / "pieces_7a1e751.json").read_text())["items"]
OLDER_LENGTHS = {"-0": 4, "1e-5": 7, "1.0E-5": 7, "1e05": 8, "18446744073709551616": 22, "1e15": 18}


def read(text: str):
    """A body as the runtime door reads it."""
    event = {"httpMethod": "POST", "headers": {"content-type": "application/json"}, "body": text}
    return Request.from_event(event, lambda: 0).json()


@pytest.fixture(scope="module")
def verifier():
    return Verifier()


@pytest.mark.parametrize(("text", "written", "size", "sha256", "is_integer", "is_double"), VECTORS)
def test_a_value_is_hashed_and_measured_as_newer_kernels_do(text, written, size, sha256, is_integer, is_double):
    value = read(text)
    raw = jsons.canonical(value)

    assert (raw.decode(), len(raw)) == (written, size)
    assert sha256 in (None, hashlib.sha256(raw).hexdigest())
    assert minimal_ok({"type": "integer"}, value["n"]) == (is_integer and "-0" not in text)  # to older ones -0 is none
    assert minimal_ok({"type": "number"}, value["n"])
    written_as_double = "." in written[5:] or "e" in written[5:]
    assert (isinstance(value["n"], float) and math.isfinite(value["n"]) and written_as_double) == is_double


@pytest.mark.parametrize("number", ["1.50", "1e-07", "0.12345678901234567890", "12345678901234567890123", "1e05"])
def test_a_candidate_is_as_long_as_its_text(verifier, number):
    for limit, expected in ((6 + len(number.replace("e0", "e+0")), [100]), (5 + len(number), [100, 103])):
        body = jsons.canonical(a_verify_body({"n": "HERE"}, policy_id=THRESHOLDS, params={"max_len": limit}))
        status, verdict = verifier.post(body.replace(b'"HERE"', number.encode()))
        limit_of_older = 6 + len(jsons.canonical(jsons.loads(number)))

        assert (status, verdict["reason_codes"]) == (200, expected if limit >= limit_of_older else [100, 103])


@pytest.mark.parametrize(("number", "older"), OLDER_LENGTHS.items())
def test_a_candidate_that_is_longer_to_an_older_kernel_is_as_long_as_that(verifier, number, older):
    for limit, expected in ((older + 6, [100]), (older + 5, [100, 103])):
        body = jsons.canonical(a_verify_body({"n": "HERE"}, policy_id=THRESHOLDS, params={"max_len": limit}))
        status, verdict = verifier.post(body.replace(b'"HERE"', number.encode()))

        assert (status, verdict["reason_codes"]) == (200, expected)


def verdict_of(verifier, output: str, params: str):
    body = jsons.canonical(a_verify_body({"n": "OUTPUT"}, policy_id=THRESHOLDS, params={"p": "PARAMS"}))
    body = body.replace(b'{"n":"OUTPUT"}', output.encode()).replace(b'{"p":"PARAMS"}', params.encode())
    status, verdict = verifier.post(body)
    assert status == 200, verdict
    return verdict["reason_codes"]


@pytest.mark.parametrize(
    ("output", "params", "codes"),
    [
        ('{"confidence":1e400}', '{"min_confidence":0.5}', [100, 102]),  # beyond a double it counts as none
        ('{"confidence":0.5}', '{"min_confidence":1e400}', [100]),  # as in the kernel: no number, so no bound
        ('{"confidence":%s}' % ("9" * 500), '{"min_confidence":0.5}', [100, 102]),
        ('{"confidence":0.80}', '{"min_confidence":0.8}', [100]),
        ('{"a":1}', '{"max_len":-0}', [100, 103]),  # an integer to newer kernels
        ('{"a":1}', '{"max_len":18446744073709551616}', [100]),
        ('{"a":0.10000000000000000000001}', '{"max_a":0.1}', [100, 999]),
        ('{"a":0.10}', '{"max_a":0.1,"min_a":0.100}', [100]),
        ('{"a":18446744073709551617}', '{"max_a":18446744073709551616}', [100, 999]),
        ('{"a":1e400}', '{"min_a":1}', [100, 999]),
    ],
)
def test_thresholds_see_numbers_as_kernels_do(verifier, output, params, codes):
    assert verdict_of(verifier, output, params) == codes


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ('{"const":1.50}', "1.5", True),
        ('{"const":1.5}', "1.50", True),
        ('{"enum":[1e5]}', "100000", True),
        ('{"const":18446744073709551616}', "18446744073709551617", False),
        ('{"const":18446744073709551616}', "18446744073709551616", True),
        ('{"const":0.12345678901234567890}', "0.12345678901234567891", False),
        ('{"maximum":18446744073709551616}', "18446744073709551617", False),
        ('{"maximum":5}', "1e400", False),
        ('{"minimum":1e400}', "1e401", True),
        ('{"minimum":0.1}', "0.09999999999999999999999", False),
        ('{"exclusiveMinimum":0.1}', "0.1000000000000000000001", True),
        ('{"multipleOf":0.10}', "0.30", True),
        ('{"multipleOf":3}', "18446744073709551617", False),
        ('{"multipleOf":3}', "18446744073709551618", True),
        ('{"uniqueItems":true}', "[1.50,1.5]", False),
        ('{"uniqueItems":true}', "[18446744073709551616,18446744073709551617]", True),
        ('{"type":"integer"}', "1.00", True),
        ('{"minItems":2.00}', "[1.50]", False),
        ('{"type":"string"}', "1.50", False),
        ('{"properties":{"a":{"maximum":1}}}', '{"a":1.50}', False),
    ],
)
def test_schemas_compare_the_numbers_that_were_written(schema, value, fits):
    checker = compile_schema(read(schema))

    assert checker.is_valid(read(value)) is fits
    assert (checker.explain(read(value)) is None) is fits


@pytest.mark.parametrize("raw", ['{"n":%s}' % ("1" * 65_537), '{"n":1e1234567890123456}'])
def test_numbers_that_nobody_means_are_refused(raw):
    with pytest.raises(BadRequest):
        read(raw)


@pytest.mark.parametrize("number", ["9" * 5_000, "0." + "9" * 5_000])
def test_a_schema_with_an_endless_number_is_refused(number):
    with pytest.raises(BadRequest, match="4300 characters"):
        compile_schema(read(f'{{"maximum":{number}}}'))


@pytest.mark.parametrize("made", [{"n": 2**64}, {"n": 10**400}, [0.5, -(2**63) - 1]])
def test_hired_work_is_not_rounded_either(made):
    with pytest.raises(OutputRefused, match="return it as a text"):
        output_of(made, [], {})


@pytest.mark.parametrize("text", ["1.50", "-0", "1e400", "123456789012345678901234567890"])
def test_a_copied_number_keeps_its_text(text):
    for again in (copy.deepcopy(read(f"[{text}]")), pickle.loads(pickle.dumps(read(f"[{text}]")))):
        assert jsons.canonical(again) == jsons.canonical(read(f"[{text}]"))


def test_executors_compute_with_numbers_that_keep_their_text():
    inputs = read('{"price":1.50,"id":12345678901234567890123,"far":1e400}')

    assert inputs["price"] * 2 == 3.0
    assert inputs["id"] + 1 == 12345678901234567890124
    assert inputs["far"] > 1e308
    assert json.loads(json.dumps(inputs["price"])) == 1.5


@pytest.mark.parametrize(
    ("output", "sent"),
    [
        ({"a": 1.5, "b": 1e-7, "c": 1e16, "d": 1e-5}, '{"a":1.5,"b":1e-7,"c":1e+16,"d":0.00001}'),
        ({"a": 2**64 - 1, "b": -(2**63)}, '{"a":18446744073709551615,"b":-9223372036854775808}'),
        ({"a": 0.1 + 0.2}, '{"a":0.30000000000000004}'),
        ({"a": (1, 2)}, '{"a":[1,2]}'),
    ],
)
def test_own_numbers_go_out_in_the_form_that_all_kernels_share(output, sent):
    bench = FlowBench(answering({"z": "x", **output}))

    assert f'"candidate_output":{sent[:-1]},"z":"x"}}'.encode() in bench.execute(schema={}).body


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400])
def test_an_integer_beyond_64_bits_is_refused_with_its_place_and_never_rounded(number):
    bench = FlowBench(answering({"answer": "x", "items": [1, {"id": number}]}))

    with pytest.raises(StoredFailure, match=r"output\.items\[1\]\.id") as refused:
        bench.execute()

    assert str(number)[:20] not in refused.value.message
    assert "return it as a text" in refused.value.message


@pytest.mark.parametrize(
    ("text", "sent"), [("1.50", b'"n":1.5'), ("1e05", b'"n":100000.0'), ("-0", b'"n":0}'), ("0.0", b'"n":0.0')]
)
def test_a_number_of_the_inputs_goes_out_in_its_shared_form_where_that_is_exact(text, sent):
    bench = FlowBench(lambda task, run: Outcome({"answer": "x", "n": task.inputs["n"]}))

    assert sent in bench.execute(inputs=read(f'{{"n":{text}}}')).body


@pytest.mark.parametrize("text", ["0.12345678901234567890123", "1e400", "18446744073709551616"])
def test_a_number_of_the_inputs_that_no_double_is_cannot_go_out(text):
    bench = FlowBench(lambda task, run: Outcome({"answer": "x", "n": task.inputs["n"]}))

    with pytest.raises(StoredFailure, match=r"output\.n"):
        bench.execute(inputs=read(f'{{"n":{text}}}'))


def test_a_member_that_newer_kernels_take_for_a_number_is_refused():
    bench = FlowBench(answering({"answer": {"$serde_json::private::Number": "1.50"}}))

    with pytest.raises(StoredFailure, match="read as a number"):
        bench.execute()


def test_step_results_come_back_as_they_were_returned():
    seen = []

    def work(task, run):
        seen.append(run.step("count", lambda: {"id": 2**70, "price": task.inputs["price"]}))
        return Outcome({"answer": str(seen[0]["id"])})

    FlowBench(work).execute(inputs=read('{"price":1.50}'))

    assert seen[0]["id"] == 2**70
    assert jsons.canonical(seen[0]) == b'{"id":1180591620717411303424,"price":1.50}'


def test_a_step_that_earlier_code_recorded_for_a_number_read_as_a_double_is_replayed():
    """Earlier code kept steps under the older fingerprint; a piece it leaves in a canary goes on after them."""
    from piecework.durable.pieces import Claim, State, piece_key
    from piecework.durable.steps import PieceSteps
    from piecework.extend.runs import Step
    from tests.support.fakes import FakeClock, FakePieceTable

    table = FakePieceTable(FakeClock())
    earlier = piece_key("step", "piece", "older", "model-1")
    table.record_once(earlier, b'"paid for"', table.clock() // 1000 + 60)
    steps = PieceSteps(table, Claim("piece", "token", "older", State.RELEASED, "exact"), lambda: 0)

    assert steps.replay(Step("model-1")) == b'"paid for"'
    assert steps.replay(Step("model-2")) is None


@pytest.mark.parametrize(
    ("first", "second"), [("1.50", "1.5"), ("18446744073709551616", "18446744073709551617"), ("1e400", "1e401")]
)
def test_payloads_that_differ_in_the_text_of_a_number_are_two_payloads(first, second):
    bench = FlowBench(answering())
    bench.execute(inputs=read(f'{{"n":{first}}}'))

    assert bench.execute(inputs=read(f'{{"n":{first}}}')).facts["replayed"]
    with pytest.raises(KeyConflict):
        bench.execute(inputs=read(f'{{"n":{second}}}'))


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["inputs"])
def test_a_repeat_finds_the_answer_that_earlier_code_recorded(stored):
    bench = stored_bench(stored)

    assert bench.execute(inputs=read(stored["inputs"])).body == b"{}"
    with pytest.raises(KeyConflict):
        bench.execute(inputs=read('{"n":1.25}'))


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["inputs"])
def test_earlier_code_finds_the_answer_that_this_code_recorded(stored):
    bench = stored_bench(None)
    bench.execute(inputs=read(stored["inputs"]))
    ((key, piece),) = bench.table.items.items()

    assert (key, piece.fingerprint) == (stored["item"]["pk"]["S"], stored["item"]["fingerprint"]["S"])


def test_a_lapsed_piece_is_taken_over_for_its_own_numbers_alone():
    bench = FlowBench(answering())
    bench.execute(inputs=read('{"n":1.50}'))
    ((key, piece),) = bench.table.items.items()
    bench.table.items[key] = replace(piece, state=State.RUNNING, lease_until_ms=0)

    with pytest.raises(KeyConflict):
        bench.execute(inputs=read('{"n":1.5}'))
    assert bench.execute(inputs=read('{"n":1.50}')).facts["took_over"]


def stored_bench(stored):
    """A bench whose table holds what earlier code stored."""
    bench = FlowBench(answering())
    bench.execution_id = "exec-stored"
    if stored:
        item = plain(stored["item"]) | {"result": b"{}"}
        bench.table.items[item["pk"]] = from_item(item)
    return bench
