#include "tokenizer/pair_encoder.h"

#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>

namespace llm {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr int32_t kMaxId = 1 << 22;

struct Symbol {
  int32_t id;  // -1: merged into an earlier one
  int32_t before, after;
};

struct Candidate {
  PairTable::Merge merge;
  int32_t left;
  // The lowest rank first, the leftmost of equals.
  bool operator<(const Candidate& other) const {
    return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : left > other.left;
  }
};

size_t character_bytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

PairTable::PairTable(size_t pairs) {
  size_t size = 16;
  while (size < 2 * pairs) size *= 2;
  slots_.resize(size);
}

size_t PairTable::place(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = (key * 0x9E3779B97F4A7C15u >> 20) & mask;
  while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

static uint64_t key_of(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(left) + 1) << 32 | (static_cast<uint64_t>(right) + 1);
}

void PairTable::put(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  slots_[place(key)] = {key, merge};
}

const PairTable::Merge* PairTable::find(int32_t left, int32_t right) const {
  const Slot& slot = slots_[place(key_of(left, right))];
  return slot.key == 0 ? nullptr : &slot.merge;
}

TokenTable::TokenTable(size_t room) : slots_(16) {
  names_.reserve(room);  // views into it stay valid
}

void TokenTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].id >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

static uint32_t hash_of(std::string_view token) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(token));
}

size_t TokenTable::place(std::string_view token, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].hash != hash || tokens_[slots_[at].id] != token)) {
    at = (at + 1) & mask;
  }
  return at;
}

bool TokenTable::put(std::string_view token, int32_t id) {
  if (2 * count_ >= slots_.size()) grow();
  const uint32_t hash = hash_of(token);
  Slot& slot = slots_[place(token, hash)];
  const auto index = static_cast<size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  if (slot.id >= 0 || tokens_[index].data() != nullptr) return false;
  const size_t begin = names_.size();
  names_ += token;
  tokens_[index] = std::string_view(names_).substr(begin);
  slot = {hash, id};
  ++count_;
  return true;
}

int32_t TokenTable::find(std::string_view token) const {
  return slots_[place(token, hash_of(token))].id;
}

PairEncoder::PairEncoder(std::string_view json) {
  JsonReader reader(json);
  Span vocab, merges;
  reader.expect('{');
  do {
    const bool is_model = reader.string() == "model";
    reader.expect(':');
    if (!is_model || reader.peek() != '{') {
      reader.skip();
    } else {
      read_model(reader, json, &vocab, &merges);
    }
  } while (reader.accept(','));
  reader.expect('}');
  if (vocab.end == 0 || merges.end == 0) throw std::invalid_argument("no vocab or no merges");
  find_bytes();
  rest_ = json.substr(0, vocab.begin);
  rest_ += "{}";
  rest_ += json.substr(vocab.end, merges.begin - vocab.end);
  rest_ += "[]";
  rest_ += json.substr(merges.end);
}

// The vocabulary first, as the library writes it.
void PairEncoder::read_model(JsonReader& reader, std::string_view json, Span* vocab, Span* merges) {
  reader.expect('{');
  do {
    const std::string_view key = reader.string();
    const bool is_vocab = key == "vocab", is_merges = key == "merges";
    reader.expect(':');
    reader.peek();
    const size_t begin = reader.position();
    if (is_vocab && vocab->end == 0) {
      read_vocabulary(reader, json.size() - begin);
      *vocab = {begin, reader.position()};
    } else if (is_merges && vocab->end != 0 && merges->end == 0) {
      read_merges(reader);
      *merges = {begin, reader.position()};
    } else if (is_vocab || is_merges) {
      throw std::invalid_argument("merges before the vocabulary, or one of them twice");
    } else {
      reader.skip();
    }
  } while (reader.accept(','));
  reader.expect('}');
}

void PairEncoder::read_vocabulary(JsonReader& reader, size_t room) {
  tokens_ = TokenTable(room);
  reader.expect('{');
  if (reader.accept('}')) return;
  do {
    const std::string_view name = reader.string();
    reader.expect(':');
    const int64_t id = reader.integer();
    if (id >= kMaxId || !tokens_.put(name, static_cast<int32_t>(id))) {
      throw std::invalid_argument("a token or an id appears twice, or an id is too large");
    }
  } while (reader.accept(','));
  reader.expect('}');
}

int32_t PairEncoder::id_of(std::string_view token) const {
  const int32_t id = tokens_.find(token);
  if (id < 0) throw std::invalid_argument("a token that is needed is not there");
  return id;
}

void PairEncoder::read_merges(JsonReader& reader) {
  std::vector<std::pair<std::pair<int32_t, int32_t>, int32_t>> merges;  // (left, right), union
  std::string both;
  reader.expect('[');
  if (!reader.accept(']')) {
    do {
      size_t cut;  // an array of two, or a string with a space between them
      if (reader.accept('[')) {
        both = reader.string();
        cut = both.size();
        reader.expect(',');
        both += reader.string();
        reader.expect(']');
      } else {
        both = reader.string();
        cut = both.find(' ');
        if (cut == std::string::npos) throw std::invalid_argument("a merge of one token");
        both.erase(cut, 1);
      }
      const std::string_view whole = both;
      merges.push_back({{id_of(whole.substr(0, cut)), id_of(whole.substr(cut))}, id_of(whole)});
    } while (reader.accept(','));
    reader.expect(']');
  }
  pairs_ = PairTable(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [pair, id] = merges[rank];
    pairs_.put(pair.first, pair.second, {static_cast<int32_t>(rank), id});
  }
}

void PairEncoder::find_bytes() {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char name[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    byte_ids_[byte] = id_of(std::string_view(name, sizeof name));
  }
}

std::vector<int32_t> PairEncoder::encode(std::string_view text) const {
  std::vector<Symbol> symbols;
  const auto add = [&](int32_t id) {
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  for (size_t at = 0; at < text.size();) {
    std::string_view character = text.substr(at, character_bytes(text[at]));
    at += character.size();
    if (character == " ") character = kSpace;
    const int32_t id = tokens_.find(character);
    if (id >= 0) {
      add(id);
    } else {
      for (const char byte : character) add(byte_ids_[static_cast<uint8_t>(byte)]);
    }
  }
  const auto end = static_cast<int32_t>(symbols.size());
  std::priority_queue<Candidate> candidates;
  const auto propose = [&](int32_t left) {
    if (left < 0 || symbols[left].after >= end) return;
    const auto* merge = pairs_.find(symbols[left].id, symbols[symbols[left].after].id);
    if (merge != nullptr) candidates.push({*merge, left});
  };
  for (int32_t left = 0; left + 1 < end; ++left) propose(left);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.left];
    if (left.id < 0 || left.after >= end) continue;
    Symbol& right = symbols[left.after];
    const auto* merge = pairs_.find(left.id, right.id);
    if (merge == nullptr || merge->id != best.merge.id) continue;  // one has been merged since
    left.id = best.merge.id;
    right.id = -1;
    left.after = right.after;
    if (left.after < end) symbols[left.after].before = best.left;
    propose(left.before);
    propose(best.left);
  }
  std::vector<int32_t> ids;
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
  return ids;
}

}  // namespace llm
