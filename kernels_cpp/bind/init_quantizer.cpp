#include <pybind11/numpy.h>

#include <iterator>
#include <stdexcept>
#include <string>

#include "base/isa.h"
#include "bind/bind.h"
#include "quantizer/quantize.h"
#include "quantizer/to_tiles.h"

namespace py = pybind11;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Bytes = py::array_t<uint8_t, py::array::c_style>;

Bytes quantize(const std::string& format, const Floats& values, const Floats& importance,
               const std::string& isa, int threads) {
  const llm::KernelTable table = llm::kernel_table(isa);
  if (format != "int4" && format != "int8") throw std::invalid_argument("no format " + format);
  if (values.ndim() != 2 || values.shape(1) % 32 != 0 || importance.size() != values.shape(1)) {
    throw std::invalid_argument("expected values [N, K], K a multiple of 32, and importance [K]");
  }
  if (threads < 1) throw std::invalid_argument("threads must be at least 1");
  const llm::TileQuantizer& quantizer = format == "int4" ? table.int4 : table.int8;
  const int64_t rows = values.shape(0), columns = values.shape(1);
  const int64_t tile_rows = (rows + llm::kTileRows - 1) / llm::kTileRows;
  Bytes out(tile_rows * (columns / 32) * quantizer.tile_bytes);
  uint8_t* to = out.mutable_data();
  const py::gil_scoped_release unlocked;
  llm::quantize_matrix(quantizer, values.data(), rows, columns, importance.data(), to, threads);
  return out;
}

void to_tiles(int type, const Bytes& rows, int64_t n_rows, int64_t n_cols,
              py::array_t<uint8_t> tiles, int threads) {
  if (type < 0 || type >= static_cast<int>(std::size(llm::kFormats))) {
    throw std::invalid_argument("no such type");
  }
  const auto from = static_cast<llm::DType>(type), to = llm::kFormats[type].tiles;
  const int64_t whole = (n_rows + llm::kTileRows - 1) / llm::kTileRows * llm::kTileRows;
  if (n_rows < 1 || n_cols < 1 || n_cols % llm::kFormats[type].block_size != 0 ||
      rows.size() != n_rows * llm::row_bytes(from, n_cols) ||
      tiles.size() != whole * llm::row_bytes(to, n_cols)) {
    throw std::invalid_argument("expected whole rows of blocks, and room for their tiles");
  }
  if (threads < 1) throw std::invalid_argument("threads must be at least 1");
  uint8_t* out = tiles.mutable_data();
  const uint8_t* in = rows.data();
  const py::gil_scoped_release unlocked;
  llm::to_tiles(from, in, n_rows, n_cols, out, threads);
}

}  // namespace

void init_quantizer(py::module_& module) {
  module.def("quantize", &quantize, py::arg("format"), py::arg("values"), py::arg("importance"),
             py::arg("isa"), py::arg("threads"),
             "float32 [N, K] -> the tiles of \"int4\" or \"int8\" with the least squared error, "
             "weighted by importance [K].");
  module.def("to_tiles", &to_tiles, py::arg("type"), py::arg("rows"), py::arg("n_rows"),
             py::arg("n_cols"), py::arg("tiles"), py::arg("threads"),
             "Rows of blocks, of a type that has a twin in tiles -> those tiles.");
}
