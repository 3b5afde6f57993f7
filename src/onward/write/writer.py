"""An `onnx_ir.Model` into a file: streamed, whole or not at all, the same bytes every time.

The weights are never copied as a whole. They go from the memory they live in to the file, one after the other, in
between the few bytes of protobuf that frame them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from onward.errors import InputError, WriteError
from onward.target import Destination
from onward.write import files
from onward.write.destinations import DescribedTarget, WrittenFiles, target_for
from onward.write.external import Layout
from onward.write.framing import LIMIT, Segment, TensorData, model_segments, total_length
from onward.write.skeleton import initializers, make_skeleton
from onward.write.tensors import pieces

Progress = Callable[[int, int], None]


def write_model(
    model: ir.Model,
    destination: Destination,
    *,
    external_data: bool | None = None,
    size_threshold_bytes: int = 1024,
    progress: Progress | None = None,
    durable: bool = False,
) -> WrittenFiles:
    """Write a model to a path, to a binary file object, or to a `Target` of the caller's own.

    external_data         True: weights go to `<path>.data`. False: one file. None: one file if it fits into 2 GiB.
    size_threshold_bytes  with a data file, smaller tensors stay in the model all the same
    progress              called with (bytes written, bytes in all) as writing goes on
    durable               wait until the disk has everything before the files take their names

    Tied weights (the same memory under two names) are stored once. The model is only read, never changed.
    """
    if size_threshold_bytes < 0:
        raise InputError(f"size_threshold_bytes is {size_threshold_bytes}; it cannot be negative")
    target = target_for(destination, durable=durable)
    if target.data_name is None and external_data:
        raise WriteError("a stream has no place for a data file", hint="give a path, or leave external_data out")
    if target.data_name is None or external_data is not True:
        segments = model_segments(make_skeleton(model, merge_ties=True))
        if total_length(segments) <= LIMIT:
            return _write(target, segments, None, progress)
        if target.data_name is None:
            hint = "give a path instead of a stream, so that the weights can go to a data file"
            raise _too_long(total_length(segments), hint)
        if external_data is False:
            raise _too_long(total_length(segments), "leave external_data at None, or set it to True, for a data file")
    layout = Layout(target.data_name, size_threshold_bytes)
    segments = model_segments(make_skeleton(model, merge_ties=False), layout)
    if total_length(segments) > LIMIT:
        raise _too_long(total_length(segments), f"lower size_threshold_bytes (now {size_threshold_bytes})")
    return _write(target, segments, layout if layout.size else None, progress)


def model_bytes(model: ir.Model) -> bytes:
    """The model as one string of bytes, exactly what `write_model` puts into a single file."""
    buffer = io.BytesIO()
    write_model(model, buffer)
    return buffer.getvalue()


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as protobuf, weights included: what reading the single file back would give."""
    skeleton = make_skeleton(model, merge_ties=True)
    for initializer in initializers(skeleton.proto):
        tensor = skeleton.redeem(initializer)
        if tensor is not None:
            stored = io.BytesIO()
            for piece in pieces(tensor):
                stored.write(piece)
            initializer.raw_data = stored.getvalue()
    return skeleton.proto


def _write(
    target: DescribedTarget, segments: Sequence[Segment], layout: Layout | None, progress: Progress | None
) -> WrittenFiles:
    total = total_length(segments) + (0 if layout is None else layout.size)
    counter = _Counter(total, progress)
    with target.explaining(total):
        try:
            if layout is not None:
                _stream_data(layout, target.open(layout.location), counter)
            _stream(segments, target.open(target.name), counter)
            target.commit()
        except BaseException:
            target.abort()
            raise
    return target.written(total, layout is not None)


class _Counter:
    """Adds up what has been written, in one file or two, and tells the caller."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._done = total, progress, 0

    def __call__(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)


def _stream(segments: Sequence[Segment], target: Any, counter: _Counter) -> None:
    sink = files.Sink(target, counter)
    for segment in segments:
        if isinstance(segment, TensorData):
            _write_tensor(segment.tensor, segment.length, segment.name, sink)
        else:
            sink.write(segment)
    sink.flush()


def _stream_data(layout: Layout, target: Any, counter: _Counter) -> None:
    sink = files.Sink(target, counter)
    for tensor, place in layout.stored():
        sink.pad_to(place.offset)
        _write_tensor(tensor, place.length, str(tensor.name), sink)
    sink.flush()


def _write_tensor(tensor: ir.TensorProtocol, length: int, name: str, sink: files.Sink) -> None:
    start = sink.position
    for piece in pieces(tensor):
        sink.write(piece)
    written = sink.position - start
    if written != length:
        # Every length after this one in the file would be wrong.
        raise WriteError(
            f"the weight '{name}' has {written} bytes, and its type and shape ({tensor.dtype}, {tensor.shape}) "
            f"ask for {length}"
        )


def _too_long(length: int, hint: str) -> WriteError:
    return WriteError(
        f"the model is {files.readable(length)} in one file, and ONNX files end at 2 GiB (a limit of protobuf)",
        hint=hint,
    )
