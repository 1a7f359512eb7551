"""The compiled half of llm-lite: `_cpp`, the SIMD engine, and `spirv/`, the shader binaries."""
