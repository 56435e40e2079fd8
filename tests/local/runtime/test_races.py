"""One run, whatever races or dies: identical requests over two gateways that share one table."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.machine import wait_until
from tests.support.runtime.requests import a_nonce_request, execute

RACERS = 20
CRASH_RACERS = 8
RECOVERY_SECONDS = 60
TOKENS = "runtime=s3cret/+,other=another-secret"


def race(runtimes, request, racers, **options):
    """Send a request many times at once, in turn to each gateway."""
    with ThreadPoolExecutor(racers) as threads:
        sent = [threads.submit(execute, runtimes[n % len(runtimes)], request, **options) for n in range(racers)]
        return [answer.result() for answer in sent]


def runner_of(runtime, execution_id):
    """The process of the execution's latest run."""
    key = execution_id.encode().hex()
    pids = [line.split()[1] for line in runtime.runs_file.read_text().splitlines() if line.startswith(f"{key} ")]
    return int(pids[-1])


def test_twenty_identical_requests_over_two_gateways_are_one_run(two_gateways):
    request = a_nonce_request(2)

    answers = race(two_gateways, request, RACERS)

    assert [answer.status_code for answer in answers] == [200] * RACERS
    assert len({answer.content for answer in answers}) == 1
    assert two_gateways[0].runs(request["execution_id"]) == 1
    assert sum("x-piecework-replayed" not in answer.headers for answer in answers) == 1


def test_a_race_after_the_answer_is_only_replays(two_gateways):
    request = a_nonce_request()
    first = execute(two_gateways[0], request)

    answers = race(two_gateways, request, RACERS)

    assert {answer.content for answer in answers} == {first.content}
    assert two_gateways[0].runs(request["execution_id"]) == 1


def test_two_requests_in_a_race_for_one_key_are_one_answer_and_conflicts(two_gateways):
    request = a_nonce_request(1)
    other = {**request, "inputs": {**request["inputs"], "prompt": "other"}}

    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(execute, two_gateways[n % 2], (request, other)[n // 2 % 2]) for n in range(8)]
        answers = [answer.result() for answer in sent]

    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [409] * 4
    assert len({answer.content for answer in answers if answer.status_code == 200}) == 1
    assert two_gateways[0].runs(request["execution_id"]) == 1


def test_two_callers_are_independent(gateway):
    guarded = gateway(PIECEWORK_RUNTIME_TOKENS=TOKENS)
    request = a_nonce_request(1)

    with ThreadPoolExecutor(2) as threads:
        callers = [("runtime", "s3cret/+"), ("other", "another-secret")]
        groups = list(threads.map(lambda caller: race([guarded], request, 3, auth=caller), callers))

    bodies = [{answer.content for answer in group} for group in groups]
    assert [[answer.status_code for answer in group] for group in groups] == [[200] * 3] * 2
    assert [len(group) for group in bodies] == [1, 1]
    assert bodies[0] != bodies[1]
    assert guarded.runs(request["execution_id"]) == 2


def test_a_transient_failure_is_shared_by_those_who_waited_and_by_nobody_later(two_gateways):
    request = a_nonce_request(1.5, fail_first=1)

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(execute, two_gateways[0], request)
        wait_until(lambda: two_gateways[0].runs(request["execution_id"]) == 1, 10)
        waiting = [threads.submit(execute, runtime, request) for runtime in two_gateways]
        failed = [first.result(), *(answer.result() for answer in waiting)]
    later = execute(two_gateways[1], request)

    assert [answer.status_code for answer in failed] == [503] * 3
    assert later.status_code == 200
    assert two_gateways[0].runs(request["execution_id"]) == 2


@pytest.mark.parametrize("racers", [CRASH_RACERS])
def test_a_killed_runner_costs_its_own_request_and_one_more_run(two_gateways, racers):
    counter = two_gateways[0]
    request = a_nonce_request(2)

    with ThreadPoolExecutor(racers) as threads:
        sent = [threads.submit(execute, two_gateways[n % 2], request) for n in range(racers)]
        wait_until(lambda: counter.runs(request["execution_id"]) == 1, 20)
        time.sleep(0.5)
        os.kill(runner_of(counter, request["execution_id"]), signal.SIGKILL)
        killed_at = time.monotonic()
        answers = [answer.result() for answer in sent]
    seconds = time.monotonic() - killed_at
    resent = execute(two_gateways[0], request)

    good = [answer for answer in answers if answer.status_code == 200]
    assert sorted(answer.status_code for answer in answers) == [200] * (racers - 1) + [502]
    assert {answer.content for answer in [*good, resent]} == {good[0].content}
    assert counter.runs(request["execution_id"]) == 2
    assert seconds < RECOVERY_SECONDS
