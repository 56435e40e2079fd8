"""The stance of a free-text message on an open proposal: `support`, `reject`, `abstain`, or a person should look.

A kernel publishes the stance as its author's vote, so a wrong stance is worse than none. Words are compared whole
("disagree" is not "agree"), negation is honoured ("don't support"), and doubtful messages — a condition, a question,
both sides at once, two named proposals — go to review. It does not use a model, and it never obeys a message. It reads
English only; other languages go to review. Runtime specification 8.1.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, Final, Literal

from piecework.executors import InputRefused, Outcome, Refused, Run, Task, executor
from piecework.jsons import Json, canonical

Stance = Literal["support", "reject", "abstain", "none"]

SURE: Final = 0.91  # a kernel publishes a stance from 0.65 on
UNSURE: Final = 0.2
PLACEHOLDER: Final = "The message has no text."
QUOTE_CHARACTERS: Final = 2_000  # used three times in an output of 64 KiB, with 6 bytes for an escaped character
READ_CHARACTERS: Final = 20_000  # a longer message could withdraw its stance after the part that we read
EVIDENCE_BYTES: Final = 32_768  # as one escaped string this fits the kernel's 120,000 bytes of evidence
ELEMENT_CHARACTERS: Final = 1_000  # of one text in the evidence
ELEMENT_ITEMS: Final = 50  # of one list in the evidence
PROPOSAL: Final = (
    *("proposal_id", "proposal_message_id", "coordinator_node_id", "participants"),
    *("threshold_percent", "result_feed_key", "goal"),
)
DELIBERATION: Final = (
    *("message_id", "finalized_at", "proposal_id", "proposal_message_id", "decision", "goal"),
    *("participants", "source_feed_key", "source_scope_hint"),
)


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# Without the third person: "Alice supports this" is not its author's stance.
SUPPORT: Final = _words(
    "support supported supporting supportive agree agreed agreeing approve approved approving adopt adopted adopting"
    " +1 \N{THUMBS UP SIGN}"
)
REJECT: Final = _words(
    "reject rejected rejecting oppose opposed opposing against decline declined declining disagree disagreed"
    " disagreeing disapprove disapproved disapproving -1 \N{THUMBS DOWN SIGN}"
)
ABSTAIN: Final = _words("abstain abstained abstaining neutral")
PRIOR: Final = ("same", "as", "before")
NEGATION: Final = _words(
    "not never cannot dont doesnt didnt cant couldnt wont wouldnt shouldnt isnt arent nolonger neither nor without"
    " nothing nobody none hardly unable refuse refused fail failed stop stopped"
)
NEGATION_REACH: Final = 5  # words: "not think that we should support"
AFTERTHOUGHT_REACH: Final = 3  # words: "I support it not", "agree with nothing"
CLAUSE_REACH: Final = 50  # words to search back within one clause; a longer clause is not prose
OBJECT_REACH: Final = 2  # words: "against adopting", "decline to support"
DOUBT: Final = _words("if unless until provided assuming whether might may maybe perhaps possibly")
CLAUSE_ENDS: Final = frozenset(".!;:") | _words("but although")
PAUSES: Final = frozenset(",()\n") | _words("and however though yet")

_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u02bc\u0060\u00b4\u2018\uff07", "'") | {"\u2212": "-"})
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_PHRASES: Final = (
    (re.compile(r"\bno\s+longer\b"), "nolonger"),
    (re.compile(r"\bnot\s+(?:only|just|merely)\b"), ""),
    (re.compile(r"\b(?:can|could)(?:n't|not|\s+not)\s+agree\s+more\b"), "agree"),
)
_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")
_TOKEN: Final = re.compile(r"(?<!\w)[+-]1(?!\w)|\w+(?:['-]\w+)*|[\U0001F44D\U0001F44E]|[.!;:,()\n]")


@executor("topic_interpretation", task_types=("topic_interpretation",), expected_ms=1_000, max_duration_ms=5_000)
def topic_interpretation(task: Task, run: Run) -> Outcome:
    """Interpret `inputs.source_message` against `inputs.candidate_proposals`.

    Raises:
        InputRefused: the source message is missing.
        Refused: the caller's schema requires more than an interpretation holds.
    """
    inputs = task.inputs if isinstance(task.inputs, dict) else {}
    source = inputs.get("source_message")
    if not isinstance(source, dict):
        raise InputRefused("inputs.source_message must be an object")
    text = _text_of(source)
    proposal = choose(source, _objects(inputs.get("candidate_proposals")), text)
    stance = stance_of(text, prior_stance(_objects(inputs.get("prior_deliberations"))))
    output = _fitting(_interpretation(source, text, proposal, stance), task)
    run.evidence(evidence_of(source, inputs, _limit(task.contract)).decode("utf-8"), "application/json")
    basis = f"{task.task_id}|{task.execution_id}|{stance}|{output['proposal_id']}"
    run.artifact("interpretation", basis.encode("utf-8"), "text/plain")
    run.note(stance=stance)
    return Outcome(output)


def choose(source: Mapping[str, Json], proposals: Sequence[Mapping[str, Json]], text: str) -> Mapping[str, Json] | None:
    """The proposal of a message: the one that it replies to, else the only one, else the only one that it names."""
    offered = list({_pair(proposal): proposal for proposal in proposals if _is_named(proposal)}.values())
    replied_to = _text(source.get("reply_to_message_id")).strip()
    if replied_to:
        matching = [found for found in offered if found["proposal_message_id"] == source["reply_to_message_id"]]
    elif len(offered) == 1:
        matching = offered
    else:
        read = _folded(text[:READ_CHARACTERS])
        matching = [found for found in offered if _names(read, _folded(found["proposal_id"]))]
    return matching[0] if len(matching) == 1 else None


def stance_of(text: str, prior: Stance = "none") -> Stance:
    """The stance that a message states; `none` if it does not state one or is doubtful."""
    if len(text) > READ_CHARACTERS:
        return "none"
    said = set[str]()
    for sentence in _SENTENCE.finditer(_prepared(text)):
        signals = set[str]() if "?" in sentence.group() else _signals(_TOKEN.findall(sentence.group()))
        if "doubt" in signals and len(signals) > 1:
            return "none"
        said |= signals
    return _settled(said, prior)


def prior_stance(deliberations: Sequence[Mapping[str, Json]]) -> Stance:
    """The first earlier decision, to which "same as before" refers; `none` if that is not a stance."""
    decision = deliberations[0].get("decision") if deliberations else None
    for stance in ("support", "reject", "abstain"):
        if decision == stance:
            return stance
    return "none"


def evidence_of(source: Mapping[str, Json], inputs: Mapping[str, Json], limit: int = EVIDENCE_BYTES) -> bytes:
    """The basis of the interpretation as JSON of at most `limit` bytes: elements are cut, then left out."""
    kept: dict[str, Json] = {
        "source_message_id": _cut(_text(source.get("message_id"))),
        "reply_to_message_id": _cut(source.get("reply_to_message_id")),
        "candidate_proposals": [],
        "prior_deliberations": [],
        "truncated": False,
    }
    size = len(canonical(kept))
    for name, members in (("candidate_proposals", PROPOSAL), ("prior_deliberations", DELIBERATION)):
        for element in _objects(inputs.get(name)):
            short = {member: _cut(element[member]) for member in members if member in element}
            size += len(canonical(short)) + 1
            kept["truncated"] |= size > limit or any(short[member] != element[member] for member in short)
            if size > limit:
                return canonical(kept)
            kept[name].append(short)
    return canonical(kept)


def _interpretation(
    source: Mapping[str, Json], text: str, proposal: Mapping[str, Json] | None, stance: Stance
) -> dict[str, Json]:
    proposal_id, proposal_message_id = _pair(proposal or {})
    message_id = _text(source.get("message_id"))
    quote = text if len(text) <= QUOTE_CHARACTERS else text[:QUOTE_CHARACTERS] + "…"
    needs_review = proposal is None or stance == "none" or not message_id.strip()
    return {
        "source_message_id": message_id,
        "proposal_id": proposal_id,
        "proposal_message_id": proposal_message_id,
        "stance": stance,
        "answer": quote or PLACEHOLDER,
        "summary": quote or PLACEHOLDER,
        "confidence": UNSURE if needs_review else SURE,
        "needs_review": needs_review,
        "evidence": [{"kind": "message_quote", "message_id": message_id, "quote": quote}] if quote else [],
    }


def _fitting(output: dict[str, Json], task: Task) -> dict[str, Json]:
    """The output, or the same without its optional evidence if only that fits the caller's schema."""
    problem = task.problem(output)
    if problem is None:
        return output
    without = {name: value for name, value in output.items() if name != "evidence"}
    if task.problem(without) is None:
        return without
    raise Refused(f"output_schema does not fit an interpretation: {problem}")


def _settled(said: set[str], prior: Stance) -> Stance:
    """One stance from all signals, in the specification's order; `none` for both sides at once."""
    against = "reject" in said or "not support" in said
    if "support" in said:
        return "none" if against else "support"
    if "reject" in said:
        return "reject"
    if "not support" in said:
        return "none" if {"not reject", "abstain"} & said else "reject"
    if "prior" in said and prior != "none":
        return prior
    return "abstain" if {"abstain", "not reject"} & said else "none"


def _signals(tokens: Sequence[str]) -> set[str]:
    """The signals in the tokens of one sentence: stances, plain or after "not ", "prior", and "doubt"."""
    words = [token.replace("-", "").strip("_") if len(token) > 2 else token for token in tokens]
    signals = {"doubt"} if DOUBT.intersection(words) else set[str]()
    for at, word in enumerate(words):
        stance = "prior" if tuple(words[at : at + len(PRIOR)]) == PRIOR else _stance_word(word)
        if stance is None or (stance == "support" and not REJECT.isdisjoint(_near(words, at, OBJECT_REACH))):
            continue
        negated = _is_negated(words, at)
        if negated is None:
            signals.add("doubt")
        if not negated or stance in ("support", "reject"):
            signals.add(f"not {stance}" if negated else stance)
    return signals


def _stance_word(word: str) -> Stance | None:
    if word in SUPPORT:
        return "support"
    if word in REJECT:
        return "reject"
    return "abstain" if word in ABSTAIN else None


def _is_negated(words: Sequence[str], at: int) -> bool | None:
    """Whether the word is negated; None if a nearby negation may or may not concern it."""
    if words[at - 1 : at] == ["no"] or any(map(_negates, _near(words, at, NEGATION_REACH))):
        return True
    clause = takewhile(lambda word: word not in CLAUSE_ENDS, reversed(words[max(0, at - CLAUSE_REACH) : at]))
    after = takewhile(_goes_on, words[at + 1 : at + 1 + AFTERTHOUGHT_REACH])
    return None if any(map(_negates, chain(clause, after))) else False


def _near(words: Sequence[str], at: int, reach: int) -> Iterable[str]:
    """The words shortly before, up to a separator."""
    return takewhile(_goes_on, reversed(words[max(0, at - reach) : at]))


def _goes_on(word: str) -> bool:
    return word not in CLAUSE_ENDS and word not in PAUSES


def _negates(word: str) -> bool:
    return word in NEGATION or word.endswith("n't")


def _prepared(text: str) -> str:
    prepared = _QUOTED_LINE.sub("", _folded(text))
    for phrase, replacement in _PHRASES:
        prepared = phrase.sub(replacement, prepared)
    return prepared


def _folded(text: str) -> str:
    """Text for comparison: one case, one normal form, and words without invisible characters."""
    plain = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).casefold()
    return "".join(letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Mn", "Me"))


def _names(text: str, proposal_id: str) -> bool:
    if proposal_id not in text:
        return False
    return re.search(rf"(?<![\w-]){re.escape(proposal_id)}(?![\w-])", text) is not None


def _text_of(source: Mapping[str, Json]) -> str:
    return _text(source.get("text")).strip() or _text(source.get("content")).strip()


def _pair(proposal: Mapping[str, Json]) -> tuple[str, str]:
    return _text(proposal.get("proposal_id")), _text(proposal.get("proposal_message_id"))


def _is_named(proposal: Mapping[str, Json]) -> bool:
    return all(name.strip() for name in _pair(proposal))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _cut(value: Json) -> Json:
    """A value short enough for the evidence: a text, a number or a list of them; other values are left out."""
    if isinstance(value, list):
        return [_cut(item) for item in value[:ELEMENT_ITEMS] if not isinstance(item, list | dict)]
    if isinstance(value, str):
        return value[:ELEMENT_CHARACTERS]
    return None if isinstance(value, dict) else value


def _limit(contract: Mapping[str, Any]) -> int:
    policy = contract.get("evidence_policy")
    stated = policy.get("max_inline_evidence_bytes") if isinstance(policy, dict) else None
    return min(stated, EVIDENCE_BYTES) if isinstance(stated, int) else EVIDENCE_BYTES
