// Reductions over a workgroup of LANES invocations (a power of two); every lane gets the result.
// With SUBGROUP defined each subgroup, of any size, reduces by itself and meets in shared memory.
shared float reduce_parts[LANES];

#ifdef SUBGROUP
#define WORKGROUP_REDUCE(NAME, SUBGROUP_OP, OP)                                 \
  float NAME(float value) {                                                     \
    value = SUBGROUP_OP(value);                                                 \
    if (gl_NumSubgroups == 1) return value;                                     \
    if (subgroupElect()) reduce_parts[gl_SubgroupID] = value;                   \
    barrier();                                                                  \
    value = reduce_parts[0];                                                    \
    for (uint i = 1; i < gl_NumSubgroups; ++i) value = OP(value, reduce_parts[i]); \
    barrier();                                                                  \
    return value;                                                               \
  }
#else
#define WORKGROUP_REDUCE(NAME, SUBGROUP_OP, OP)                                 \
  float NAME(float value) {                                                     \
    uint lane = gl_LocalInvocationIndex;                                        \
    reduce_parts[lane] = value;                                                 \
    barrier();                                                                  \
    for (uint half_size = LANES / 2; half_size > 0; half_size /= 2) {           \
      if (lane < half_size)                                                     \
        reduce_parts[lane] = OP(reduce_parts[lane], reduce_parts[lane + half_size]); \
      barrier();                                                                \
    }                                                                           \
    value = reduce_parts[0];                                                    \
    barrier();                                                                  \
    return value;                                                               \
  }
#endif

float plus(float a, float b) { return a + b; }

WORKGROUP_REDUCE(workgroup_sum, subgroupAdd, plus)
WORKGROUP_REDUCE(workgroup_max, subgroupMax, max)
