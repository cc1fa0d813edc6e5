// Numbers that blocks exchange: words of 64 bits, half data and half tag.
//
// Each word is written and read whole, so a number needs neither a fence nor a flag. The tag
// identifies the launch: nothing is cleared between launches.
#pragma once

constexpr unsigned ALL = 0xffffffffu;

typedef unsigned long long Unit;
template <int BYTES> struct word_of { typedef Unit type; };
template <> struct word_of<1> { typedef unsigned char type; };
template <> struct word_of<2> { typedef unsigned short type; };
template <> struct word_of<4> { typedef unsigned type; };
template <> struct word_of<16> { typedef ulonglong2 type; };
constexpr int UNITS = (int(sizeof(T)) + 3) / 4;

union Number {
  T value;
  unsigned word[UNITS];
  DEVICE Number() {
#pragma unroll
    for (int u = 0; u < UNITS; ++u) word[u] = 0;
  }
};

// Spans of scans, which use the same memory, have kinds below 3 and up to four rounds an epoch.
DEVICE inline unsigned tag_of(unsigned epoch) { return epoch * 16 + 3; }

DEVICE inline void publish(Unit* address, T value, unsigned tag) {
  Number number;
  number.value = value;
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
  for (int u = 0; u < UNITS; ++u) complete = complete && unsigned(words[u] >> 32) == tag;
  return complete;
}

DEVICE inline T value_of(const Unit (&words)[UNITS]) {
  Number number;
#pragma unroll
  for (int u = 0; u < UNITS; ++u) number.word[u] = unsigned(words[u]);
  return number.value;
}

// Load a number; return false while any word is from an earlier launch.
DEVICE inline bool received(const Unit* address, unsigned tag, T& value) {
  Unit words[UNITS];
  load_words(words, address);
  value = value_of(words);
  return has_tag(words, tag);
}

// Return the value of another lane, given by its distance below this lane or by its number.
template <bool IS_DISTANCE> DEVICE inline T from_lane(T value, int lane) {
  Number mine, theirs;
  mine.value = value;
#pragma unroll
  for (int u = 0; u < UNITS; ++u)
    theirs.word[u] = IS_DISTANCE ? __shfl_up_sync(ALL, mine.word[u], lane)
                                 : __shfl_sync(ALL, mine.word[u], lane);
  return theirs.value;
}
