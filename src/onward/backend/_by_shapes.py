"""Operators whose results have sizes that follow from shapes and attributes, whatever the values of the inputs.

An operator that is not here may read a size from a value, so every call of it is watched (`limits.py`).
"""

BY_SHAPES = frozenset(
    {
        "ATen", "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
        "Attention", "AveragePool", "BatchNormalization", "Bernoulli", "BiasAdd", "BiasGelu", "BiasSplitGelu",
        "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil",
        "Celu", "Clip", "Concat", "Conv", "ConvInteger", "ConvTranspose", "Cos", "Cosh", "CumProd", "CumSum",
        "DeformConv", "DepthToSpace", "DequantizeLinear", "Det", "Div", "Dropout", "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul", "Einsum", "Elu", "EmbedLayerNormalization", "Equal", "Erf", "Exp", "EyeLike",
        "FastGelu", "Flatten", "Floor", "FusedConv", "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "GRU",
        "Gather", "GatherBlockQuantized", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool",
        "GlobalLpPool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GridSample", "GroupNorm", "GroupNormalization",
        "HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM",
        "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "LpNormalization", "LpPool",
        "MatMul", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits", "Max", "MaxPool", "Mean",
        "MeanVarianceNormalization", "Min", "Mish", "Mod", "Mul", "MultiHeadAttention", "Neg", "NhwcConv",
        "NhwcFusedConv", "NhwcMaxPool", "NonZero", "Not", "Or", "PRelu", "Pow", "QAttention", "QGemm", "QLinearAdd",
        "QLinearAveragePool", "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
        "QLinearMatMul", "QLinearMul", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere", "QuantizeLinear",
        "QuickGelu", "RMSNormalization", "RNN", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
        "Relu", "Reshape", "RotaryEmbedding", "Round", "ScaledSiLU", "Scatter", "ScatterElements", "ScatterND",
        "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "SimplifiedLayerNormalization", "Sin", "Sinh", "Size",
        "SkipGroupNorm", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Slice", "Softmax", "Softplus",
        "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tan", "Tanh",
        "ThresholdedRelu", "Transpose", "TransposeMatMul", "Trilu", "Unsqueeze", "Where", "Xor",
    }
)  # fmt: skip
NESTED = "a plan of its own"  # what such a step calls is watched step by step
