"""Peer candidates inside a candidate's evidence, and whether the candidate agrees with their majority (ADR 0007)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from piecework.errors import BadRequest
from piecework.extend.policies import Candidate
from piecework.jsons import Json, digest, loads_exact
from piecework.jsons.fingerprints import fingerprint

MARKER: Final = "piecework_peer_candidates"
MAX_PEERS: Final = 64  # votes counted; each costs one hash
COMPARED_MEMBERS: Final = ("decision", "answer")  # the members a kernel itself votes on, in this order


def disagrees_with_peers(candidate: Candidate) -> bool:
    """True when more than half of the peers share an answer that is not the candidate's; False without peers."""
    peers = _peers(candidate.evidence_inline, candidate.candidate_id)
    if not peers:
        return False
    member = next((name for name in COMPARED_MEMBERS if _text(candidate.output, name)), None)
    votes = Counter(ballot for output in peers.values() if (ballot := _ballot(output, member)))
    if not votes:
        return False
    answer, count = votes.most_common(1)[0]
    return 2 * count > votes.total() and answer != _ballot(candidate.output, member)


def _peers(evidence: Sequence[Mapping[str, Json]], own_id: str) -> dict[str, Json]:
    """The peers' outputs by candidate id: the first statement of each counts, and the candidate is not its own peer."""
    peers: dict[str, Json] = {}
    for peer in _stated(evidence):
        peer_id = peer.get("candidate_id")
        if isinstance(peer_id, str) and peer_id != own_id and "output" in peer and len(peers) < MAX_PEERS:
            peers.setdefault(peer_id, peer["output"])
    return peers


def _stated(evidence: Sequence[Mapping[str, Json]]) -> Iterator[Mapping[str, Json]]:
    for item in evidence:
        content = item.get("content")
        if item.get("mime") != "application/json" or not isinstance(content, str) or MARKER not in content:
            continue
        try:
            document = loads_exact(content)
        except BadRequest:
            continue  # inline evidence may be any text, so this is not an error
        stated = document.get(MARKER) if isinstance(document, dict) else None
        if isinstance(stated, list):
            yield from (peer for peer in stated if isinstance(peer, dict))


def _ballot(output: Json, member: str | None) -> str:
    """The vote of an output: its normalised member, or the whole output; empty when it abstains."""
    if member is not None:
        return _text(output, member)
    try:
        return digest(output)  # by value: 1.50 agrees with 1.5
    except ValueError:
        return fingerprint(output).exact


def _text(output: Json, member: str) -> str:
    value = output.get(member) if isinstance(output, dict) else None
    return value.strip().upper() if isinstance(value, str) else ""
