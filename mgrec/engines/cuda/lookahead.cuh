// Look-ahead across the grid: blocks publish items of their tiles, and fold those of others.
//
// An item (a span, a state, a map) is published as 64-bit units, half data and half tag. Each unit is
// written and read whole, so an item needs no fence, no flag of its own and no 128-bit access (.v4
// accesses of 32 bits tear). The tag distinguishes launches, rounds of a ring and kinds of items, so that
// nothing must be cleared.
//
// Tests without a GPU read the statements in assembler as C++, with the names of their operands here.
#pragma once
#include "engines/cuda/lanes.cuh"

typedef unsigned long long Unit;

// The lowest two bits are the kind of an item.
DEVICE inline unsigned tag_of(unsigned epoch, unsigned round = 0) { return epoch * 16 + round % 4 * 4; }
DEVICE inline bool has_tag(Unit unit, unsigned tag) { return (unsigned(unit >> 32) ^ tag) < 4; }

DEVICE inline void store_pair(Unit* address, Unit first, Unit second) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(first),
               "l"(second)
               : "memory");
}
// Loads a pair, or zeros. With a branch around each load, each would wait for the one before.
DEVICE inline void load_pair_if(bool is_needed, const Unit* address, Unit& first, Unit& second) {
  first = second = 0;
  asm volatile(
      "{.reg .pred asked;\nsetp.ne.b32 asked, %3, 0;\n"
      "@asked ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];\n}"
      : "+l"(first), "+l"(second) : "l"(address), "r"(int(is_needed)) : "memory");
}

// Units of an item of so many words: even, so that pairs are aligned to 16 bytes.
DEVICE constexpr int units_of(int words) { return words + words % 2; }

// Publishes the first COUNT words of an item.
template <int COUNT, class Item>
DEVICE inline void publish_words(Unit* address, const Item& item, unsigned tag) {
  const Packed<Item> words(item);
  const Unit high = Unit(tag) << 32;
#pragma unroll
  for (int u = 0; u < COUNT; u += 2)
    store_pair(address + u, high | words.word[u], high | (u + 1 < COUNT ? words.word[u + 1] : 0));
}

// Polls items that a warp waits for, COUNT a lane of WORDS words, until those of the set `missing` have
// arrived: all before the first is looked at (one by one they took a fifth of the bandwidth of rows).
// `address(k)` and `tag(k)` are those of the k-th item, and `take(k, has_arrived, units)` takes it.
template <int WORDS, int COUNT, class Address, class Tag, class Take>
DEVICE inline void await_items(unsigned missing, Address address, Tag tag, Take take) {
  static_assert(COUNT <= 32, "a bit for each item");
  do {
    Unit units[COUNT][units_of(WORDS)];
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
#pragma unroll
      for (int u = 0; u < WORDS; u += 2)
        load_pair_if(missing >> k & 1, address(k) + u, units[k][u], units[k][u + 1]);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
      bool has_arrived = missing >> k & 1;
#pragma unroll
      for (int u = 0; u < units_of(WORDS); ++u)
        has_arrived = has_arrived & has_tag(units[k][u], tag(k));
      take(k, has_arrived, units[k]);
      missing &= ~(unsigned(has_arrived) << k);
    }
  } while (__any_sync(ALL, missing != 0));
}

// Barriers of some warps of a block. Barrier 0 is that of the block, 1 that of its scanning warps.
DEVICE inline void arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEVICE inline void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
