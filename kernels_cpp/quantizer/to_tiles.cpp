#include "quantizer/to_tiles.h"

#include <algorithm>
#include <stdexcept>

#include "base/threads.h"
#include "quant/row_of_tiles.h"

namespace llm {
namespace {

// One phase; a task is some rows of tiles.
template <typename Format>
class RowsOfTiles : public Phases {
 public:
  RowsOfTiles(const uint8_t* rows, int64_t n_rows, int64_t stride, uint8_t* tiles)
      : rows_(rows), n_rows_(n_rows), stride_(stride), tiles_(tiles) {}

  uint32_t next_phase() noexcept override {
    const int64_t tasks = done_ ? 0 : (n_rows_ + kTaskRows - 1) / kTaskRows;
    done_ = true;
    return static_cast<uint32_t>(tasks);
  }

  void run_task(uint32_t task, int) noexcept override {
    const int64_t begin = int64_t{task} * kTaskRows, end = std::min(begin + kTaskRows, n_rows_);
    const int64_t bytes =
        stride_ / Format::kBytes * Format::Tiles::kTileBytes;  // of a row of tiles
    for (int64_t row = begin; row < end; row += kTileRows) {
      const int64_t count = std::min<int64_t>(end - row, kTileRows);
      LLM_ISA::make_row_of_tiles<Format>(rows_ + row * stride_, stride_, count,
                                         tiles_ + row / kTileRows * bytes, [] {});
    }
  }

 private:
  static constexpr int64_t kTaskRows = 8 * kTileRows;

  const uint8_t* rows_;
  int64_t n_rows_, stride_;
  uint8_t* tiles_;
  bool done_ = false;
};

}  // namespace

void to_tiles(DType type, const uint8_t* rows, int64_t n_rows, int64_t n_cols, uint8_t* tiles,
              int threads) {
  if (kFormats[static_cast<int>(type)].layout != Layout::kRows)
    throw std::invalid_argument("rows of this type have no tiles");
  ThreadPool pool(threads);
  const auto make = [&](auto format) {
    RowsOfTiles<decltype(format)> work(rows, n_rows, row_bytes(type, n_cols), tiles);
    pool.run(work);
  };
  LLM_ISA::by_format(type, LLM_ISA::Never(), make, LLM_ISA::Never());
}

}  // namespace llm
