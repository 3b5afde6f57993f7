/* What fake quantization does to the values of a tensor, in as few passes over them as there can be.
 *
 * Every function here has its twin in `grids/fake_quantize.py`, in PyTorch's own operations, which is used where this file was not
 * compiled, and for tensors that are not contiguous float32 on the CPU. Both give the same values to the last bit: one
 * division, one rounding, one multiplication. (Sums of gradients alone are added in another order.) For that reason no
 * two operations may be fused: compile with -ffp-contract=off, and without -ffast-math.
 *
 * Tensors come as the address and the number of their values. Nothing here checks these: `native.py` does.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INTERFACE 4 /* another number whenever a function takes other arguments: `native.py` has the same */

/* One version of a loop for each kind of processor, chosen when the module is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef EACH_PROCESSOR
#define EACH_PROCESSOR
#endif

#define LANES 16   /* values that are added or compared side by side */
#define BLOCK 4096 /* values whose sum a float still holds well */
#define LARGE 16384 /* values from which on other threads of Python may run meanwhile */

/* The bits of floats, compared as integers: as they are for magnitudes, and for values of both signs with those below
 * zero turned around. Integers have a largest one whatever the order, so that compilers compare many at once; and what
 * is not finite lies outside of all that is. */
#define INFINITE 0x7f800000

static inline int32_t bits_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline int32_t turned(int32_t bits)
{
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

static inline float of_bits(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef struct {
    int32_t low, high;
} Ends;

EACH_PROCESSOR
static Ends ends_of(const float *x, Py_ssize_t count)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (Py_ssize_t i = 0; i < count; i++) {
        int32_t each = turned(bits_of(x[i]));
        low = each < low ? each : low;
        high = each > high ? each : high;
    }
    return (Ends){low, high};
}

/* To multiples of a scale, what lies between two values; the rest as if it were the nearer one. `inside`, if there is
 * one, says which. */
EACH_PROCESSOR
static void limited_to_even(const float *x, float *out, uint8_t *inside, Py_ssize_t count, float scale, float low,
                            float high)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        float value = x[i];
        if (inside)
            inside[i] = value > low && value < high;
        value = value < low ? low : value;
        value = value > high ? high : value;
        out[i] = rintf(value / scale) * scale;
    }
}

EACH_PROCESSOR
static void limited_halves_up(const float *x, float *out, uint8_t *inside, Py_ssize_t count, float scale, float low,
                              float high)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        float value = x[i];
        if (inside)
            inside[i] = value > low && value < high;
        value = value < low ? low : value;
        value = value > high ? high : value;
        out[i] = floorf(value / scale + 0.5f) * scale;
    }
}

EACH_PROCESSOR
static void keep(const float *grad, const uint8_t *inside, float *passed, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        passed[i] = inside[i] ? grad[i] : 0;
}

/* The bits of the largest magnitude. */
EACH_PROCESSOR
static int32_t magnitude(const float *x, Py_ssize_t count, int32_t high)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        int32_t each = bits_of(x[i]) & 0x7fffffff;
        high = each > high ? each : high;
    }
    return high;
}

EACH_PROCESSOR
static void to_even(float *x, Py_ssize_t count, float scale)
{
    for (Py_ssize_t i = 0; i < count; i++)
        x[i] = rintf(x[i] / scale) * scale;
}

EACH_PROCESSOR
static void halves_up(float *x, Py_ssize_t count, float scale)
{
    for (Py_ssize_t i = 0; i < count; i++)
        x[i] = floorf(x[i] / scale + 0.5f) * scale;
}

/* Every channel of [outer, channels, inner] onto the grid of its own range, from `first` up to `last`. */
static void weight_channels(float *x, Py_ssize_t outer, Py_ssize_t channels, Py_ssize_t inner, Py_ssize_t first,
                            Py_ssize_t last, float steps)
{
    for (Py_ssize_t channel = first; channel < last; channel++) {
        int32_t high = 0;
        for (Py_ssize_t o = 0; o < outer; o++)
            high = magnitude(x + (o * channels + channel) * inner, inner, high);
        float scale = of_bits(high) / steps;
        scale = scale < FLT_MIN ? FLT_MIN : scale;
        for (Py_ssize_t o = 0; o < outer; o++)
            to_even(x + (o * channels + channel) * inner, inner, scale);
    }
}

typedef struct {
    double bottom, top, error;
} Sums;

/* The gradient that passes, and the sums of that which does not at either end, and of that inside times its rounding
 * error in steps. Here a product with the reciprocal of the scale will do. */
#define GRADIENTS(name, rounded)                                                                                   \
    EACH_PROCESSOR                                                                                                 \
    static Sums name(const float *grad, const float *x, float *passed, Py_ssize_t count, float scale, float low,   \
                     float high)                                                                                   \
    {                                                                                                              \
        Sums sums = {0, 0, 0};                                                                                     \
        float inverse = 1 / scale;                                                                                 \
        for (Py_ssize_t begin = 0; begin < count; begin += BLOCK) {                                                \
            Py_ssize_t length = count - begin < BLOCK ? count - begin : BLOCK, whole = length - length % LANES;    \
            const float *slopes = grad + begin, *values = x + begin;                                               \
            float *out = passed + begin;                                                                           \
            float bottom[LANES] = {0}, top[LANES] = {0}, error[LANES] = {0};                                       \
            for (Py_ssize_t i = 0; i < whole; i += LANES)                                                          \
                for (int k = 0; k < LANES; k++) {                                                                  \
                    float value = values[i + k], slope = slopes[i + k];                                            \
                    float below = value <= low ? slope : 0, above = value >= high ? slope : 0;                     \
                    int clipped = value <= low || value >= high; /* its steps may be beyond any float */           \
                    float inside = clipped ? 0 : slope, steps = clipped ? 0 : value * inverse;                     \
                    out[i + k] = inside;                                                                           \
                    bottom[k] += below;                                                                            \
                    top[k] += above;                                                                               \
                    error[k] += inside * (rounded - steps);                                                        \
                }                                                                                                  \
            for (Py_ssize_t i = whole; i < length; i++) {                                                          \
                float value = values[i], slope = slopes[i];                                                        \
                int clipped = value <= low || value >= high;                                                       \
                float inside = clipped ? 0 : slope, steps = clipped ? 0 : value * inverse;                         \
                out[i] = inside;                                                                                   \
                bottom[0] += value <= low ? slope : 0;                                                             \
                top[0] += value >= high ? slope : 0;                                                               \
                error[0] += inside * (rounded - steps);                                                            \
            }                                                                                                      \
            for (int k = 0; k < LANES; k++) {                                                                      \
                sums.bottom += bottom[k];                                                                          \
                sums.top += top[k];                                                                                \
                sums.error += error[k];                                                                            \
            }                                                                                                      \
        }                                                                                                          \
        return sums;                                                                                               \
    }

GRADIENTS(gradients_to_even, rintf(steps))
GRADIENTS(gradients_halves_up, floorf(steps + 0.5f))

/* What these sums mean for the ends of the range, by the chain rule and in the proportion of `grids/learned.py`. */
static void share_out(Sums sums, const float *range, float *ends, double scale, int bottom, int top, int symmetric,
                      double count)
{
    double low = range[0] < 0 ? range[0] : 0, high = range[1] > 0 ? range[1] : 0, steps = top - bottom, to_low, to_high;
    if (symmetric) {
        double span = high > -low ? high : -low;
        steps = (steps - 1) / 2;
        to_high = (sums.error + sums.top * top + sums.bottom * bottom) * (scale / (span > FLT_MIN ? span : FLT_MIN));
        to_low = -to_high;
    } else {
        double span = high - low, offset = low / scale; /* the zero point, before it was rounded, is -offset */
        to_high = (sums.error + sums.top * (top - offset) + sums.bottom * (bottom - offset)) *
                  (scale / (span > FLT_MIN ? span : FLT_MIN));
        to_low = sums.top + sums.bottom - to_high;
    }
    double size = steps * sqrt(steps) / sqrt(count > 1 ? count : 1); /* of no values all sums are 0 */
    ends[0] = range[0] ? (float)(to_low * size) : 0;
    ends[1] = range[1] ? (float)(to_high * size) : 0;
}

#define MASK -1e30 /* as in sites.py */

/* The grid of a range, as `grids/plain_grids.py` has it. */
typedef struct {
    double scale, low, high; /* nothing passes outside of low and high */
    int bottom, top;         /* its ends in steps */
} Grid;

static double between(double value, double least, double most)
{
    value = value < least ? least : value;
    return value > most ? most : value;
}

static Grid grid_of(const float *range, int bits, int symmetric, int power_of_two, double least, double most)
{
    if (!isfinite((double)range[1] - range[0]))
        return (Grid){0, 0, 0, 0, 0};
    double low = range[0] < 0 ? range[0] : 0, high = range[1] > 0 ? range[1] : 0, scale;
    int is_signed = symmetric && bits > 8, half = 1 << (bits - 1);
    int first = is_signed ? -half : 0, last = first + 2 * half - 1;
    int steps = symmetric ? half - 1 : 2 * half - 1;
    double span = symmetric ? (high > -low ? high : -low) : high - low;
    if (power_of_two) {
        int exponent;
        double mantissa = frexp(span / (steps + 1), &exponent);
        scale = span > 0 ? ldexp(1.0, exponent - (mantissa == 0.5)) : 0;
    } else {
        scale = span / steps;
    }
    scale = scale < FLT_MIN ? 1 : (float)scale;
    int zero = symmetric ? (is_signed ? 0 : half) : (int)between(rint(first - low / scale), first, last);
    const double nearly = 1 - 0x1p-22; /* so that what is clipped is rounded to the ends, and not beyond */
    Grid grid = {scale, 0, 0, first - zero, last - zero};
    double bottom = (grid.bottom - 0.5) * nearly * scale, top = (grid.top + 0.5) * nearly * scale;
    grid.low = isinf(least) ? bottom : between(least, bottom, top);
    grid.high = isinf(most) ? top : between(most, bottom, top);
    grid.high = grid.high < grid.low ? grid.low : grid.high;
    return grid;
}

/* What Python calls. Arguments come as plain numbers. */

#define ADDRESS(place) ((float *)(uintptr_t)PyLong_AsUnsignedLongLong(arguments[place]))
#define COUNT(place) PyLong_AsSsize_t(arguments[place])
#define NUMBER(place) PyFloat_AsDouble(arguments[place])
#define NUMBER_OR(place, none) (arguments[place] == Py_None ? (none) : NUMBER(place))

#define WITHOUT_PYTHON(count, work)                     \
    do {                                                \
        if ((count) < LARGE) {                          \
            work;                                       \
        } else {                                        \
            PyThreadState *state = PyEval_SaveThread(); \
            work;                                       \
            PyEval_RestoreThread(state);                \
        }                                               \
    } while (0)

static int are_given(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are needed, not %zd", wanted, given);
    return 0;
}

/* Whether there are values, all of them finite; and the smallest and the largest one then. */
static int are_finite(const float *x, Py_ssize_t count, double *lowest, double *highest)
{
    Ends found;
    WITHOUT_PYTHON(count, found = ends_of(x, count));
    *lowest = of_bits(turned(found.low));
    *highest = of_bits(turned(found.high));
    return count && found.low > turned(INFINITE | INT32_MIN) && found.high < INFINITE;
}

static PyObject *native_ends(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 2))
        return NULL;
    float *x = ADDRESS(0);
    Py_ssize_t count = COUNT(1);
    double lowest, highest;
    if (PyErr_Occurred())
        return NULL;
    if (!are_finite(x, count, &lowest, &highest))
        Py_RETURN_NONE;
    return Py_BuildValue("(dd)", lowest, highest);
}

/* What there is to know of a range and of the bounds of what it holds: six arguments from `first` on. */
typedef struct {
    float *range;
    int bits, symmetric, power_of_two;
    double least, most;
} Spec;

#define SPEC(first)                                                                                         \
    {ADDRESS(first), (int)COUNT(first + 1), PyObject_IsTrue(arguments[first + 2]),                          \
     PyObject_IsTrue(arguments[first + 3]), NUMBER_OR(first + 4, -INFINITY), NUMBER_OR(first + 5, INFINITY)}

static Grid grid_of_spec(Spec spec)
{
    return grid_of(spec.range, spec.bits, spec.symmetric, spec.power_of_two, spec.least, spec.most);
}

/* range, bits, symmetric, power_of_two, least, most; None for the range of a mask */
static PyObject *native_grid(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 6))
        return NULL;
    Spec spec = SPEC(0);
    if (PyErr_Occurred())
        return NULL;
    if (spec.range[0] < MASK)
        Py_RETURN_NONE;
    Grid grid = grid_of_spec(spec);
    return Py_BuildValue("(dddii)", grid.scale, grid.low, grid.high, grid.bottom, grid.top);
}

/* The grid after the range has moved towards the ends of a batch: scale, low, high, and whether it clips any value of
 * the batch. None for a mask, and where no grid can be had. */
static PyObject *moved(Spec spec, double lowest, double highest, double averaging)
{
    if (spec.range[0] < MASK || !isfinite((double)spec.range[1] - spec.range[0])) /* spoilt: it is shown as it is */
        Py_RETURN_NONE;
    double low = spec.least == 0 ? 0 : lowest; /* as if there were a zero among the values, as in every grid */
    low = between(low, spec.least, spec.most);
    double high = between(highest, spec.least, spec.most);
    spec.range[0] = (float)(spec.range[0] + averaging * (low - spec.range[0]));
    spec.range[1] = (float)(spec.range[1] + averaging * (high - spec.range[1]));
    Grid grid = grid_of_spec(spec);
    if (spec.range[0] < MASK)
        Py_RETURN_NONE;
    return Py_BuildValue("(dddi)", grid.scale, grid.low, grid.high, !(grid.low < lowest && highest < grid.high));
}

/* range, bits, symmetric, power_of_two, least, most, averaging, lowest, highest */
static PyObject *native_follow(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 9))
        return NULL;
    Spec spec = SPEC(0);
    double averaging = NUMBER(6), lowest = NUMBER(7), highest = NUMBER(8);
    if (PyErr_Occurred())
        return NULL;
    return moved(spec, lowest, highest, averaging);
}

/* range, bits, symmetric, power_of_two, least, most, averaging, x, count; None also where a value is not finite */
static PyObject *native_follow_values(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 9))
        return NULL;
    Spec spec = SPEC(0);
    double averaging = NUMBER(6), lowest, highest;
    float *x = ADDRESS(7);
    Py_ssize_t count = COUNT(8);
    if (PyErr_Occurred())
        return NULL;
    if (!are_finite(x, count, &lowest, &highest))
        Py_RETURN_NONE;
    return moved(spec, lowest, highest, averaging);
}

static PyObject *native_round(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 4))
        return NULL;
    float *x = ADDRESS(0);
    Py_ssize_t count = COUNT(1);
    float scale = (float)NUMBER(2);
    int up = PyObject_IsTrue(arguments[3]);
    if (PyErr_Occurred())
        return NULL;
    WITHOUT_PYTHON(count, up ? halves_up(x, count, scale) : to_even(x, count, scale));
    Py_RETURN_NONE;
}

static PyObject *native_round_limited(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 8))
        return NULL;
    float *x = ADDRESS(0), *out = ADDRESS(1);
    uint8_t *inside = (uint8_t *)ADDRESS(2);
    Py_ssize_t count = COUNT(3);
    float scale = (float)NUMBER(4), low = (float)NUMBER(5), high = (float)NUMBER(6);
    int up = PyObject_IsTrue(arguments[7]);
    if (PyErr_Occurred())
        return NULL;
    WITHOUT_PYTHON(count, up ? limited_halves_up(x, out, inside, count, scale, low, high)
                             : limited_to_even(x, out, inside, count, scale, low, high));
    Py_RETURN_NONE;
}

static PyObject *native_keep(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 4))
        return NULL;
    float *grad = ADDRESS(0), *passed = ADDRESS(2);
    uint8_t *inside = (uint8_t *)ADDRESS(1);
    Py_ssize_t count = COUNT(3);
    if (PyErr_Occurred())
        return NULL;
    WITHOUT_PYTHON(count, keep(grad, inside, passed, count));
    Py_RETURN_NONE;
}

static PyObject *native_round_weight(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 7))
        return NULL;
    float *x = ADDRESS(0);
    Py_ssize_t outer = COUNT(1), channels = COUNT(2), inner = COUNT(3), first = COUNT(4), last = COUNT(5);
    float steps = (float)NUMBER(6);
    if (PyErr_Occurred())
        return NULL;
    WITHOUT_PYTHON(outer * inner * (last - first), weight_channels(x, outer, channels, inner, first, last, steps));
    Py_RETURN_NONE;
}

/* Those of all values, or of a part of them: eight arguments. */
static Sums sums_of(PyObject *const *arguments)
{
    float *grad = ADDRESS(0), *x = ADDRESS(1), *passed = ADDRESS(2);
    Py_ssize_t count = COUNT(3);
    float scale = (float)NUMBER(4), low = (float)NUMBER(5), high = (float)NUMBER(6);
    int up = PyObject_IsTrue(arguments[7]);
    Sums sums = {0, 0, 0};
    if (PyErr_Occurred())
        return sums;
    WITHOUT_PYTHON(count, sums = up ? gradients_halves_up(grad, x, passed, count, scale, low, high)
                                    : gradients_to_even(grad, x, passed, count, scale, low, high));
    return sums;
}

/* range, ends, scale, bottom, top, symmetric, count */
static PyObject *shared_out(Sums sums, PyObject *const *arguments)
{
    float *range = ADDRESS(0), *ends = ADDRESS(1);
    double scale = NUMBER(2), count = NUMBER(6);
    int bottom = (int)COUNT(3), top = (int)COUNT(4), symmetric = PyObject_IsTrue(arguments[5]);
    if (PyErr_Occurred())
        return NULL;
    share_out(sums, range, ends, scale, bottom, top, symmetric, count);
    Py_RETURN_NONE;
}

/* grad, x, passed, count, scale, low, high, half_up */
static PyObject *native_gradients(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 8))
        return NULL;
    Sums sums = sums_of(arguments);
    return PyErr_Occurred() ? NULL : Py_BuildValue("(ddd)", sums.bottom, sums.top, sums.error);
}

/* sums (3), range, ends, scale, bottom, top, symmetric, count */
static PyObject *native_share_out(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 10))
        return NULL;
    Sums sums = {NUMBER(0), NUMBER(1), NUMBER(2)};
    return PyErr_Occurred() ? NULL : shared_out(sums, arguments + 3);
}

/* Both, for what is not shared out among threads: the arguments of the one, of the other without its sums, and whether
 * the bottom counts. */
static PyObject *native_all_gradients(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    if (!are_given(given, 16))
        return NULL;
    Sums sums = sums_of(arguments);
    if (!PyObject_IsTrue(arguments[15]))
        sums.bottom = 0;
    return PyErr_Occurred() ? NULL : shared_out(sums, arguments + 8);
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))native_##name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    FUNCTION(ends),      FUNCTION(grid),          FUNCTION(follow),        FUNCTION(follow_values),
    FUNCTION(round),     FUNCTION(round_limited), FUNCTION(keep),          FUNCTION(round_weight),
    FUNCTION(gradients), FUNCTION(share_out),     FUNCTION(all_gradients),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0)
        Py_CLEAR(module);
    return module;
}
