#include <pybind11/pybind11.h>

PYBIND11_MODULE(_cpp, module) { module.doc() = "llm-lite's C++ executor"; }
