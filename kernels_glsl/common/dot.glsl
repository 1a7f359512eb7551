// The sum of products of 4 signed bytes each: one instruction with DOT, where a device has it.
#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
// OpSDot of SPV_KHR_integer_dot_product; capabilities DotProduct and DotProductInput4x8BitPacked
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packed_dot(int a, int b, spirv_literal int packed_format);

int dot4(int a, int b) { return packed_dot(a, b, 0); }
#else
int dot4(int a, int b) {
  int sum = 0;
  for (int i = 0; i < 32; i += 8) sum += bitfieldExtract(a, i, 8) * bitfieldExtract(b, i, 8);
  return sum;
}
#endif

const int ONES = 0x01010101;  // dot4 with it: the sum of the bytes
const uint SCALE_QUADS = 8 / SCALES;  // that share a scale of a weight

// The sum of what int8 activations stand for that meet one scale of a block; `scale` is as of x_scale.
float sum_of(vec2 scale, int zero, int quads_total) {
  return SCALES == 1 ? scale.y : scale.x * float(quads_total + int(32 / SCALES) * zero);
}
