#include "bind/bind.h"

PYBIND11_MODULE(_cpp, module) {
  module.doc() = "llm-lite's C++ executor";
  init_cpu(module);
  init_interpreter(module);
  init_logits(module);
  init_mapping(module);
  init_quantizer(module);
  init_study(module);
}
