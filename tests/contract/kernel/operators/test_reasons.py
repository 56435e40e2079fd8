"""Why an execution stands where it stands: every kind of waiting and failing, over both stores, and what it costs."""

from types import SimpleNamespace

import pytest

from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.service.reasons import MOST_AGENTS, Reasons
from tests.contract.kernel.test_requests import Counting
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.kinds import AGENT, KINDS, a_stage, at_work, given_up, nobody
from tests.support.kernel.tables import new_tables


@pytest.fixture(params=["memory", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    store = None if request.param == "memory" else new_tables(request.getfixturevalue("embedded_aws"), clock)
    return a_stage(store, clock)


@pytest.mark.parametrize("name", KINDS)
def test_an_execution_says_what_it_waits_for_or_why_it_failed_and_a_list_of_it_says_the_same(stage, name):
    kind = KINDS[name]
    execution = kind.happen(stage)

    view = stage.kernel.get(execution)

    retry = rfc3339(stage.clock() + stage.settings.retry_delay_ms(2))
    assert view.waiting_for == (kind.waiting_for and kind.waiting_for.format(retry=retry))
    assert view.error == kind.error
    assert view.execution.status.is_terminal == (view.waiting_for is None)
    rows = stage.kernel.executions(Filter(), "", 50)[0]
    assert stage.kernel.reasons(rows)[execution] == (view.error, view.waiting_for)


def test_what_a_new_execution_waits_for_is_in_the_answer_to_its_creation(stage):
    alone = stage.kernel.create(AGENT, None, {})
    stage.agent("other")
    given = stage.kernel.create("other", None, {})

    assert alone.waiting_for == f'no agent "{AGENT}" is connected'
    assert given.waiting_for == 'agent "other" to go on'
    assert [stage.kernel.get(view.execution.id) for view in (alone, given)] == [alone, given]


def test_an_error_is_as_long_as_the_log_has_it(stage):
    agent = stage.agent(AGENT)
    execution = stage.create(agent_id=AGENT)
    session = agent.take("execution.assigned")

    stage.kernel.intent(execution, session["session_id"], Intent("fail", error="é" * 2_048))

    assert stage.kernel.get(execution).error == "é" * 2_048


def test_names_cannot_end_the_quotes_around_them(stage):
    execution = stage.create(agent_id='x" is connected\n')

    assert stage.kernel.get(execution).waiting_for == 'no agent "x\\" is connected\\n" is connected'


def test_a_failed_execution_whose_log_is_being_forgotten_has_no_error(stage):
    view = stage.store.executions.view(given_up(stage))
    forgotten = SimpleNamespace(events=lambda *_: [])

    assert Reasons(forgotten, lambda _: False, stage.clock).with_reasons(view) == view


@pytest.mark.parametrize(
    ("happen", "requests"),
    [
        (at_work, {"batch_get_item": 1}),
        (nobody, {"batch_get_item": 1, "query": 1}),
        (given_up, {"batch_get_item": 1, "query": 1}),
    ],
)
def test_to_show_an_execution_costs_one_more_request_where_a_reason_needs_it(embedded_aws, happen, requests):
    client, clock = Counting(embedded_aws.client("dynamodb")), FakeClock(START_MS)
    stage = a_stage(new_tables(embedded_aws, clock, client=client), clock)
    execution = happen(stage)
    client.sent.clear()

    stage.kernel.get(execution)

    assert dict(client.sent) == requests


def test_a_reason_is_cut_in_a_list_and_one_that_is_forgotten_has_none(stage):
    agent = stage.agent(AGENT)
    execution = stage.create(agent_id=AGENT)
    stage.kernel.intent(execution, agent.take("execution.assigned")["session_id"], Intent("fail", error="é" * 2_048))
    [row] = stage.kernel.executions(Filter(), "", 50)[0]

    assert stage.kernel.reasons([row])[execution] == ("é" * 299 + "…", None)
    stage.kernel.forget(execution, "asked for")
    assert stage.kernel.reasons([row])[execution] == (None, None)
    stage.store.executions.forget(execution)
    assert stage.kernel.reasons([row]) == {}


def test_reasons_of_a_page_cost_two_requests_and_one_for_each_of_its_first_agents(embedded_aws):
    client, clock = Counting(embedded_aws.client("dynamodb")), FakeClock(START_MS)
    stage = a_stage(new_tables(embedded_aws, clock, client=client), clock)
    for number in range(MOST_AGENTS + 3):
        stage.create(agent_id=f"desk-{number:02d}")
        stage.create(agent_id=f"desk-{number:02d}")
    for _ in range(5):
        given_up(stage)
    rows = stage.kernel.executions(Filter(), "", 50)[0]
    client.sent.clear()

    found = stage.kernel.reasons(rows)

    assert dict(client.sent) == {"batch_get_item": 2, "query": MOST_AGENTS}
    told = [reason.waiting_for or "" for reason in found.values()]
    assert sum(text.endswith("is connected") for text in told) == 2 * MOST_AGENTS
    assert sum(text.endswith("to connect or to take it") for text in told) == 6
    assert sum(reason.error is not None for reason in found.values()) == 5


def test_an_event_that_lies_in_the_bucket_is_not_fetched_for_a_list(embedded_aws, monkeypatch):
    stage = a_stage(new_tables(embedded_aws, FakeClock(START_MS)), FakeClock(START_MS))
    monkeypatch.setattr("piecework.kernel.store.values.INLINE_BYTES", 100)
    execution = given_up(stage)
    [row] = stage.kernel.executions(Filter(), "", 50)[0]

    assert stage.kernel.reasons([row])[execution].error is None
    assert stage.kernel.get(execution).error


def test_a_call_that_nobody_has_is_named_before_one_that_waits_for_its_next_attempt(stage):
    runner, agent = stage.runner("search-1", "one", "web.search"), stage.agent(AGENT)
    execution = stage.create(agent_id=AGENT)
    session = agent.take("execution.assigned")
    stage.invoke(session, "web.search", remote=True, key="one")
    job = runner.take("job.assigned")
    stage.kernel.job_result("search-1", job["id"], execution, job["step_id"], False, None, "busy", True)
    assert stage.kernel.get(execution).waiting_for.startswith("attempt 2 of web.search at ")

    stage.invoke(session, "web.fetch", remote=True, key="two")

    assert stage.kernel.get(execution).waiting_for == "a runner for web.fetch, and 1 more step"
