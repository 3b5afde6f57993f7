// Operators as C++ extensions bring them: with a schema and a kernel for the CPU, and in the two ways that register one
// function for every device, which is handed whatever there is, also tensors without data.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace {

at::Tensor scale(const at::Tensor& x, const at::Tensor& y, double factor, int64_t times) {
  const at::Tensor a = x.contiguous(), b = y.contiguous();
  at::Tensor out = at::empty_like(a);
  const float *from = a.data_ptr<float>(), *more = b.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    to[i] = static_cast<float>((from[i] + more[i]) * factor * times);
  }
  return out;
}

}  // namespace

TORCH_LIBRARY(onward_cpp, m) {
  m.def("with_schema(Tensor x, Tensor y, float factor, int times) -> Tensor");
  m.def("for_all", &scale);
}

TORCH_LIBRARY_IMPL(onward_cpp, CPU, m) {
  m.impl("with_schema", &scale);
}
