// Values of a cache: value_pair, value_scale and so on, see cache_rows.glsl. Needs VALUES_F16, VALUES_I8,
// VALUES_I4 or none, VALUES_BLOCK and VALUES_BINDING, KV_HEADS and HEAD_DIM.
#define NAMED(NAME) value_##NAME
#define ROWS_BLOCK VALUES_BLOCK
#define ROWS_BINDING VALUES_BINDING
#if defined(VALUES_I8)
#define ROWS_I8
#elif defined(VALUES_I4)
#define ROWS_I4
#elif defined(VALUES_F16)
#define ROWS_F16
#endif
#include "common/cache_rows.glsl"
