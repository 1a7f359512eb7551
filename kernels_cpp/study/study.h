// Runs the forms of the study on the threads of a pool, and says how long they took.
#pragma once

#include <string>

#include "base/threads.h"
#include "study/forms.h"

namespace llm {

class KernelStudy {
 public:
  // std::invalid_argument for a build that cannot run here, std::system_error without threads.
  KernelStudy(const std::string& isa, int threads);

  // Rows rows.begin .. rows.end - 1 of the product in a form; seconds. std::invalid_argument for a
  // form that there is not.
  double run(const std::string& form, const StudyProduct& product, StudyRows rows);

  // Multiply-adds a second of all threads, each doing `rounds` rounds.
  double multiply_adds(int64_t rounds);

  int threads() const { return pool_.threads(); }

 private:
  StudyTable table_;
  ThreadPool pool_;
};

}  // namespace llm
