#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/isa.h"
#include "bind/bind.h"
#include "logits/draw.h"

namespace py = pybind11;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

class Logits {
 public:
  explicit Logits(const std::string& isa) : kernels_(llm::kernel_table(isa).logits) {}

  std::pair<float, double> sum_exp(const Floats& values) const {
    check(values, 1);
    std::pair<float, double> found;
    kernels_.sum_exp(values.data(), values.size(), &found.first, &found.second);
    return found;
  }

  py::array_t<int64_t> largest(const Floats& values, int64_t count) const {
    check(values, count);
    py::array_t<int64_t> indices(count);
    llm::largest(kernels_, values.data(), values.size(), count, indices.mutable_data());
    return indices;
  }

  int64_t draw(const Floats& values, double temperature, int64_t top_k, double top_p, double min_p,
               float penalty, std::vector<int64_t> recent, double uniform) const {
    check(values, 1);
    std::sort(recent.begin(), recent.end());
    recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
    if (!recent.empty() && (recent.front() < 0 || recent.back() >= values.size())) {
      throw std::invalid_argument("expected recent tokens below N");
    }
    const llm::Sampling sampling{temperature, top_k, top_p, min_p, penalty, std::move(recent)};
    return llm::draw(kernels_, values.data(), values.size(), sampling, uniform);
  }

 private:
  static void check(const Floats& values, int64_t count) {
    if (values.ndim() != 1 || values.size() < 1 || count < 0 || count > values.size()) {
      throw std::invalid_argument("expected values [N] and a count of at most N");
    }
  }

  llm::LogitKernels kernels_;
};

}  // namespace

void init_logits(py::module_& module) {
  py::class_<Logits>(module, "Logits", "Reads rows of logits with the build for `isa`.")
      .def(py::init<const std::string&>(), py::arg("isa"))
      .def("sum_exp", &Logits::sum_exp, py::arg("values"),
           "float32 [N] -> the largest, and the sum of e^(x - largest): NaN where a value is.")
      .def("largest", &Logits::largest, py::arg("values"), py::arg("count"),
           "float32 [N] -> int64 [count], where the largest are, falling; equal ones by place.")
      .def("draw", &Logits::draw, py::arg("values"), py::arg("temperature"), py::arg("top_k"),
           py::arg("top_p"), py::arg("min_p"), py::arg("penalty"), py::arg("recent"),
           py::arg("uniform"), "float32 [N] -> a token, which `uniform` in [0, 1) decides.");
}
