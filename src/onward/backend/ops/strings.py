"""Strings: numpy arrays of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..limits import FOR_EACH, about_to_make
from ..registry import implements
from ..values import strings
from ._regex import FullMatch

Strings = np.ndarray[Any, Any]


@implements("StringConcat")
def string_concat(x: Strings, y: Strings) -> Strings:
    return np.asarray(np.add(x, y), dtype=object)


@implements("RegexFullMatch")
def regex_full_match(x: Strings, *, pattern: str) -> Tensor:
    matches = FullMatch(pattern)
    return torch.tensor([matches(item) for item in x.ravel()], dtype=torch.bool).reshape(x.shape)


@implements("StringSplit")
def string_split(x: Strings, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Strings, Tensor]:
    most = -1 if maxsplit is None else maxsplit
    parts = [item.split(delimiter or None, most) if item else [] for item in x.ravel()]
    longest = max(map(len, parts), default=0)
    about_to_make(len(parts), longest)
    filled = [item for row in parts for item in row + [""] * (longest - len(row))]
    counts = torch.tensor([len(row) for row in parts], dtype=torch.int64)
    return strings(filled, (*x.shape, longest)), counts.reshape(x.shape)


@implements("StringNormalizer")
def string_normalizer(
    x: Strings,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Sequence[str] = (),
) -> Strings:
    dropped = set(stopwords) if is_case_sensitive else {word.lower() for word in stopwords}
    change = {"UPPER": str.upper, "LOWER": str.lower}.get(case_change_action, str)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    kept = [
        [change(item) for item in row if (item if is_case_sensitive else item.lower()) not in dropped] or [""]
        for row in rows
    ]
    flat = [item for row in kept for item in row]
    return strings(flat, (len(flat),) if x.ndim == 1 else (len(rows), len(kept[0])))


@implements("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Tensor:
    """How often each n-gram of the pool occurs in each row, elements up to a distance apart."""
    pool: list[Any] = list(pool_strings if pool_strings is not None else pool_int64s or [])
    grams: dict[tuple[Any, ...], int] = {}
    for length, start in enumerate(ngram_counts, 1):
        stop = ngram_counts[length] if length < len(ngram_counts) else len(pool)
        for place in range(max(start, 0), min(stop, len(pool)), length):
            grams[tuple(pool[place : place + length])] = len(grams)
    max_gram_length = min(max_gram_length, len(ngram_counts))
    rows = x.tolist() if len(x.shape) > 1 else [x.tolist()]
    about_to_make(x.size if isinstance(x, np.ndarray) else x.numel(), max_gram_length, FOR_EACH)
    result = torch.zeros(len(rows), max(ngram_indexes) + 1)
    for row, items in enumerate(rows):
        for length in range(max(min_gram_length, 1), max_gram_length + 1):
            for skip in range(1, (min(max_skip_count, len(items)) if length > 1 else 0) + 2):
                for start in range(len(items) - (length - 1) * skip):
                    found = grams.get(tuple(items[start : start + length * skip : skip]))
                    if found is not None:
                        result[row, ngram_indexes[found]] += 1
    if mode != "TF":
        factors = torch.ones(result.shape[1])
        if weights:
            factors[torch.tensor(ngram_indexes)] = torch.tensor(weights)
        result = (result > 0) * factors if mode == "IDF" else result * factors
    return result if len(x.shape) > 1 else result[0]
