#include <memory>

#include "base/mapped_files.h"
#include "bind/bind.h"

namespace py = pybind11;

void init_mapping(py::module_& module) {
  py::class_<llm::MappingGuard>(module, "MappingGuard",
                                "While it lives, reads of a mapped file's lost pages are zeros.")
      .def(py::init([](const py::buffer& mapping) {
             const py::buffer_info info = mapping.request();
             const auto bytes = static_cast<size_t>(info.size * info.itemsize);
             return std::make_unique<llm::MappingGuard>(info.ptr, bytes);
           }),
           py::arg("mapping"), "Of all of a mapping. RuntimeError where there are too many.")
      .def("release", &llm::MappingGuard::release,
           "Before the mapping goes; more often is harmless.")
      .def_property_readonly("lost", &llm::MappingGuard::lost,
                             "Whether a read found zeros where the file had bytes.");
}
