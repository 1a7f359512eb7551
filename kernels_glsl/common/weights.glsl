// A weight matrix as blocks of 32 values along K; rows are padded to whole blocks with zeros.
// A format gives: position8(group, i), where in its block the i-th value of a group of 8 lies;
// levels8(block, group, w), these 8 values before scaling; and scale_of(block), the block's
// (step, minimum): value = level * step + minimum. Blocks are counted row by row. Needs K. For
// integer dot products quad(block, q) gives levels 4q .. 4q + 3 of a block as signed bytes, and
// quad_scale(block) what belongs to these.
const uint BLOCKS = (K + 31) / 32;  // of a row

#if defined(FORMAT_F32)
#include "quant/f32.glsl"
#elif defined(FORMAT_F16)
#include "quant/f16.glsl"
#elif defined(FORMAT_BF16)
#include "quant/bf16.glsl"
#elif defined(FORMAT_Q4_0)
#include "quant/q4_0.glsl"
#elif defined(FORMAT_Q4_1)
#include "quant/q4_1.glsl"
#elif defined(FORMAT_Q8_0)
#include "quant/q8_0.glsl"
#elif defined(FORMAT_INT4)
#include "quant/int4.glsl"
#elif defined(FORMAT_INT8)
#include "quant/int8.glsl"
#endif
