// Byte pair encoding by ranked pairs (Sennrich et al. 2016), as tokenizer.json files of type "BPE"
// with byte_fallback define it: https://huggingface.co/docs/tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json.h"

namespace llm {

// (left id, right id) -> rank and id of their union; open addressing.
class PairTable {
 public:
  struct Merge {
    int32_t rank, id;
  };

  explicit PairTable(size_t pairs);
  void put(int32_t left, int32_t right, Merge merge);  // the last one of equal pairs counts
  const Merge* find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key;  // of ids + 1; 0: free
    Merge merge;
  };
  size_t place(uint64_t key) const;

  std::vector<Slot> slots_;
};

// token -> id; open addressing.
class TokenTable {
 public:
  // `room`: at most so many bytes of all tokens together.
  explicit TokenTable(size_t room);
  TokenTable(const TokenTable&) = delete;  // views look into its own memory
  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;
  bool put(std::string_view token, int32_t id);  // false: the token or the id is there already
  int32_t find(std::string_view token) const;    // -1: none
  // By id; null data where there is no token.
  const std::vector<std::string_view>& tokens() const { return tokens_; }

 private:
  struct Slot {
    uint32_t hash;
    int32_t id = -1;  // free
  };
  size_t place(std::string_view token, uint32_t hash) const;
  void grow();

  size_t count_ = 0;
  std::string names_;  // of all tokens, one behind the other
  std::vector<std::string_view> tokens_;
  std::vector<Slot> slots_;
};

class PairEncoder {
 public:
  // The bytes of a tokenizer.json. std::invalid_argument for what is no JSON, has no model with
  // vocab and merges, or lacks the token of a byte.
  explicit PairEncoder(std::string_view json);

  // Ids of a text that holds no added token; spaces stand in the vocabulary as U+2581.
  std::vector<int32_t> encode(std::string_view text) const;
  const TokenTable& tokens() const { return tokens_; }
  // The file with an empty vocab and empty merges.
  const std::string& rest() const { return rest_; }

 private:
  struct Span {
    size_t begin = 0, end = 0;
  };
  void read_model(JsonReader& reader, std::string_view json, Span* vocab, Span* merges);
  void read_vocabulary(JsonReader& reader, size_t room);
  void read_merges(JsonReader& reader);
  void find_bytes();
  int32_t id_of(std::string_view token) const;

  TokenTable tokens_{0};
  PairTable pairs_{0};
  int32_t byte_ids_[256];
  std::string rest_;
};

}  // namespace llm
