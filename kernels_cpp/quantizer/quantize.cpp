#include "quantizer/quantize.h"

#include <algorithm>

#include "base/threads.h"

namespace llm {
namespace {

constexpr int64_t kColumns = 32;

struct Matrix {
  const float* values;
  int64_t rows, columns;
  const float* importance;
  uint8_t* out;
};

// One phase; a task is a row of tiles.
class TileRows : public Phases {
 public:
  TileRows(const TileQuantizer& quantizer, const Matrix& matrix)
      : quantizer_(quantizer), matrix_(matrix) {}

  uint32_t next_phase() noexcept override {
    const int64_t tasks = done_ ? 0 : (matrix_.rows + kTileRows - 1) / kTileRows;
    done_ = true;
    return static_cast<uint32_t>(tasks);
  }

  void run_task(uint32_t task, int) noexcept override {
    const int64_t row = int64_t{task} * kTileRows, tiles = matrix_.columns / kColumns;
    const int64_t rows = std::min<int64_t>(kTileRows, matrix_.rows - row);
    const float* values = matrix_.values + row * matrix_.columns;
    uint8_t* out = matrix_.out + task * tiles * quantizer_.tile_bytes;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t column = tile * kColumns;
      quantizer_.run(values + column, matrix_.columns, rows, matrix_.importance + column,
                     out + tile * quantizer_.tile_bytes);
    }
  }

 private:
  const TileQuantizer& quantizer_;
  const Matrix& matrix_;
  bool done_ = false;
};

}  // namespace

void quantize_matrix(const TileQuantizer& quantizer, const float* values, int64_t rows,
                     int64_t columns, const float* importance, uint8_t* out, int threads) {
  const Matrix matrix{values, rows, columns, importance, out};
  TileRows work(quantizer, matrix);
  ThreadPool pool(threads);
  pool.run(work);
}

}  // namespace llm
