// Numbers that blocks exchange one by one, of other GPUs too: units as in the look-ahead, each on its own.
#pragma once
#include "engines/cuda/lookahead.cuh"

template <int BYTES> struct word_of { typedef Unit type; };
template <> struct word_of<1> { typedef unsigned char type; };
template <> struct word_of<2> { typedef unsigned short type; };
template <> struct word_of<4> { typedef unsigned type; };
template <> struct word_of<16> { typedef ulonglong2 type; };
constexpr int UNITS = (int(sizeof(T)) + 3) / 4;

DEVICE inline void publish(Unit* address, T value, unsigned tag) {
  const Packed<T> number(value);
#pragma unroll
  for (int u = 0; u < UNITS; ++u)
    ((volatile Unit*)address)[u] = Unit(tag) << 32 | number.word[u];
}

DEVICE inline void load_words(Unit (&words)[UNITS], const Unit* address) {
#pragma unroll
  for (int u = 0; u < UNITS; ++u) words[u] = ((const volatile Unit*)address)[u];
}

// Return whether no word is from an earlier launch.
DEVICE inline bool has_tag(const Unit (&words)[UNITS], unsigned tag) {
  bool complete = true;
#pragma unroll
  for (int u = 0; u < UNITS; ++u) complete = complete && has_tag(words[u], tag);
  return complete;
}

DEVICE inline T value_of(const Unit (&words)[UNITS]) {
  Packed<T> number;
#pragma unroll
  for (int u = 0; u < UNITS; ++u) number.word[u] = unsigned(words[u]);
  return number.item;
}

// Load a number; return false while any word is from an earlier launch.
DEVICE inline bool received(const Unit* address, unsigned tag, T& value) {
  Unit words[UNITS];
  load_words(words, address);
  value = value_of(words);
  return has_tag(words, tag);
}
