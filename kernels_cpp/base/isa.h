// What this processor can do, and which build of the kernels it gets.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/op.h"
#include "study/forms.h"

namespace llm {

// The features that builds of the kernels ask for, and whether this processor and its operating
// system have them. std::invalid_argument where LLM_LITE_PROCESSOR names no build that runs here.
const std::vector<std::pair<std::string, bool>>& cpu_features();

// The builds that can run here, slowest first.
std::vector<std::string> available_isas();
// Those that stand for instructions which this processor need not have: slow, for tests.
std::vector<std::string> emulated_isas();

// std::invalid_argument for a build that is unknown or cannot run here.
KernelTable kernel_table(const std::string& isa);
StudyTable study_table(const std::string& isa);

}  // namespace llm
