"""Pictures in files, by Pillow, which is needed for nothing else."""

from __future__ import annotations

import io

import numpy as np
import torch
from torch import Tensor

from ...errors import BackendError, MissingDependencyError
from ..registry import implements

# Those that the operator is defined for: Pillow reads many more, and a file is untrusted.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


@implements("ImageDecoder")
def image_decoder(encoded: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """Height, width, channels."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("ImageDecoder reads pictures with Pillow", hint="pip install pillow") from error
    modes = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
    if pixel_format not in modes:
        raise BackendError(f"pixel_format is one of {', '.join(modes)}, not {pixel_format!r}")
    with Image.open(io.BytesIO(encoded.cpu().numpy().tobytes()), formats=_FORMATS) as picture:
        pixels = torch.from_numpy(np.array(picture.convert(modes[pixel_format])))
    if pixel_format == "Grayscale":
        return pixels.unsqueeze(-1)
    return pixels.flip(-1) if pixel_format == "BGR" else pixels
