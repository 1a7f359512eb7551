#pragma once

#include <pybind11/pybind11.h>

void init_cpu(pybind11::module_& module);
void init_interpreter(pybind11::module_& module);
void init_logits(pybind11::module_& module);
void init_mapping(pybind11::module_& module);
void init_quantizer(pybind11::module_& module);
void init_study(pybind11::module_& module);
