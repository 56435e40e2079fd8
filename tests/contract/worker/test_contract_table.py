"""One contract for the store of contracts, held against the fake and against DynamoDB on the embedded AWS."""

import threading

import pytest

from piecework.worker.contract.contracts import KEPT_MS, ContractConflict, validate
from tests.support.fakes import FakeClock
from tests.support.lost_answers import LostAnswers
from tests.support.worker.contracts import EXAMPLE, EXAMPLE_NOW_MS, IDENTITY, SECRET, a_contract, a_record
from tests.support.worker.fakes import FakeContracts


@pytest.fixture
def clock():
    return FakeClock(EXAMPLE_NOW_MS)


@pytest.fixture(params=["fake", "dynamodb", "lost answers"])
def contracts(request, clock):
    if request.param == "fake":
        return FakeContracts(clock)
    from piecework.worker.store.contracts_table import ContractsTable

    aws = request.getfixturevalue("embedded_aws")
    client = aws.client("dynamodb")
    return ContractsTable(
        LostAnswers(client) if request.param == "lost answers" else client, aws.new_table("ContractsTable"), clock
    )


class TestContracts:
    def test_a_contract_comes_back_as_it_was_put(self, contracts):
        record = validate(EXAMPLE, SECRET, IDENTITY, EXAMPLE_NOW_MS)

        assert contracts.put(record) == "new"
        assert contracts.get("ctr_demo01") == record

    def test_numbers_and_texts_of_the_document_keep_their_form(self, contracts):
        record = a_record(task__input_schema={"maximum": 1.0, "const": 9007199254740991, "title": "ü\u2028"})

        contracts.put(record)

        kept = contracts.get(record.contract_id).input_schema
        assert repr(kept["maximum"]) == "1.0" and kept == record.input_schema

    def test_an_unknown_contract_is_not_there(self, contracts):
        assert contracts.get("ctr_unknown") is None

    def test_the_same_contract_again_changes_nothing(self, contracts):
        first = validate(EXAMPLE, SECRET, IDENTITY, EXAMPLE_NOW_MS)
        again = validate(EXAMPLE, SECRET, IDENTITY, EXAMPLE_NOW_MS + 5, source="import")
        contracts.put(first)

        assert contracts.put(again) == "same"
        assert contracts.get(first.contract_id) == first

    def test_another_contract_of_the_same_id_is_refused(self, contracts):
        first = a_record()
        contracts.put(first)

        with pytest.raises(ContractConflict):
            contracts.put(a_record(contract_id=first.contract_id, terms__price__amount="6"))
        assert contracts.get(first.contract_id) == first

    def test_derived_terms_do_not_change_with_our_settings(self, contracts):
        document = a_contract(sla__retry_policy=...)
        contracts.put(validate(document, None, IDENTITY, EXAMPLE_NOW_MS))

        assert contracts.get(document["contract_id"]).attempts == IDENTITY.default_attempts

    def test_a_contract_long_after_its_deadline_counts_as_absent(self, contracts, clock):
        record = a_record()
        contracts.put(record)
        clock.now_ms = record.deadline_ms + KEPT_MS - 1000
        assert contracts.get(record.contract_id) == record

        clock.now_ms = record.deadline_ms + KEPT_MS

        assert contracts.get(record.contract_id) is None
        assert contracts.put(record) == "new"

    def test_of_many_at_once_one_is_new(self, contracts):
        record, kept = a_record(), []
        threads = [threading.Thread(target=lambda: kept.append(contracts.put(record))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(kept) == ["new", *["same"] * 11]
