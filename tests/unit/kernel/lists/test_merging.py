"""One list out of partitions that are read in part: nothing is lost, nothing comes twice, and it always goes on."""

from hypothesis import given
from hypothesis import strategies as st

from piecework.aws.table import Part
from piecework.kernel.store.listing.merging import merged


def read(keys, after, page, newest_first, dropped):
    """A partition, as a request with a filter reads it: `page` rows are looked at, and some are left out."""
    rest = sorted(key for key in keys if not after or (key < after if newest_first else key > after))
    rest = rest[::-1] if newest_first else rest
    looked = rest[:page]
    return Part([{"sk": key} for key in looked if key not in dropped], looked[-1] if len(rest) > page else "")


KEYS = st.text("abcdef", min_size=1, max_size=3)


@given(
    partitions=st.lists(st.sets(KEYS, max_size=12), min_size=1, max_size=4),
    dropped=st.sets(KEYS),
    page=st.integers(1, 5),
    newest_first=st.booleans(),
)
def test_pages_of_merged_partitions_show_each_row_once_in_order(partitions, dropped, page, newest_first):
    seen, after, rounds = [], "", 0
    while True:
        parts = [read(keys, after, page, newest_first, dropped) for keys in partitions]
        whole = merged(parts, "sk", newest_first=newest_first)
        seen += [row["sk"] for row in whole.rows]
        rounds += 1
        assert rounds < 100
        if not (after := whole.read_to):
            break

    expected = sorted((key for keys in partitions for key in keys if key not in dropped), reverse=newest_first)
    assert list(dict.fromkeys(seen)) == list(dict.fromkeys(expected))
    assert len(set(seen)) == len(set(expected))


def test_a_row_beyond_what_one_partition_has_shown_waits_for_the_next_page():
    parts = [Part([{"sk": "a"}, {"sk": "c"}], "c"), Part([{"sk": "b"}, {"sk": "d"}], "")]

    assert merged(parts, "sk") == Part([{"sk": "a"}, {"sk": "b"}, {"sk": "c"}], "c")
