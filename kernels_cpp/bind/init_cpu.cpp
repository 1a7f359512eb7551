#include <pybind11/stl.h>

#include <stdexcept>

#include "base/bandwidth.h"
#include "base/isa.h"
#include "bind/bind.h"

namespace py = pybind11;

void init_cpu(py::module_& module) {
  module.def("cpu_features", &llm::cpu_features,
             "Pairs (name, present) of the features that kernels make use of.");
  module.def("available_isas", &llm::available_isas,
             "Builds of the kernels that can run here, slowest first.");
  module.def("emulated_isas", &llm::emulated_isas,
             "Builds that emulate instructions, for tests; none of `available_isas`.");
  module.def(
      "read_bandwidth",
      [](size_t bytes, int threads) {
        if (threads < 1) throw std::invalid_argument("threads must be at least 1");
        return llm::read_bandwidth(bytes, threads);
      },
      py::arg("bytes"), py::arg("threads"), py::call_guard<py::gil_scoped_release>(),
      "GB/s (10^9 bytes) of a plain read of `bytes` of memory by `threads` threads.");
}
