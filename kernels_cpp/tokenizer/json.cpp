#include "tokenizer/json.h"

#include <stdexcept>

namespace llm {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

}  // namespace

void JsonReader::fail(const char* problem) const {
  throw std::invalid_argument(std::string(problem) + " at byte " + std::to_string(at_));
}

char JsonReader::next() {
  if (at_ == text_.size()) fail("the text ends early");
  return text_[at_++];
}

char JsonReader::peek() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  if (at_ == text_.size()) fail("the text ends early");
  return text_[at_];
}

void JsonReader::expect(char wanted) {
  if (peek() != wanted) fail("an unexpected character");
  ++at_;
}

bool JsonReader::accept(char wanted) {
  if (peek() != wanted) return false;
  ++at_;
  return true;
}

std::string_view JsonReader::string() {
  expect('"');
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') ++at_;
  if (at_ < text_.size() && text_[at_] == '"') return text_.substr(begin, at_++ - begin);
  room_.assign(text_, begin, at_ - begin);
  for (char c = next(); c != '"'; c = next()) {
    if (c == '\\') {
      escape();
    } else {
      room_ += c;
    }
  }
  return room_;
}

void JsonReader::escape() {
  const char c = next();
  static constexpr char kLetters[] = "\"\\/bfnrt", kMeanings[] = "\"\\/\b\f\n\r\t";
  for (int i = 0; kLetters[i] != 0; ++i) {
    if (c == kLetters[i]) {
      room_ += kMeanings[i];
      return;
    }
  }
  if (c != 'u') fail("an unknown escape");
  uint32_t code = hex4();
  if (code >= 0xD800 && code < 0xDC00) {
    if (next() != '\\' || next() != 'u') fail("half of a surrogate pair");
    const uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    fail("half of a surrogate pair");
  }
  append_utf8(room_, code);
}

uint32_t JsonReader::hex4() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = next();
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value << 4 | static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      fail("an unknown escape");
    }
  }
  return value;
}

int64_t JsonReader::integer() {
  const char first = peek();
  if (first < '0' || first > '9') fail("expected a whole number");
  int64_t value = 0;
  for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    value = value * 10 + (text_[at_] - '0');
    if (value > INT32_MAX) fail("too large a number");
  }
  return value;
}

void JsonReader::skip() {
  int64_t depth = 0;
  do {
    const char c = peek();
    if (c == '"') {
      string();
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at_;
    } else if (c == '}' || c == ']') {
      --depth;
      ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) fail("expected a value");
      ++at_;
    } else {
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '}' && text_[at_] != ']' &&
             !is_space(text_[at_])) {
        ++at_;
      }
    }
  } while (depth > 0);
  if (depth < 0) fail("expected a value");
}

}  // namespace llm
