"""What fuzzing has found, kept as examples."""

import pytest


@pytest.mark.parametrize("path", ["/artifacts/%0A/x", "/%0A", "/%00", "/a%0D%0Ab: c", "/artifacts/%7F/%C2%8F"])
def test_a_control_character_in_a_path_is_answered_by_the_door(gateway, path):
    answer = gateway().http.get(path)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("member", ["message_json", "extensions_json", "message", "extensions"])
@pytest.mark.parametrize("value", [{}, [1], 5, True, "text", None])
def test_an_envelope_may_hold_any_json_where_a_text_is_meant(gateway, member, value):
    event = {
        "event_id": f"fuzz-{member}",
        "event_type": "friend_request",
        "source_kind": "peer_relationship",
        "agent_envelope": {"protocol": "p", member: value},
        "payload": None,
        "requires_commit": False,
        "created_at": 1,
    }

    answer = gateway().http.post("/agent-events", json={"event": event})

    assert answer.status_code == 200, answer.text
