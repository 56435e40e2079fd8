"""Patterns of a policy: what RE2 finds, what it refuses, and what hostile ones may cost.

`re2_verdicts.json` holds patterns of many kinds with texts that they find and texts that they do not find, and patterns
that are refused. Go's `regexp`, RE2 and the parser that this project had before it took RE2 agree on every one of them.
"""

import json
from pathlib import Path

import pytest
import re2

from piecework.kernel.policy.patterns import BadPattern, Search
from tests.support.kernel.policies import a_call, a_policy

VERDICTS = json.loads((Path(__file__).parent / "re2_verdicts.json").read_text())

# In each of these other languages of patterns say something else, or the same in other words.
SEARCHES = [
    (r".", "\r", True),
    (r".", "\u2028", True),
    (r".", "\n", False),
    (r"(?s).", "\n", True),
    (r"(?s:.)a.", "\na\n", False),
    (r"\s", "\u00a0", False),
    (r"\s", "\v", False),
    (r"\S", "\v", True),
    (r"[\s]", "\v", False),
    (r"[^\s]", "\v", True),
    (r"\d", "٣", False),
    (r"[\D]", "٣", True),
    (r"\w", "é", False),
    (r"a\b", "aé", True),
    (r"a\B", "aé", False),
    (r"^[[:alpha:]]+$", "abc", True),
    (r"^[[:alpha:]]+$", "ab1", False),
    (r"[[:^alpha:]]", "a", False),
    (r"\Qa.b\E+$", "a.bb", True),
    (r"\Qa.b", "axb", False),
    (r"(?i)abc", "xABCx", True),
    (r"(?i:a)b", "AB", False),
    (r"a(?i)b|c", "C", True),
    (r"(?i)a(?-i:b)", "AB", False),
    (r"(?m)^b$", "a\nb\nc", True),
    (r"^b$", "a\nb\nc", False),
    (r"a$", "a\n", False),
    (r"\Aab\z", "ab", True),
    (r"a{,2}", "a{,2}", True),
    (r"^a{2,3}$", "aaaa", False),
    (r"{", "{", True),
    (r"[]a]", "]", True),
    (r"[a-]", "-", True),
    (r"[\d-z]", "-", True),
    (r"[a&&b]", "&", True),
    (r"(?P<n>a)(?<m>b)", "ab", True),
    (r"\p{Greek}", "α", True),
    (r"\p{^Greek}", "α", False),
    (r"[\pL]", "é", True),
    (r"\PL", "é", False),
    (r"\x41\x{e9}\101\t\a", "AéA\t\x07", True),
    (r"\v", "\v", True),
    (r"a#b ", "a#b ", True),
    (r"a||b", "", True),
    (r"a??b*?", "", True),
    (r"", "a", True),
    ("�", "\ud800", True),
    ("^.$", "\ud83d\ude00", True),
]
REFUSED = [
    "(", ")", "[", "[a", "[z-a]", "*a", "a|*", "a**", "a+*", "a{2}{3}", "a{1001}", "a{3,2}", "(?=a)", "(?<!a)",
    r"(a)\1", r"(?P=n)", r"\Z", r"\C", r"\h", r"\é", r"\8", "\\", r"\x{110000}", "(?x)a", "(?i",
    "[[:foo:]]", r"\p{Klingon}", r"\p{greek}", "\ud800", "a" * 2_001, "((a{1000}){1000}){1000}",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "finds"), SEARCHES)
def test_a_pattern_is_searched_for_by_the_rules_of_re2(pattern, text, finds):
    assert Search(pattern).finds(text) is finds


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_re2_does_not_take_or_that_is_over_our_bounds_is_refused(pattern):
    with pytest.raises(BadPattern):
        Search(pattern)


@pytest.mark.parametrize(("pattern", "found", "not_found"), VERDICTS["taken"])
def test_a_pattern_finds_what_go_finds(pattern, found, not_found):
    search = Search(pattern)

    assert [text for text in [*found, *not_found] if search.finds(text)] == found


@pytest.mark.parametrize("pattern", VERDICTS["refused"])
def test_a_pattern_that_go_refuses_is_refused(pattern):
    with pytest.raises(BadPattern):
        Search(pattern)


# Rows on which the parser before RE2 was wrong, or stricter than RE2 and Go, which agree.
SINCE_RE2 = [
    (r"a{00002}", "a{00002}", True),
    (r"a{00002}", "aa", False),
    (r"^a(?m)+$", "aaa", True),
    (r"(?i)[\W]", "-", True),
    (r"(?i)[\W]", "k", False),
    (r"\x{d800}", "\ud800", False),
    ("(" * 1_000 + ")" * 1_000, "", True),
]


@pytest.mark.parametrize(("pattern", "text", "finds"), SINCE_RE2)
def test_what_the_parser_before_refused_or_misread_is_found_as_go_finds_it(pattern, text, finds):
    assert Search(pattern).finds(text) is finds


@pytest.mark.parametrize("pattern", [r"\C", r"a\Cb", r"\\\C", r"\B", r"x|\B", r"(?:[^a]*a|\B)"])
def test_a_pattern_that_could_match_a_part_of_a_character_is_refused(pattern):
    with pytest.raises(BadPattern, match=r"^can match a part of a character, by .B or .C$"):
        Search(pattern)


@pytest.mark.parametrize("pattern", [r"\Q\C\E", r"\\C", r"a\B", r"\Ba", r"(?:a\B)+", r"a*"])
def test_a_pattern_that_looks_like_one_of_them_is_taken(pattern):
    assert not Search(f"^{pattern}$").finds("é")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "is not a pattern of RE2: missing ) at `(`"),
        ("a**", "is not a pattern of RE2: bad repetition operator at `**`"),
        ("[[:foo:]]", "is not a pattern of RE2: invalid character class range at `[:foo:]`"),
        (r"a\é", r"is not a pattern of RE2: invalid escape sequence at `\é`"),
        ("a\\", "is not a pattern of RE2: trailing \\"),
        ("(" + "é" * 100, f"is not a pattern of RE2: missing ) at `({'é' * 59}…`"),
        (r"\pL{400}", "is not a pattern of RE2: pattern too large - compile failed"),
        (r"\pL{40}", "is too large: RE2 needs more than 10000 instructions for it"),
        ("a" * 2_001, "is longer than 2000 characters"),
        ("\ud800", "holds a lone surrogate, which is not text"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(pattern, message, capfd):
    with pytest.raises(BadPattern) as refused:
        Search(pattern)

    assert str(refused.value) == message
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(?:a?){500}a{500}b", "(a|aa)+$b", r"(?:\pL{1,6})*1"])
def test_a_hostile_pattern_takes_time_that_grows_with_the_text_only(pattern):
    assert not Search(pattern).finds("a" * 100_000)


def test_a_pattern_is_compiled_when_its_policy_is_loaded_and_at_no_call(monkeypatch):
    policy = a_policy("rules: [{id: b, when: {arguments: [{field: a, pattern: ^b}]}, then: {decision: allow}}]")
    monkeypatch.delattr(re2, "compile")

    assert [policy.decide(a_call(arguments={"a": text})).rule_id for text in ("bc", "cb")] == ["b", "default"]
