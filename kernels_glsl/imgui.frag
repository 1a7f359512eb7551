#version 450
layout(location = 0) in vec2 frag_uv;
layout(location = 1) in vec4 frag_color;
layout(set = 0, binding = 0) uniform sampler2D image;
layout(location = 0) out vec4 color;

void main() { color = frag_color * texture(image, frag_uv); }
