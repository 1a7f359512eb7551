#include "base/isa.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "ops/table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace llm {
namespace {

using Features = std::vector<std::pair<std::string, bool>>;

struct Build {
  std::string name;
  std::vector<std::string> needs;
  KernelTable (*table)();
  StudyTable (*study)();
  bool emulated = false;  // for tests only
};

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// Which registers the operating system saves on a switch of threads (XCR0).
unsigned saved_registers() {
  if (!(cpuid(1, 0).c >> 27 & 1)) return 0;  // OSXSAVE
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Linux gives a process the tile registers of AMX, 8 KiB a thread, only when it asks for them
// (Documentation/arch/x86/xstate.rst); where it refuses, they are as if they were not there.
bool may_use_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Features detect() {
  const Registers one = cpuid(1, 0), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const unsigned saved = saved_registers();
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6;
  const auto bit = [](unsigned value, int index) { return (value >> index & 1) != 0; };
  const bool tiles = (saved & 0x60000) == 0x60000 && bit(seven.d, 24) && may_use_tiles();
  return {
      {"avx2", ymm && bit(seven.b, 5)},        {"fma", ymm && bit(one.c, 12)},
      {"f16c", ymm && bit(one.c, 29)},         {"avxvnni", ymm && bit(seven_one.a, 4)},
      {"avx512f", zmm && bit(seven.b, 16)},    {"avx512dq", zmm && bit(seven.b, 17)},
      {"avx512bw", zmm && bit(seven.b, 30)},   {"avx512vl", zmm && bit(seven.b, 31)},
      {"avx512vnni", zmm && bit(seven.c, 11)}, {"amxtile", tiles},
      {"amxint8", tiles && bit(seven.d, 25)},  {"amxbf16", tiles && bit(seven.d, 22)},
  };
}

const std::vector<Build>& builds() {
  static const std::vector<std::string> v2 = {"avx2", "fma", "f16c"};
  static const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  static const auto v4 = with(v2, {"avx512f", "avx512dq", "avx512bw", "avx512vl"});
  static const auto vnni = with(v4, {"avx512vnni"});
  static const auto tiles = with(vnni, {"amxtile", "amxint8"});
  static const std::vector<Build> all = {
      {"scalar", {}, scalar::table, scalar::study_table},
      {"avx2", v2, avx2::table, avx2::study_table},
      {"avxvnni", with(v2, {"avxvnni"}), avxvnni::table, avxvnni::study_table},
      {"avx512", v4, avx512::table, avx512::study_table},
      {"avx512vnni", vnni, avx512vnni::table, avx512vnni::study_table},
      {"amx", tiles, amx::table, avx512vnni::study_table},
      {"amxbf16", with(tiles, {"amxbf16"}), amxbf16::table, avx512vnni::study_table},
      {"amxemulated", vnni, amxemulated::table, avx512vnni::study_table, true},
      {"amxbf16emulated", vnni, amxbf16emulated::table, avx512vnni::study_table, true},
  };
  return all;
}

#elif defined(__aarch64__)

#if defined(__APPLE__)
bool has(const char* feature) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}
#endif

// Products of bytes: four to a sum (SDOT), and 2x8 by 8x2 matrices of them (SMMLA).
Features detect() {
#if defined(__linux__)
  constexpr unsigned long kI8mm = 1ul << 13;  // HWCAP2_I8MM, which older headers lack
  const bool dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  const bool i8mm = (getauxval(AT_HWCAP2) & kI8mm) != 0;
#elif defined(__APPLE__)
  const bool dotprod = true;  // every Apple processor that runs macOS
  const bool i8mm = has("hw.optional.arm.FEAT_I8MM");
#else
  const bool dotprod = false, i8mm = false;
#endif
  return {{"neon", true}, {"dotprod", dotprod}, {"i8mm", i8mm}};
}

const std::vector<Build>& builds() {
  static const std::vector<Build> all = {
      {"neon", {"neon"}, neon::table, neon::study_table},
      {"neondot", {"neon", "dotprod"}, neondot::table, neondot::study_table},
      {"i8mm", {"neon", "dotprod", "i8mm"}, i8mm::table, neondot::study_table}};
  return all;
}

#else

Features detect() { return {}; }

const std::vector<Build>& builds() {
  static const std::vector<Build> all = {{"scalar", {}, scalar::table, scalar::study_table}};
  return all;
}

#endif

bool needs(const Build& build, const std::string& feature) {
  return std::find(build.needs.begin(), build.needs.end(), feature) != build.needs.end();
}

bool has_all(const Features& have, const Build& build) {
  return std::all_of(build.needs.begin(), build.needs.end(), [&](const std::string& need) {
    return std::find(have.begin(), have.end(), std::pair(need, true)) != have.end();
  });
}

// LLM_LITE_PROCESSOR names a build: what it does not need is as if this processor lacked it, so
// that tests find what they would find on a lesser one.
Features found_or_hidden() {
  Features found = detect();
  const char* name = std::getenv("LLM_LITE_PROCESSOR");
  if (name == nullptr || *name == 0) return found;
  std::string known;
  for (const Build& build : builds()) {
    if (build.emulated || !has_all(found, build)) continue;
    if (build.name == name) {
      for (auto& [feature, has] : found) has = has && needs(build, feature);
      return found;
    }
    known += (known.empty() ? "" : ", ") + build.name;
  }
  throw std::invalid_argument("LLM_LITE_PROCESSOR is '" + std::string(name) +
                              "', expected one of " + known);
}

}  // namespace

const Features& cpu_features() {
  static const Features found = found_or_hidden();
  return found;
}

namespace {

bool runs_here(const Build& build) {
  return build.table != nullptr && has_all(cpu_features(), build);
}

std::vector<std::string> names_of(bool emulated) {
  std::vector<std::string> names;
  for (const Build& build : builds()) {
    if (runs_here(build) && build.emulated == emulated) names.push_back(build.name);
  }
  return names;
}

const Build& build_named(const std::string& isa) {
  for (const Build& build : builds()) {
    if (build.name == isa && runs_here(build)) return build;
  }
  throw std::invalid_argument("instruction set " + isa + " is not available on this processor");
}

}  // namespace

std::vector<std::string> available_isas() { return names_of(false); }
std::vector<std::string> emulated_isas() { return names_of(true); }

KernelTable kernel_table(const std::string& isa) { return build_named(isa).table(); }
StudyTable study_table(const std::string& isa) { return build_named(isa).study(); }

}  // namespace llm
