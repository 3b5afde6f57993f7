"""The operators of torchvision, by their names: nothing here needs torchvision.

Boxes are (x1, y1, x2, y2). Regions of interest are rows of five: the number of the image, then the box.
"""

from __future__ import annotations

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

_ALL = 2**31 - 1  # more boxes than anybody has


@lowers("torchvision::nms", since=10)
def nms(g: Emitter, boxes: Value, scores: Value, iou_threshold: float) -> Value:
    """nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor

    ONNX takes boxes of several images and scores of several classes, and gives rows (image, class, box). In each class
    the best box comes first, as here; ONNX's order of coordinates is another, which no intersection depends on.
    """
    boxes = g.unsqueeze(g.cast(boxes, torch.float32), [0])
    scores = g.unsqueeze(g.cast(scores, torch.float32), [0, 1])
    limit, threshold = g.const([_ALL]), g.const([iou_threshold], torch.float32)
    found = g.annotate(g.op.NonMaxSuppression(boxes, scores, limit, threshold), (g.out.shape[0], 3), torch.int64)
    return g.squeeze(g.slice(found, [2], [3], [1]), [1])


def _check_kernel(g: Emitter, op: str) -> None:
    """Opset 22 gave these operators one more type, and onnxruntime 1.31 has no kernels for the new versions."""
    if not g.can_run(op):
        raise g.unsupported(f"onnxruntime has no kernel for {op} of opset {g.opset}; try opset_version=21")


def _regions(g: Emitter, rois: Value) -> tuple[Value, Value]:
    """The boxes [regions, 4], and the number of the image of each."""
    images, boxes = g.split(rois, [1, 4], 1)
    return boxes, g.cast(g.squeeze(images, [1]), torch.int64)


@lowers("torchvision::roi_align", since=10)
def roi_align(
    g: Emitter,
    x: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,
    int sampling_ratio, bool aligned) -> Tensor"""
    if aligned and g.opset < 16:  # shifted boxes would not do: those smaller than a pixel are widened to one
        raise g.needs_opset(16, "torchvision.roi_align.default with aligned=True")
    _check_kernel(g, "RoiAlign")
    boxes, images = _regions(g, rois)
    mode = {"coordinate_transformation_mode": "half_pixel" if aligned else "output_half_pixel"} if g.opset >= 16 else {}
    return g.op.RoiAlign(
        x,
        boxes,
        images,
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=max(sampling_ratio, 0),  # 0: as many as the region has pixels
        spatial_scale=spatial_scale,
        **mode,
    )


@lowers("torchvision::ps_roi_align", since=16)
def ps_roi_align(
    g: Emitter,
    x: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> list[Value]:
    """ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,
    int sampling_ratio) -> (Tensor, Tensor)

    Every place of the result has channels of its own: all are computed, and of each channel its own place is taken.
    """
    every = roi_align(g, x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    places = pooled_height * pooled_width
    regions, channels = g.dim_size(rois, 0), g.out[0].shape[1]
    own = g.const([place * (places + 1) for place in range(places)])
    taken = g.op.Gather(g.reshape(every, [regions, channels, places * places]), own, axis=2)
    return [g.reshape(taken, [regions, channels, pooled_height, pooled_width])]


@lowers("torchvision::roi_pool")
def roi_pool(
    g: Emitter, x: Value, rois: Value, spatial_scale: float, pooled_height: int, pooled_width: int
) -> list[Value]:
    """roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width)
    -> (Tensor, Tensor)"""
    _check_kernel(g, "MaxRoiPool")
    return [g.op.MaxRoiPool(x, rois, pooled_shape=[pooled_height, pooled_width], spatial_scale=spatial_scale)]


@lowers("torchvision::deform_conv2d", since=16)
def deform_conv2d(
    g: Emitter,
    x: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Value:
    """deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,
    SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,
    SymInt offset_groups, bool use_mask) -> Tensor

    Before opset 19: what the kernel meets is sampled, all its places side by side, and a 1x1 convolution follows.
    """
    batch, channels, height, width = (g.dim_size(x, axis) for axis in range(4))
    rows, columns = g.known_dims(weight)[2:]
    out_h, out_w = (g.dim_size(offset, axis) for axis in (2, 3))
    kernel = rows * columns  # type: ignore[operator]
    shifts = g.reshape(offset, [batch * offset_groups, kernel, 2, out_h, out_w])
    down, right = (g.squeeze(each, [2]) for each in g.split(shifts, [1, 1], 2))
    dtype = g.dtype(x)
    # Where each place of the kernel lies without offsets, as [kernel, out_h, 1] and [kernel, 1, out_w].
    within_h = g.const([[[r * dilation_h - pad_h]] for r in range(rows) for _ in range(columns)], dtype)  # type: ignore[arg-type]
    within_w = g.const([[[c * dilation_w - pad_w]] for _ in range(rows) for c in range(columns)], dtype)  # type: ignore[arg-type]
    steps_h = g.unsqueeze(g.op.Mul(g.arange(0, out_h, 1, dtype), g.const(stride_h, dtype)), [1])
    steps_w = g.op.Mul(g.arange(0, out_w, 1, dtype), g.const(stride_w, dtype))
    at_h = _normalised(g, g.op.Add(down, g.op.Add(within_h, steps_h)), height)
    at_w = _normalised(g, g.op.Add(right, g.op.Add(within_w, steps_w)), width)
    grid = g.op.Concat(g.unsqueeze(at_w, [4]), g.unsqueeze(at_h, [4]), axis=4)
    grid = g.reshape(grid, [batch * offset_groups, kernel * out_h, out_w, 2])
    sources = g.reshape(x, [batch * offset_groups, channels // offset_groups, height, width])
    mode = "linear" if g.opset >= 20 else "bilinear"
    found = g.op.GridSample(sources, grid, mode=mode, padding_mode="zeros", align_corners=0)
    if use_mask:
        found = g.reshape(found, [batch, offset_groups, channels // offset_groups, kernel, out_h, out_w])
        found = g.op.Mul(found, g.reshape(mask, [batch, offset_groups, 1, kernel, out_h, out_w]))
    found = g.reshape(found, [batch, channels * kernel, out_h, out_w])
    flat = g.reshape(weight, [g.dim_size(weight, 0), g.dim_size(weight, 1) * kernel, 1, 1])
    return g.annotate(g.op.Conv(found, flat, bias, kernel_shape=[1, 1], group=groups), g.out.shape)


def _normalised(g: Emitter, place: Value, size: object) -> Value:
    """A place in pixels as GridSample counts: -1 and 1 are the outer edges of the image."""
    dtype = g.dtype(place)
    middle = g.op.Add(g.op.Add(place, place), g.const(1.0, dtype))
    return g.op.Sub(g.op.Div(middle, g.cast(g.size(size), dtype)), g.const(1.0, dtype))


@lowers("torchvision::deform_conv2d", since=19)
def deform_conv2d_as_one(
    g: Emitter,
    x: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Value:
    """deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,
    SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,
    SymInt offset_groups, bool use_mask) -> Tensor"""
    made = g.op.DeformConv(
        x,
        weight,
        offset,
        bias,
        mask if use_mask else None,
        kernel_shape=list(g.known_dims(weight)[2:]),
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
    )
    return g.annotate(made, g.out.shape)
