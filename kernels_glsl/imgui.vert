#version 450
// Dear ImGui's vertex: position in display pixels, texture coordinate, packed colour (sRGB, straight alpha).
layout(location = 0) in vec2 position;
layout(location = 1) in vec2 uv;
layout(location = 2) in vec4 color;
layout(push_constant) uniform Projection { vec2 scale; vec2 translate; } projection;
layout(location = 0) out vec2 frag_uv;
layout(location = 1) out vec4 frag_color;

void main() {
  frag_uv = uv;
  frag_color = color;
  gl_Position = vec4(position * projection.scale + projection.translate, 0.0, 1.0);
}
