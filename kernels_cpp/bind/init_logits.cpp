#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/isa.h"
#include "bind/bind.h"
#include "logits/allowed.h"
#include "logits/draw.h"

namespace py = pybind11;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Ids = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
using Bits = py::array_t<uint32_t, py::array::c_style | py::array::forcecast>;

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

  // -> how many the mask allows, of these the largest, the sum of e^(x - largest), and where the
  // `count` largest are
  std::tuple<int64_t, float, double, py::array_t<int64_t>> allowed(const Floats& values,
                                                                   const Bits& mask,
                                                                   int64_t count) const {
    check(values, 1);
    const int64_t n = values.size();
    check_mask(mask, n);
    const llm::Allowed found(kernels_, values.data(), n, mask.data());
    py::array_t<int64_t> indices(std::min(count, found.count()));
    if (found.count() == 0) return {0, -std::numeric_limits<float>::infinity(), 0.0, indices};
    const std::vector<float>& kept = found.values();
    std::pair<float, double> sum;
    kernels_.sum_exp(kept.data(), kept.size(), &sum.first, &sum.second);
    int64_t* const places = indices.mutable_data();
    llm::largest(kernels_, kept.data(), kept.size(), indices.size(), places);
    std::transform(places, places + indices.size(), places,
                   [&](int64_t place) { return found.token(place); });
    return {found.count(), sum.first, sum.second, indices};
  }

  // -> token, surprise in bits
  std::pair<int64_t, double> draw(const Floats& values, const llm::Sampling& sampling,
                                  const Ids& recent, const Ids& repeats, int64_t unbroken,
                                  const std::optional<Bits>& mask, double mu, double uniform,
                                  double xtc_uniform) const {
    check(values, 1);
    const int64_t n = values.size();
    check_ids(recent, n);
    check_ids(repeats, n);
    for (const auto& [token, bias] : sampling.bias) {
      if (token < 0 || token >= n) throw std::invalid_argument("expected biases of tokens below N");
    }
    if (mask) check_mask(*mask, n);
    const llm::DrawState state{{recent.data(), recent.size()},
                               {repeats.data(), repeats.size()},
                               unbroken,
                               mask ? mask->data() : nullptr,
                               mu,
                               uniform,
                               xtc_uniform};
    const llm::Drawn drawn = llm::draw(kernels_, values.data(), n, sampling, state);
    return {drawn.token, drawn.surprise};
  }

 private:
  static void check(const Floats& values, int64_t count) {
    if (values.ndim() != 1 || values.size() < 1 || count < 0 || count > values.size()) {
      throw std::invalid_argument("expected values [N] and a count of at most N");
    }
  }

  static void check_mask(const Bits& mask, int64_t n) {
    if (mask.ndim() != 1 || 32 * mask.size() < n) {
      throw std::invalid_argument("expected a mask of N bits");
    }
  }

  static void check_ids(const Ids& ids, int64_t n) {
    const auto outside = [n](int64_t id) { return id < 0 || id >= n; };
    if (ids.ndim() != 1 || std::any_of(ids.data(), ids.data() + ids.size(), outside)) {
      throw std::invalid_argument("expected recent tokens below N");
    }
  }

  llm::LogitKernels kernels_;
};

}  // namespace

void init_logits(py::module_& module) {
  py::class_<llm::Sampling>(module, "Sampling", "What does not change from token to token.")
      .def(py::init<>())
      .def_readwrite("temperature", &llm::Sampling::temperature)
      .def_readwrite("top_k", &llm::Sampling::top_k)
      .def_readwrite("top_p", &llm::Sampling::top_p)
      .def_readwrite("min_p", &llm::Sampling::min_p)
      .def_readwrite("typical_p", &llm::Sampling::typical_p)
      .def_readwrite("xtc_probability", &llm::Sampling::xtc_probability)
      .def_readwrite("xtc_threshold", &llm::Sampling::xtc_threshold)
      .def_readwrite("repetition_penalty", &llm::Sampling::repetition_penalty)
      .def_readwrite("presence_penalty", &llm::Sampling::presence_penalty)
      .def_readwrite("frequency_penalty", &llm::Sampling::frequency_penalty)
      .def_readwrite("dry_multiplier", &llm::Sampling::dry_multiplier)
      .def_readwrite("dry_base", &llm::Sampling::dry_base)
      .def_readwrite("dry_allowed_length", &llm::Sampling::dry_allowed_length)
      .def_readwrite("mirostat", &llm::Sampling::mirostat)
      .def_readwrite("logit_bias", &llm::Sampling::bias);
  py::class_<Logits>(module, "Logits", "Reads rows of logits with the build for `isa`.")
      .def(py::init<const std::string&>(), py::arg("isa"))
      .def("sum_exp", &Logits::sum_exp, py::arg("values"),
           "float32 [N] -> the largest, and the sum of e^(x - largest): NaN where a value is.")
      .def("largest", &Logits::largest, py::arg("values"), py::arg("count"),
           "float32 [N] -> int64 [count], where the largest are, falling; equal ones by place.")
      .def("allowed", &Logits::allowed, py::arg("values"), py::arg("mask"), py::arg("count"),
           "float32 [N], uint32 [ceil(N / 32)] -> how many bits are set; of their values the "
           "largest, the sum of e^(x - largest), and where the `count` largest are: of fewer all.")
      .def("draw", &Logits::draw, py::arg("values"), py::arg("sampling"), py::arg("recent"),
           py::arg("repeats"), py::arg("unbroken"), py::arg("mask"), py::arg("mu"),
           py::arg("uniform"), py::arg("xtc_uniform"),
           "float32 [N] -> a token, which `uniform` in [0, 1) decides, and its surprise in bits.");
}
