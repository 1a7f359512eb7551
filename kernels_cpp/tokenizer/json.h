// Reads JSON from front to back without building values. Every wrong character is an
// std::invalid_argument.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llm {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  size_t position() const { return at_; }
  char peek();  // the next character that is no white space
  void expect(char wanted);
  bool accept(char wanted);   // takes it if it is next
  std::string_view string();  // valid until the next call
  int64_t integer();
  void skip();  // a value, whatever it is; its inside is not checked

 private:
  [[noreturn]] void fail(const char* problem) const;
  char next();
  void escape();
  uint32_t hex4();

  std::string_view text_;
  size_t at_ = 0;
  std::string room_;  // a string with escapes, decoded
};

}  // namespace llm
