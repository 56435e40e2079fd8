"""Patterns of a policy: what RE2 finds, what it refuses, and what hostile ones may cost.

`re2_verdicts.json` holds patterns of many kinds with texts that they find and texts that they do not find, and patterns
that are refused. Go's `regexp`, RE2 and the parser that this project had before it took RE2 agree on every one of them.
"""

import json
from pathlib import Path

import pytest
import re2

from piecework.kernel.policy.re2 import BadPattern, Search

VERDICTS = json.loads((Path(__file__).parent / "re2_verdicts.json").read_text())

# In each of these the engine's own language says something else, or the same in other words.
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
    r"(a)\1", r"(?P=n)", r"\Z", r"\C", r"\h", r"\é", r"\8", "\\", r"\x{110000}", r"\x{d800}", "(?x)a", "(?i",
    "[[:foo:]]", r"\p{Klingon}", r"(?i)[\W]", "\ud800", "(" * 101 + ")" * 101, "a" * 2_001, "((a{1000}){1000}){1000}",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "finds"), SEARCHES)
def test_a_pattern_is_searched_for_by_the_rules_of_re2(pattern, text, finds):
    assert Search(pattern).finds(text) is finds


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_re2_or_the_engine_does_not_take_is_refused(pattern):
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


@pytest.mark.parametrize(("pattern", "found", "not_found"), VERDICTS["taken"])
def test_re2_finds_the_same(pattern, found, not_found):
    search = re2.compile(pattern.encode())

    assert [text for text in [*found, *not_found] if search.search(text.encode())] == found


@pytest.mark.parametrize("pattern", VERDICTS["refused"])
def test_re2_refuses_the_same(pattern):
    with pytest.raises(re2.error):
        re2.compile(pattern.encode())
