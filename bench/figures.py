"""Samples of a run, and what is told of them: medians, their spread, and ratios of rounds that alternated."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median, quantiles
from typing import Final

Samples = Mapping[str, float | Sequence[float]]  # a number, or a sample per round
DIGITS: Final = 4


def medians(samples: Samples) -> dict[str, float]:
    """Every figure as one number."""
    return {name: short(_median(sample)) for name, sample in samples.items()}


def spreads(samples: Samples) -> dict[str, list[float]]:
    """The tenth and the ninetieth percentile of each figure that has a sample per round."""
    return {name: list(spread(sample)) for name, sample in samples.items() if not isinstance(sample, int | float)}


def ratios(samples: Samples, pairs: Mapping[str, tuple[str, str]]) -> dict[str, float | Sequence[float]]:
    """The ratio of each pair that was measured: round by round where both have a sample per round."""
    return {
        name: _ratio(samples[ours], samples[other])
        for name, (ours, other) in pairs.items()
        if ours in samples and other in samples
    }


def spread(sample: Sequence[float]) -> tuple[float, float]:
    """The tenth and the ninetieth percentile."""
    if len(sample) == 1:
        return short(sample[0]), short(sample[0])
    tenths = quantiles(sample, n=10, method="inclusive")
    return short(tenths[0]), short(tenths[-1])


def percentiles(sample: Sequence[float], wanted: Iterable[int]) -> dict[int, float]:
    """Percentiles of many samples."""
    hundredths = quantiles(sample, n=100, method="inclusive") if len(sample) > 1 else [sample[0]] * 99
    return {number: short(hundredths[number - 1]) for number in wanted}


def short(value: float) -> float:
    """The number with the digits that a measurement deserves."""
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def _median(sample: float | Sequence[float]) -> float:
    return sample if isinstance(sample, int | float) else median(sample)


def _ratio(ours: float | Sequence[float], other: float | Sequence[float]) -> float | Sequence[float]:
    if isinstance(ours, int | float) or isinstance(other, int | float):
        return _median(ours) / _median(other)
    return [mine / theirs for mine, theirs in zip(ours, other, strict=True)]
