"""Operators of ai.onnx.ml that prepare features and name results. A map is a dict, as onnxruntime has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from ..values import strings

_DOMAIN = "ai.onnx.ml"


@implements("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(x: Tensor, indices: Tensor) -> Tensor:
    picked = x.index_select(-1, indices.reshape(-1))
    return picked.reshape(1, -1) if x.dim() == 1 else picked


@implements("Binarizer", domain=_DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@implements("LabelEncoder", domain=_DOMAIN)
def label_encoder(x: Any, **attributes: Any) -> Any:
    """Keys and values of any of the types that they come in; what is no key becomes the default."""
    kinds = ("tensor", "int64s", "strings", "floats")
    keys = next(_listed(attributes[f"keys_{kind}"]) for kind in kinds if f"keys_{kind}" in attributes)
    kind = next(kind for kind in kinds if f"values_{kind}" in attributes)
    values = attributes[f"values_{kind}"]
    default = attributes.get("default_tensor") if kind == "tensor" else None
    if default is None:
        fallbacks = {"int64s": ("default_int64", -1), "strings": ("default_string", "_Unused")}
        default = attributes.get(*fallbacks.get(kind, ("default_float", -0.0)))
    else:
        default = _listed(default)[0]
    table = dict(zip(keys, _listed(values), strict=True))
    nan = next((value for key, value in table.items() if key != key), default)
    items = [nan if item != item else table.get(item, default) for item in _listed(x)]
    if kind == "strings" or isinstance(values, np.ndarray):
        return strings(items, x.shape)
    dtype = {"int64s": torch.int64, "floats": torch.float32}.get(kind)
    return torch.tensor(items, dtype=dtype or values.dtype).reshape(x.shape)


def _listed(x: Any) -> list[Any]:
    if isinstance(x, (torch.Tensor, np.ndarray)):
        return list(x.reshape(-1).tolist())
    return list(x)


@implements("Scaler", domain=_DOMAIN)
def scaler(x: Tensor, *, offset: list[float], scale: list[float]) -> Tensor:
    return (x.float() - torch.tensor(offset)) * torch.tensor(scale)


@implements("Normalizer", domain=_DOMAIN)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    x = x.float()
    length: Any = {"MAX": x.amax, "L1": x.abs().sum, "L2": x.norm}[norm]
    size = length(dim=-1, keepdim=True)
    return x / torch.where(size == 0, torch.ones_like(size), size)


@implements("Imputer", domain=_DOMAIN)
def imputer(
    x: Tensor,
    *,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    floating = x.is_floating_point()
    old = replaced_value_float if floating else replaced_value_int64
    new = torch.tensor(imputed_value_floats if floating else imputed_value_int64s).to(x.dtype)
    missing = torch.isnan(x) if old != old else x == old
    return torch.where(missing, new, x)


@implements("FeatureVectorizer", domain=_DOMAIN)
def feature_vectorizer(*xs: Tensor, inputdimensions: list[int] | None = None) -> Tensor:
    return torch.cat([x.reshape(x.shape[0], -1).float() for x in xs], 1)


@implements("OneHotEncoder", domain=_DOMAIN)
def one_hot_encoder(
    x: Any, *, cats_int64s: list[int] | None = None, cats_strings: list[str] | None = None, zeros: int = 1
) -> Tensor:
    categories: list[Any] = list(cats_strings if cats_strings is not None else cats_int64s or [])
    items = _listed(x)
    rows = [[float(item == category) for category in categories] for item in items]
    if not zeros and any(item not in categories for item in items):
        raise BackendError("OneHotEncoder met a category that it does not know, and zeros=0 forbids it")
    return torch.tensor(rows).reshape(*x.shape, len(categories))


@implements("CategoryMapper", domain=_DOMAIN)
def category_mapper(
    x: Any,
    *,
    cats_int64s: list[int],
    cats_strings: list[str],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:
    """Strings to numbers or numbers to strings, whichever comes."""
    if len(cats_int64s) != len(cats_strings):
        raise BackendError(f"CategoryMapper has {len(cats_int64s)} numbers for {len(cats_strings)} strings")
    if isinstance(x, np.ndarray):
        to_number = dict(zip(cats_strings, cats_int64s, strict=True))
        found = [to_number.get(item, default_int64) for item in _listed(x)]
        return torch.tensor(found, dtype=torch.int64).reshape(x.shape)
    to_string = dict(zip(cats_int64s, cats_strings, strict=True))
    return strings([to_string.get(item, default_string) for item in _listed(x)], x.shape)


@implements("DictVectorizer", domain=_DOMAIN)
def dict_vectorizer(
    x: Mapping[Any, Any], *, int64_vocabulary: list[int] | None = None, string_vocabulary: list[str] | None = None
) -> Any:
    """The values of a map in the order of the vocabulary; what the map lacks is 0 or an empty string."""
    words: list[Any] = list(string_vocabulary or int64_vocabulary or [])
    values = [x.get(word) for word in words]
    if any(isinstance(value, str) for value in x.values()):
        return strings(["" if value is None else value for value in values], (1, len(values)))
    whole = all(isinstance(value, (int, np.integer)) for value in x.values())
    filled = [0 if value is None else value for value in values]
    return torch.tensor([filled], dtype=torch.int64 if whole else torch.float32)


@implements("CastMap", domain=_DOMAIN)
def cast_map(x: Mapping[int, Any], *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Any:
    """The values in the order of their keys; SPARSE, each at the place that its key says."""
    keys = sorted(x)
    if map_form == "SPARSE":
        if keys and not 0 <= keys[0] <= keys[-1] < max_map:
            raise BackendError(f"a key of the map is outside 0 to {max_map - 1}, where max_map ends it")
        items = [x.get(key) for key in range(max_map)]
    elif map_form == "DENSE":
        items = [x[key] for key in keys]
    else:
        raise BackendError(f"map_form is DENSE or SPARSE, not {map_form!r}")
    if cast_to == "TO_STRING":
        return strings([_text(item) for item in items], (1, len(items)))
    if cast_to not in ("TO_FLOAT", "TO_INT64"):
        raise BackendError(f"cast_to is TO_FLOAT, TO_INT64 or TO_STRING, not {cast_to!r}")
    numbers = [float(item or 0) for item in items]
    if cast_to == "TO_INT64":
        return torch.tensor([[int(item) for item in numbers]], dtype=torch.int64)
    return torch.tensor([numbers], dtype=torch.float32)


def _text(item: Any) -> str:
    if item is None:
        return "0.f"  # what onnxruntime writes for a key that is not there
    return item if isinstance(item, str) else f"{item:f}"


@implements("ZipMap", domain=_DOMAIN)
def zip_map(
    x: Tensor, *, classlabels_int64s: list[int] | None = None, classlabels_strings: list[str] | None = None
) -> list[dict[Any, float]]:
    """A sequence of maps, one for each row: label to score."""
    labels: list[Any] = list(classlabels_strings or classlabels_int64s or [])
    rows = x.reshape(1, -1) if x.dim() == 1 else x
    if rows.shape[1] != len(labels):
        raise BackendError(f"ZipMap has {len(labels)} labels for {rows.shape[1]} columns")
    return [dict(zip(labels, row, strict=True)) for row in rows.tolist()]
