#include <pybind11/stl.h>

#include <string_view>

#include "bind/bind.h"
#include "tokenizer/pair_encoder.h"

namespace py = pybind11;

namespace {

py::list tokens(const llm::PairEncoder& encoder) {
  const auto& found = encoder.tokens().tokens();
  py::list list(found.size());
  for (size_t id = 0; id < found.size(); ++id) {
    const std::string_view token = found[id];
    list[id] = token.data() ? py::object(py::str(token.data(), token.size())) : py::none();
  }
  return list;
}

py::object id_of(const llm::PairEncoder& encoder, std::string_view token) {
  const int32_t id = encoder.tokens().find(token);
  return id < 0 ? py::object(py::none()) : py::int_(id);
}

}  // namespace

void init_tokenizer(py::module_& module) {
  py::class_<llm::PairEncoder>(module, "PairEncoder", "Byte pair encoding with byte fallback.")
      .def(py::init([](const py::bytes& json) {
             const std::string_view text = json;
             const py::gil_scoped_release unlocked;
             return llm::PairEncoder(text);
           }),
           py::arg("json"), "ValueError for a tokenizer.json that is not of this kind.")
      .def("encode", &llm::PairEncoder::encode, py::arg("text"),
           "Ids of a text that holds no added token.")
      .def("tokens", &tokens, "By id; None where there is no token.")
      .def("token_to_id", &id_of, py::arg("token"), "None: there is no such token.")
      .def_property_readonly(
          "rest", [](const llm::PairEncoder& encoder) { return py::bytes(encoder.rest()); },
          "The file without vocab and merges.");
}
