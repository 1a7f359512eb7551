#version 450
// Reads COUNT vectors of 16 bytes, neighbours by neighbours, and keeps one word of them a
// workgroup so that no read can be left out: the plain memory read that rates are measured against.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL_SIZE = 256;
layout(constant_id = 1) const uint COUNT = 1;
#ifdef TEXELS  // for software drivers, see matmul_rows.comp
layout(binding = 0, rgba32ui) uniform readonly uimageBuffer Source;
uvec4 vector_at(uint i) { return imageLoad(Source, int(i)); }
#else
layout(binding = 0) readonly buffer Source { uvec4 source[]; };
uvec4 vector_at(uint i) { return source[i]; }
#endif
layout(binding = 1) writeonly buffer Target { uint target[]; };

void main() {
  uvec4 sum = uvec4(0);
  uint stride = gl_NumWorkGroups.x * LOCAL_SIZE;
  for (uint i = gl_GlobalInvocationID.x; i < COUNT; i += stride) sum ^= vector_at(i);
  uint word = sum.x ^ sum.y ^ sum.z ^ sum.w;
  if (word != 0u) target[gl_WorkGroupID.x] = word;
}
