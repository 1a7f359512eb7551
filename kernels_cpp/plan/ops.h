// The ops in the order of core/plan/ops.py: a row gives an op's name, of its kernel and its code,
// and the check of its operands in plan/check.cpp. Without its check a row does not compile, and
// without its kernel the extension does not load.
#pragma once

#define LLM_OPS(OP)               \
  OP(Embed, embed)                \
  OP(TableRows, embed)            \
  OP(RmsNorm, rms_norm)           \
  OP(Quantize, quantize)          \
  OP(Matmul, matmul)              \
  OP(Rope, rope)                  \
  OP(Store, store)                \
  OP(Attention, attention)        \
  OP(SiluMul, elementwise)        \
  OP(GeluMul, elementwise)        \
  OP(Add, elementwise)            \
  OP(Scale, scale)                \
  OP(Softcap, of_one)             \
  OP(Sparsify, of_one)            \
  OP(Columns, columns)            \
  OP(Concat, concat)              \
  OP(MatchRms, elementwise)       \
  OP(AltupPredict, altup_predict) \
  OP(AltupCorrect, altup_correct) \
  OP(AddStreams, add_streams)     \
  OP(OutputRows, output_rows)
