// Scores of attention, bounded by a smooth SOFTCAP where it is not 0.
#include "common/tanh.glsl"

float capped(float score) { return SOFTCAP > 0.0 ? SOFTCAP * tanh_of(score / SOFTCAP) : score; }
