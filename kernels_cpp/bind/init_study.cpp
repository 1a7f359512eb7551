#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "bind/bind.h"
#include "study/study.h"

namespace py = pybind11;

namespace {

using StudyMatrix = py::array_t<float, py::array::c_style>;

double run_form(llm::KernelStudy& self, const std::string& form, const StudyMatrix& a,
                const StudyMatrix& b, StudyMatrix& c, int64_t first, int64_t last) {
  if (a.ndim() != 2 || b.ndim() != 2 || c.ndim() != 2) {
    throw std::invalid_argument("a, b and c must be matrices");
  }
  const llm::StudyProduct product = {a.data(),   b.data(),   c.mutable_data(),
                                     a.shape(0), c.shape(1), a.shape(1)};
  const bool plain = form == "naive";
  if (c.shape(0) != product.m || b.shape(plain ? 0 : 1) != product.n ||
      b.shape(plain ? 1 : 0) != product.k) {
    throw std::invalid_argument("the shapes of a, b and c do not fit");
  }
  if (first < 0 || first >= last || last > product.m) {
    throw std::invalid_argument("the rows are not those of c");
  }
  const py::gil_scoped_release unlocked;
  return self.run(form, product, {first, last});
}

}  // namespace

void init_study(py::module_& module) {
  py::class_<llm::KernelStudy>(module, "KernelStudy",
                               "One product in several forms. Not for two threads at once.")
      .def(py::init([](const std::string& isa, int threads) {
             if (threads < 1) throw std::invalid_argument("threads must be at least 1");
             return std::make_unique<llm::KernelStudy>(isa, threads);
           }),
           py::arg("isa"), py::arg("threads"))
      .def("run", &run_form, py::arg("form"), py::arg("a"), py::arg("b"), py::arg("c").noconvert(),
           py::arg("first"), py::arg("last"),
           "Rows first..last-1 of c[m,n] = a[m,k] . b^T, float32; b is [n,k] in the form naive, "
           "[k,n] in the others. Returns seconds.")
      .def("multiply_adds", &llm::KernelStudy::multiply_adds, py::arg("rounds"),
           py::call_guard<py::gil_scoped_release>(),
           "Multiply-adds a second of all threads, which do `rounds` rounds each.");
}
