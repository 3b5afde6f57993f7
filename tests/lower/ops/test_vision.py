"""Operators of torchvision, which need not be installed: stand-ins with its schemas, written from its documentation."""

from __future__ import annotations

import math

import pytest
import torch

import onward

from ..harness import NEWEST, case, check, f32, ints, run

FEW = (10, 11, 16, 19, NEWEST)
_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "ps_roi_align": "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "deform_conv2d": "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
}


def _nms(boxes, scores, iou_threshold):
    kept = []
    for i in scores.sort(descending=True, stable=True).indices.tolist():
        if all(_overlap(boxes[i], boxes[j]) <= iou_threshold for j in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def _overlap(one, other):
    """Intersection over union."""
    sides = (torch.minimum(one[2:], other[2:]) - torch.maximum(one[:2], other[:2])).clamp(min=0)
    shared = sides.prod()
    return float(shared / ((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod() - shared))


def _pixel(image, y, x):
    """Between four pixels of [channels, height, width]; zero where it is more than a pixel outside."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return image.new_zeros(image.shape[0])
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = (y - top if top < height - 1 else 0.0), (x - left if left < width - 1 else 0.0)
    above = image[:, top, left] * (1 - across) + image[:, top, right] * across
    below = image[:, bottom, left] * (1 - across) + image[:, bottom, right] * across
    return above * (1 - down) + below * down


def _roi_align(x, rois, scale, high, wide, ratio, aligned):
    result = x.new_zeros(rois.shape[0], x.shape[1], high, wide)
    for k, (image, *box) in enumerate(rois.tolist()):
        left, top, right, bottom = (each * scale - (0.5 if aligned else 0.0) for each in box)
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(height / high), math.ceil(width / wide))
        for i in range(high):
            for j in range(wide):
                points = [
                    (top + height / high * (i + (a + 0.5) / rows), left + width / wide * (j + (b + 0.5) / columns))
                    for a in range(rows)
                    for b in range(columns)
                ]
                for y, x_ in points:
                    result[k, :, i, j] += _pixel(x[int(image)], y, x_) / max(len(points), 1)
    return result


def _ps_roi_align(x, rois, scale, high, wide, ratio):
    every = _roi_align(x, rois, scale, high, wide, ratio, True)
    channels = x.shape[1] // (high * wide)
    result = every.new_zeros(rois.shape[0], channels, high, wide)
    for i in range(high):
        for j in range(wide):
            result[:, :, i, j] = every[:, i * wide + j :: high * wide, i, j]
    return result, torch.zeros(result.shape, dtype=torch.int32)


def _roi_pool(x, rois, scale, high, wide):
    result = x.new_zeros(rois.shape[0], x.shape[1], high, wide)
    for k, (image, *box) in enumerate(rois.tolist()):
        left, top, right, bottom = (math.floor(each * scale + 0.5) for each in box)
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i in range(high):
            for j in range(wide):
                rows = slice(*_part(top, height, high, i, x.shape[2]))
                columns = slice(*_part(left, width, wide, j, x.shape[3]))
                part = x[int(image), :, rows, columns]
                if part.numel():
                    result[k, :, i, j] = part.amax((1, 2))
    return result, torch.zeros(result.shape, dtype=torch.int32)


def _part(start, size, parts, place, limit):
    ends = math.floor(place * size / parts) + start, math.ceil((place + 1) * size / parts) + start
    return tuple(min(max(end, 0), limit) for end in ends)


def _deform_conv2d(x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
    batch, channels, height, width = x.shape
    outputs, per_group, rows, columns = weight.shape
    high, wide = offset.shape[2:]
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))  # a pixel of zeros around: what is outside fades out
    result = bias[None, :, None, None].repeat(batch, 1, high, wide)
    shifts = offset.reshape(batch, offset_groups, rows * columns, 2, high, wide)
    for n in range(batch):
        for c in range(channels):
            part = c // (channels // offset_groups)
            first = c // per_group * (outputs // groups)
            for place in range(rows * columns):
                r, s = divmod(place, columns)
                for i in range(high):
                    for j in range(wide):
                        down, right = shifts[n, part, place, :, i, j].tolist()
                        y, x_ = i * sh - ph + r * dh + down, j * sw - pw + s * dw + right
                        if not (-1 < y < height and -1 < x_ < width):
                            continue
                        value = _pixel(padded[n, c : c + 1], y + 1, x_ + 1)[0]
                        if use_mask:
                            value = value * mask.reshape(batch, offset_groups, -1, high, wide)[n, part, place, i, j]
                        last = first + outputs // groups
                        result[n, first:last, i, j] += weight[first:last, c % per_group, r, s] * value
    return result


def _fake_roi_align(x, rois, scale, high, wide, ratio, aligned):
    return x.new_empty(rois.shape[0], x.shape[1], high, wide)


def _fake_ps_roi_align(x, rois, scale, high, wide, ratio):
    made = x.new_empty(rois.shape[0], x.shape[1] // (high * wide), high, wide)
    return made, made.to(torch.int32)


def _fake_roi_pool(x, rois, scale, high, wide):
    made = x.new_empty(rois.shape[0], x.shape[1], high, wide)
    return made, made.to(torch.int32)


def _fake_deform_conv2d(x, weight, offset, *rest):
    return x.new_empty(x.shape[0], weight.shape[0], *offset.shape[2:])


@pytest.fixture(scope="module", autouse=True)
def torchvision():
    """The operators as torchvision defines them, where it does not."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"torchvision::{name}", "CPU"):
            library.impl(name, globals()[f"_{name}"], "CPU")
        fake = globals().get(f"_fake_{name}")
        if fake and not torch._C._dispatch_has_kernel_for_dispatch_key(f"torchvision::{name}", "Meta"):
            library.impl(name, fake, "Meta")
    yield
    library._destroy()


ops = torch.ops.torchvision


def boxes_in(count, size=20.0, seed=0):
    """Boxes of all sizes, some of them smaller than a pixel."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * size
    return torch.cat([corner, corner + torch.rand(count, 2, generator=generator) ** 2 * size / 2 + 0.1], 1)


def rois_in(count):
    """Regions in two images: the image, a corner, and the sides."""
    boxes = boxes_in(count)
    return [torch.arange(count) % 2, boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]


def rois_of(image, corner, sides):
    return torch.cat([image[:, None].to(corner), corner, corner + sides], 1)


def scores_of(count):
    """All different, some below zero."""
    return ints(count, low=-50, high=50, seed=3) + torch.arange(count) / (count + 1)


def boxes_and_scores(count):
    return [boxes_in(count), scores_of(count).float()]


def _batched(boxes, scores, classes):
    """What torchvision's batched_nms does with few boxes."""
    apart = classes.to(boxes) * (boxes.max() + 1)
    return ops.nms(boxes + apart[:, None], scores, 0.3)


COUNT = {0: {0: "boxes"}, 1: {0: "boxes"}}
IMAGES = {0: {0: "batch", 2: "height", 3: "width"}, **{place: {0: "regions"} for place in (1, 2, 3)}}
images = f32(2, 3, 9, 11)


def images_at(channels):
    return lambda size: [f32(2, channels, size + 4, size + 7), *rois_in(size + 1)]


def align(*settings):
    return lambda x, *rois: ops.roi_align(x, rois_of(*rois), *settings)


def _regions(name, function, channels=3, opsets=(10, 15, 16, 21)):
    given = [f32(2, channels, 9, 11), *rois_in(4)]
    return case(name, function, given, dynamic=IMAGES, inputs_at=images_at(channels), opsets=opsets)


def _deformed(
    name, settings, *, channels=4, groups=1, offset_groups=1, mask=False, kernel=(3, 2), opsets=(16, 19, NEWEST)
):
    (sh, sw), (ph, pw), (dh, dw) = settings
    weight, bias = f32(4, channels // groups, *kernel), f32(4, seed=5)
    places = offset_groups * kernel[0] * kernel[1]

    def function(x, offset, amount):
        return ops.deform_conv2d(x, weight, offset, amount, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, mask)

    def inputs_at(size):
        high, wide = size + 3, size + 4
        out = [(each + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for each, pad, dilation, k, stride in
               zip((high, wide), (ph, pw), (dh, dw), kernel, (sh, sw), strict=True)]  # fmt: skip
        amount = f32(size, places, *out, seed=2).sigmoid() if mask else torch.zeros(size, 1)
        return [f32(size, channels, high, wide), f32(size, 2 * places, *out, seed=1) * 1.5, amount]

    return case(
        name,
        function,
        inputs_at(2),
        dynamic={
            0: {0: "batch", 2: "h", 3: "w"},
            1: {0: "batch", 2: "a", 3: "b"},
            2: {0: "batch", 2: "a", 3: "b"} if mask else {0: "batch"},
        },
        inputs_at=inputs_at,
        sizes=(1,),
        opsets=opsets,
    )


PLAIN = ((1, 1), (0, 0), (1, 1))
CASES = [
    case("nms", lambda b, s: ops.nms(b, s, 0.3), boxes_and_scores(12), dynamic=COUNT, inputs_at=boxes_and_scores,
         sizes=(1, 30), opsets=FEW),
    case("nms, all kept", lambda b, s: ops.nms(b, s, 1.0), boxes_and_scores(6), opsets=(10, 20)),
    case("boxes and scores that were kept", lambda b, s: (b[ops.nms(b, s, 0.2)], s[ops.nms(b, s, 0.2)][:5]),
         boxes_and_scores(12), dynamic=COUNT, inputs_at=boxes_and_scores, sizes=(2, 30), opsets=(10, 17)),
    case("batched nms", _batched, [*boxes_and_scores(12), ints(12, low=0, high=3)], dynamic={**COUNT, 2: {0: "boxes"}},
         inputs_at=lambda n: [*boxes_and_scores(n), ints(n, low=0, high=3)], sizes=(1, 30), opsets=(11, 17)),
    _regions("roi_align", align(1.0, 3, 2, 2, False)),
    _regions("roi_align, scaled", align(0.25, 2, 2, 2, False), opsets=(10, 16)),
    _regions("roi_align, adaptive", align(0.5, 3, 3, -1, False), opsets=(10, 20)),
    _regions("roi_align, aligned", align(0.5, 3, 2, 2, True), opsets=(16, 21)),
    _regions("roi_align, aligned and adaptive", align(0.5, 3, 2, 0, True), opsets=(16, 20)),
    _regions("ps_roi_align", lambda x, *r: ops.ps_roi_align(x, rois_of(*r), 0.5, 3, 2, 2)[0], channels=12,
             opsets=(16, 21)),
    _regions("roi_pool", lambda x, *r: ops.roi_pool(x, rois_of(*r), 0.5, 3, 2)[0], opsets=(9, 17, 21)),
    _deformed("deform_conv2d", PLAIN),
    _deformed("deform_conv2d with a mask", PLAIN, mask=True),
    _deformed("deform_conv2d, all settings", ((2, 1), (1, 2), (1, 2)), groups=2, offset_groups=2, mask=True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


def test_the_count_of_kept_boxes_is_an_axis_of_its_own():
    model = check(case("nms", lambda b, s: ops.nms(b, s, 0.3), boxes_and_scores(12), dynamic=COUNT,
                       inputs_at=boxes_and_scores), 17)  # fmt: skip
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["nms_1"]


@pytest.mark.parametrize(
    ("function", "args", "opset", "message"),
    [
        (lambda b, s: ops.nms(b, s, 0.3), boxes_and_scores(4), 9, r"torchvision.nms.default.*exists from 10"),
        (align(1.0, 2, 2, 2, True), [images, *rois_in(2)], 15, r"with aligned=True.*exists from 16"),
        (
            lambda x, *r: ops.roi_pool(x, rois_of(*r), 1.0, 2, 2)[1] + 1,
            [images, *rois_in(2)],
            17,
            "result 1 is not computed",
        ),
    ],
)
def test_what_cannot_be_written(function, args, opset, message):
    with pytest.raises(onward.ExportError, match=message):
        onward.export(function, tuple(args), opset_version=opset)


def test_torchvisions_own_symbolic_functions_are_not_asked():
    """It registers them with PyTorch when it is imported; a user's are asked (tests/lower/test_symbolic.py)."""

    def symbolic(g, *args):
        raise ValueError("not to be called")

    symbolic.__module__ = "torchvision.ops._register_onnx_ops"
    torch.onnx.register_custom_op_symbolic("torchvision::nms", symbolic, 11)
    try:
        check(case("nms", lambda b, s: ops.nms(b, s, 0.3), boxes_and_scores(12)), 17)
    finally:
        torch.onnx.unregister_custom_op_symbolic("torchvision::nms", 11)
