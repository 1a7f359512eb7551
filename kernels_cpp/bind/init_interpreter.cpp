#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <stdexcept>
#include <string>

#include "base/isa.h"
#include "bind/bind.h"
#include "plan/interpreter.h"

namespace py = pybind11;

namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

// An array [n, sizeof(Row) / sizeof(T)] as n rows.
template <typename Row, typename T>
std::vector<Row> rows_of(const Array<T>& array, const char* name) {
  if (array.ndim() != 2 || array.shape(1) * sizeof(T) != sizeof(Row)) {
    throw std::invalid_argument(std::string(name) + " has the wrong shape");
  }
  const auto* rows = reinterpret_cast<const Row*>(array.data());
  return {rows, rows + array.shape(0)};
}

struct ParamRow {
  double values[llm::kMaxParams];
};

size_t add_plan(llm::Interpreter& self, const Array<int64_t>& tensors, const Array<int64_t>& ops,
                const Array<double>& params, const std::array<int64_t, 10>& shape) {
  const auto op_rows = rows_of<llm::OpRow>(ops, "ops");
  const auto param_rows = rows_of<ParamRow>(params, "params");
  if (op_rows.size() != param_rows.size()) throw std::invalid_argument("params and ops differ");
  std::vector<double> flat;
  for (const ParamRow& row : param_rows) flat.insert(flat.end(), row.values, std::end(row.values));
  const llm::StepShape of_steps = {shape[0], shape[1], shape[2], shape[3], shape[4],
                                   shape[5], shape[6], shape[7], shape[8], shape[9]};
  return self.add_plan(
      llm::Plan(rows_of<llm::TensorRow>(tensors, "tensors"), op_rows, flat, of_steps));
}

size_t run(llm::Interpreter& self, size_t plan, const Array<int32_t>& words, size_t first,
           size_t last, int64_t budget_us) {
  if (words.size() < self.shape(plan).words() || words.at(0) > self.shape(plan).max_tokens) {
    throw std::invalid_argument("the step buffer is too short");
  }
  const int64_t source = words.at(6), most = self.shape(plan).source;
  if (source > most || source < (most > 0 ? 1 : 0)) {
    throw std::invalid_argument("the step's source does not fit the plan's");
  }
  const int32_t* step = words.data();
  const py::gil_scoped_release unlocked;
  return self.run(plan, step, first, last, std::chrono::microseconds(budget_us));
}

}  // namespace

void init_interpreter(py::module_& module) {
  py::class_<llm::AlignedBuffer>(module, "Memory", py::buffer_protocol(),
                                 "Zeroed memory that begins on a cache line; a buffer of bytes.")
      .def(py::init<size_t>(), py::arg("bytes"))
      .def("wish_for_large_pages", &llm::AlignedBuffer::wish_for_large_pages, py::arg("first") = 0,
           "Ask the system for pages of 2 MiB from a byte on, before that is first used.")
      .def_buffer([](llm::AlignedBuffer& self) {
        return py::buffer_info(self.data(), static_cast<py::ssize_t>(self.size()));
      });
  py::class_<llm::Interpreter>(module, "Interpreter", "Runs plans. Not for two threads at once.")
      .def(py::init([](const std::string& isa, int threads) {
             if (threads < 1) throw std::invalid_argument("threads must be at least 1");
             return std::make_unique<llm::Interpreter>(llm::kernel_table(isa), threads);
           }),
           py::arg("isa"), py::arg("threads"))
      .def_property_readonly("threads", &llm::Interpreter::threads)
      .def_property_readonly("worker_bytes", &llm::Interpreter::worker_bytes,
                             "That each thread has for the tasks of the plans added so far.")
      .def_property_readonly("shared_bytes", &llm::Interpreter::shared_bytes,
                             "That all threads have for these, together.")
      .def("use", &llm::Interpreter::use, py::arg("threads"),
           "How many of the threads work from now on; from any thread.")
      .def("add_plan", &add_plan, py::arg("tensors"), py::arg("ops"), py::arg("params"),
           py::arg("shape"),
           "tensors: [n, 7], ops: [m, 8], params: [m, 6]; shape: tokens and outputs of a step at "
           "most; for shared steps segments, pages of a table and pages of a cache, else 0; slots, "
           "1 or more; pages that may be a ring; positions of a source; returns the plan's number.")
      .def("run", &run, py::arg("plan"), py::arg("words"), py::arg("first"), py::arg("last"),
           py::arg("budget_us"),
           "Run ops first..last-1 until the time is over; returns the op to go on with.")
      .def("measure", &llm::Interpreter::measure, py::arg("wanted"),
           "Measure from now on how long threads are busy with each op, or stop.")
      .def("busy_seconds", &llm::Interpreter::busy_seconds, py::arg("plan"),
           "Seconds by op of a plan, all threads together, since `measure`.");
}
