/** What the colour of a box says: its kind of operator, or how much of something it costs. */

import { bytes, error, time, whole } from "./format.js";

const FAMILIES = {
  convolution: "Conv ConvTranspose ConvInteger QLinearConv DeformConv Col2Im",
  "matrix product": "MatMul Gemm Einsum MatMulInteger QLinearMatMul QGemm MatMulNBits FusedMatMul DynamicQuantizeMatMul",
  attention: "Attention MultiHeadAttention GroupQueryAttention RotaryEmbedding SkipLayerNormalization",
  recurrent: "LSTM GRU RNN",
  normalisation: "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization RMSNormalization SimplifiedLayerNormalization LpNormalization LRN MeanVarianceNormalization",
  activation: "Relu LeakyRelu PRelu Elu Selu Celu Gelu FastGelu BiasGelu QuickGelu Sigmoid HardSigmoid HardSwish Swish Mish Tanh Softmax LogSoftmax Softplus Softsign ThresholdedRelu Hardmax Clip Erf",
  "pooling and reduction": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool MaxRoiPool RoiAlign ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare ArgMax ArgMin CumSum TopK",
  "shape and data": "Reshape Transpose Concat Split Slice Gather GatherElements GatherND ScatterElements ScatterND Scatter Squeeze Unsqueeze Flatten Expand Tile Pad Shape Size Identity Cast CastLike Resize Upsample DepthToSpace SpaceToDepth Where NonZero Compress Unique OneHot Trilu EyeLike Range ReverseSequence Constant ConstantOfShape",
  quantisation: "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
  "control flow": "If Loop Scan SequenceAt SequenceConstruct SequenceInsert SequenceEmpty ConcatFromSequence SplitToSequence",
};
const NAMES = [...Object.keys(FAMILIES), "element by element and others"];
const FAMILY = new Map(Object.entries(FAMILIES).flatMap(([name, ops]) => ops.split(" ").map((op) => [op, NAMES.indexOf(name)])));

/** The number of its family, a colour in the style sheet. */
export const family = (op) => FAMILY.get(op) ?? NAMES.length - 1;

/** A call of one of the file's own functions: what it is made of has colours, it has none. */
const called = (box) => box.children.length > 0 && !FAMILY.has(box.node.op);

const MODES = {
  family: { title: "operator family" },
  time: { title: "time in onnxruntime", key: "microseconds", write: time },
  error: { title: "error against PyTorch", key: "error", write: error },
  memory: { title: "memory traffic", key: "memory", write: bytes },
  problems: { title: "problems elsewhere", key: "problems", write: (value) => whole(Math.ceil(value)) },
};

/** The ways of colouring for which there is data. */
export function modes(root) {
  const told = (key) => (key === "problems" ? root.sums.problems > 0 : root.sums[key] !== null);
  return Object.entries(MODES).filter(([, { key }]) => !key || told(key)).map(([id, { title }]) => [id, title]);
}

export class Colours {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.model = model;
    this.use("family");
  }

  use(mode) {
    this.mode = mode;
    const { key } = MODES[mode];
    const found = this.model.boxes.filter((box) => box.kind === "node" && box.sums).map((box) => box.sums[key] ?? 0).filter(Number.isFinite);
    this.most = key ? found.reduce((a, b) => Math.max(a, b), 0) : 0;
  }

  /** The attributes of a box that carry its colour. */
  of(box) {
    if (box.kind === "input" || box.kind === "output") return {};
    if (this.mode === "family") return box.kind === "node" && !called(box) ? { "data-family": family(box.node.op) } : {};
    const value = box.sums[MODES[this.mode].key];
    if (value === null) return { "data-heat": "unknown" };
    if (this.mode === "error" && box.sums.wrong) return { "data-heat": "wrong" };
    return { "data-heat": "known", style: `--heat: ${Math.round(this.heat(value) * 100)}%` };
  }

  /** 0 to 1: errors by their exponent (1e-8 is nothing, 1e-2 all), costs by their root, so that small ones still differ. */
  heat(value) {
    if (this.mode === "error") return value > 0 ? Math.min(1, Math.max(0, (Math.log10(value) + 8) / 6)) : 0;
    return this.most > 0 ? Math.min(1, Math.sqrt(value / this.most)) : 0;
  }

  /** Pairs of attributes and text. */
  legend() {
    if (this.mode === "family") {
      const used = new Set(this.model.boxes.filter((box) => box.kind === "node" && !called(box)).map((box) => family(box.node.op)));
      return NAMES.flatMap((name, i) => (used.has(i) ? [[{ "data-family": i }, name]] : []));
    }
    const { write } = MODES[this.mode];
    const steps = this.mode === "error" ? [1e-8, 1e-6, 1e-4, 1e-2] : [0, this.most / 16, this.most / 4, this.most];
    const rows = steps.map((value) => [{ "data-heat": "known", style: `--heat: ${Math.round(this.heat(value) * 100)}%` }, write(value)]);
    if (this.mode === "error") rows.push([{ "data-heat": "wrong" }, "beyond tolerance"]);
    const different = rows.filter(([, text], i) => i === 0 || text !== rows[i - 1][1]);
    return this.mode === "problems" ? different : [...different, [{ "data-heat": "unknown" }, "not known"]];
  }
}
